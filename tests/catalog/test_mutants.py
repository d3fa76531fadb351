"""Kernels broken on purpose, in a copy: each break is seen, and only where it was made."""

from __future__ import annotations

from dataclasses import replace

import pytest
from catalog_runs import plan_of, run

from kernellab.catalog import kernel
from kernellab.compile import compile_cuda, compile_numba
from kernellab.errors import ExecutionError
from kernellab.verify import verify


@pytest.fixture
def mutant(tmp_path):
    """Return the function (kernel, old, new) -> kernel whose copied .cu has one replacement."""

    def make(rung, old, new):
        text = rung.text()
        assert old in text
        path = tmp_path / f"{rung.name}.cu"
        path.write_text(text.replace(old, new), encoding="utf-8")
        return replace(rung, source=path)

    return make


def build(rung, language):
    if language == "numba":
        return compile_numba(rung.twin_function(), rung.twin_types(), name=rung.entry)
    options = [f"-D{name}={value}" for name, value in rung.constants.items()]
    return compile_cuda(rung.text(), path=rung.path, options=options)


def verdict_of(rung, language="cuda-c", case=0, **options):
    plan = plan_of(rung, rung.cases[case])
    outputs, traces = run(plan, build(rung, language), language, **{"with_sass": False, **options})
    return verify(plan, outputs), traces[0]


def test_a_flipped_constant_changes_the_output(mutant):
    verdict, _ = verdict_of(mutant(kernel("relu/branch_free"), "? 0.0f :", "? 1.0f :"))
    assert "y differs in 32768 of 65536 elements" in verdict.message
    assert verdict_of(kernel("relu/branch_free"))[0].is_right


def test_a_flipped_constant_changes_the_counts(mutant):
    _, right = verdict_of(kernel("transpose/padded"), with_sass=True)
    verdict, wrong = verdict_of(
        mutant(kernel("transpose/padded"), "[TILE + 1]", "[TILE + 0]"), with_sass=True
    )
    assert verdict.is_right
    assert right.totals["shared_load_bank_conflicts"] == 0
    assert wrong.totals["shared_load_bank_conflicts"] == 31 * wrong.totals["shared_load_requests"]


def test_a_missing_barrier(mutant):
    rung = mutant(kernel("transpose/tiled"), "    __syncthreads();\n", "")
    _, trace = verdict_of(rung, sanitize=True)
    (race,) = trace.diagnostics
    assert race.kind == "race"
    assert "tile[threadIdx.x][threadIdx.y]" in trace.line(race.line).text
    assert verdict_of(kernel("transpose/tiled"), sanitize=True)[1].diagnostics == ()


def test_a_store_off_by_one(mutant):
    rung = mutant(kernel("copy/scalar"), "y[i] = value;", "y[i + 1] = value;")
    with pytest.raises(ExecutionError, match=r"out of bounds global store.*scalar\.cu:19"):
        verdict_of(rung)
    verdict, _ = verdict_of(rung, errors="record")
    assert not verdict.is_right


def test_a_bound_off_by_one(mutant):
    rung = mutant(kernel("copy/scalar"), "if (i < n)", "if (i + 1 < n)")
    verdict, _ = verdict_of(rung)
    assert "y differs in 1 of 65536 elements, first at [65535]" in verdict.message
    assert "which nothing wrote there" in verdict.message


def test_swapped_axes(mutant):
    rung = mutant(kernel("transpose/naive"), "y[j * rows + i]", "y[i * columns + j]")
    assert not verdict_of(rung)[0].is_right


def test_a_corrupted_twin_fails_alone():
    rung = kernel("copy/scalar")

    def corrupted(element):
        from numba import cuda

        def copy_scalar(x, y):
            i = cuda.grid(1)
            if i < x.size:
                y[i] = x[i] + x[i]

        return copy_scalar

    rung = replace(rung, twin=corrupted)
    assert not verdict_of(rung, "numba")[0].is_right
    assert verdict_of(rung, "cuda-c")[0].is_right


@pytest.mark.parametrize("name", ["naive", "tiled", "padded", "swizzled"])
@pytest.mark.parametrize("language", ["cuda-c", "numba"])
def test_tile_16_works_in_the_same_process(name, language):
    rung = replace(kernel(f"transpose/{name}"), constants={"TILE": 16})
    for case in range(len(rung.cases)):
        if 0 not in rung.cases[case].sizes.values():
            assert verdict_of(rung, language, case)[0].is_right
