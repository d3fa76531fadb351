"""Products on tensor cores by the warp: shapes, what goes wrong in such kernels, and a published example's faults."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import pytest
from catalog_runs import run

from kernellab.catalog import kernel, products
from kernellab.compile import compile_cuda
from kernellab.errors import CompileError, ExecutionError, SpecError
from kernellab.kernel import kernels_folder
from kernellab.plan import bind
from kernellab.verify import verify

SHAPES = (
    {"ROWS": 128, "COLUMNS": 256, "DEPTH": 64, "STAGES": 4},
    {"ROWS": 256, "COLUMNS": 128, "DEPTH": 32, "STAGES": 4},
    {"ROWS": 128, "COLUMNS": 128, "DEPTH": 32, "STAGES": 5},
)
LONG = products.case(136, 264, 328, "float16")
SHORT = products.case(128, 128, 192, "float16")


def build(rung):
    options = [f"-D{name}={value}" for name, value in rung.constants.items()]
    return compile_cuda(rung.text(), path=rung.path, options=options)


def verdict_of(rung, case, **options):
    inputs = rung.problem.inputs(case)
    plan = bind(replace(rung.with_element(case.element), tuning=None), inputs)
    outputs, (trace,) = run(plan, build(plan.kernel), "cuda-c", **options)
    return verify(plan, outputs), trace


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["matmul/mma", "matmul_nt/mma"])
def test_every_tile_is_right_and_free_of_conflicts(name, shape, seed):
    verdict, trace = verdict_of(kernel(name).with_constants(**shape), LONG, sanitize=True, seed=seed)
    assert verdict.is_right, verdict.message
    assert trace.diagnostics == ()
    assert trace.totals["shared_load_bank_conflicts"] == trace.totals["shared_store_bank_conflicts"] == 0


@pytest.mark.parametrize("name", ["matmul/mma", "matmul_nt/mma"])
def test_few_tiles_are_small_ones(name):
    def tile_of(m, n):
        inputs = {"a": np.empty((m, 8), "float16"), "b": np.empty((8, n), "float16")}
        inputs["b"] = inputs["b"] if name == "matmul/mma" else np.empty((n, 8), "float16")
        launch = bind(kernel(name), inputs).steps[0]
        return launch.constants["COLUMNS"], launch.block[0], launch.grid[0]

    assert tile_of(1024, 1024) == (128, 128, 64)
    assert tile_of(2048, 2048) == (256, 256, 128)


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        (
            {"ROWS": 64},
            "ROWS x COLUMNS by DEPTH are 64 x 128 by 64, they must be 128 x 128, 128 x 256 or 256 x 128",
        ),
        (
            {"STAGES": 1},
            "STAGES is 1, it must be 2 or more, and hold 32768 bytes, not 32768; take 3",
        ),
        (
            {"STAGES": 8},
            ".* 262144 ",
        ),
    ],
)
def test_tiles_that_do_not_fit_are_refused(constants, message):
    rung = kernel("matmul/mma").with_constants(**constants)
    with pytest.raises(SpecError, match=f"^matmul/mma: {message}"):
        bind(rung, rung.problem.inputs(SHORT))


def test_rows_that_are_not_whole_vectors_go_to_wmma():
    rung = kernel("matmul/mma")
    inputs = rung.problem.inputs(products.case(31, 37, 24, "float16"))
    with pytest.raises(SpecError, match=r"^matmul/mma: n is 37, it must be a multiple of 8 and not 0; "):
        bind(rung, inputs)
    plan = bind(rung, inputs, fall_back=True)
    assert plan.kernel.id == "matmul/wmma"
    assert plan.notes[0].startswith("matmul/mma: n is 37, ")


@pytest.fixture
def mutant(tmp_path):
    """Return the function (kernel, old, new) -> kernel whose copy includes a header with one replacement."""

    def make(rung, old, new, header="warps.cuh"):
        shutil.copytree(kernels_folder() / "include", tmp_path, dirs_exist_ok=True)
        text = (tmp_path / header).read_text(encoding="utf-8")
        assert old in text
        (tmp_path / header).write_text(text.replace(old, new), encoding="utf-8")
        path = tmp_path / f"{rung.name}.cu"
        path.write_text(rung.text(), encoding="utf-8")
        return replace(rung, source=path)

    return make


def test_without_a_swizzle_eight_rows_meet_in_a_bank(mutant):
    rung = mutant(kernel("matmul_nt/mma"), "piece ^ row % 8", "piece", header="mma.cuh")
    verdict, trace = verdict_of(rung, SHORT)
    waves = trace.totals["shared_load_wavefronts"] / trace.totals["shared_load_requests"]
    _, right = verdict_of(kernel("matmul_nt/mma"), SHORT)
    assert verdict.is_right
    assert waves > 16
    assert right.totals["shared_load_wavefronts"] == 4 * right.totals["shared_load_requests"]


def test_a_wait_for_too_few_copies_is_found(mutant):
    rung = mutant(kernel("matmul/mma"), "wait_for_copies<RING - 2>", "wait_for_copies<RING - 1>")
    with pytest.raises(ExecutionError, match=r"in flight: .*mma\.cu:\d+"):
        verdict_of(rung, SHORT, sanitize=True)


def test_a_missing_barrier_is_found(mutant):
    old = "wait_for_copies<RING - 2>();\n                    __syncthreads();"
    rung = mutant(kernel("matmul/mma"), old, "wait_for_copies<RING - 2>();")
    _, trace = verdict_of(rung, SHORT, sanitize=True, errors="return")
    assert {each.kind for each in trace.diagnostics} & {"race", "in flight"}


class TestFaultyExample:
    RUNG = kernel("matmul_bias_gelu/wmma_faulty")

    def verdict(self, change=None):
        inputs = self.RUNG.problem.inputs(products.case(32, 48, 64, "float16"))
        plan = bind(self.RUNG, {**inputs, **(change or {})})
        outputs, _ = run(plan, build(plan.kernel), "cuda-c", sanitize=True, with_sass=False)
        return verify(plan, outputs)

    def test_biases_land_in_other_columns(self):
        verdict = self.verdict()
        assert not verdict.is_right
        assert "y differs in " in verdict.message

    def test_equal_biases_hide_it(self):
        assert self.verdict({"bias": np.full(48, 0.5, "float16")}).is_right

    def test_as_it_was_written_it_does_not_compile(self):
        build(self.RUNG)
        with pytest.raises(CompileError, match=r"store_matrix_sync"):
            build(self.RUNG.with_constants(AS_WRITTEN=1))

    def test_the_right_one_goes_through_memory(self):
        verdict, _ = verdict_of(kernel("matmul_bias_gelu/wmma"), products.case(32, 48, 64, "float16"))
        assert verdict.is_right, verdict.message
