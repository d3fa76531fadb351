"""Kernels that only move elements: every item size, the constants that `bind` chooses, and others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from catalog_runs import run

from kernellab.arrays import ArraySpec
from kernellab.catalog import kernel
from kernellab.devices.emulated import compile_kernels
from kernellab.errors import SpecError
from kernellab.instruments.trace import totals
from kernellab.kernel import LANGUAGES
from kernellab.plan import bind
from kernellab.problem import MOVED, dtype_named
from kernellab.verify import verify

BEST = kernel("transpose/vectorised")
CHOSEN = [{"LINES": 1 if element == "uint8" else 2} for element in MOVED]


def checked(rung, arrays, language):
    """Bind, run and verify; return the plan and the totals."""
    plan = bind(rung, arrays)
    made = dict(zip([plan.kernel.entry], compile_kernels([plan.kernel], language, "sm_90"), strict=True))
    outputs, traces = run(plan, lambda part: made[part.entry], language, sanitize=True)
    assert verify(plan, outputs).is_right
    assert all(trace.diagnostics == () for trace in traces)
    return plan, totals(traces)


def bits(shape, element, seed=0):
    dtype = dtype_named(element)
    count = int(np.prod(shape)) * dtype.itemsize
    return np.frombuffer(np.random.default_rng(seed).bytes(count), dtype).reshape(shape)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize(("element", "chosen"), [*zip(MOVED, CHOSEN, strict=True)])
def test_transpose_as_it_is_tuned(element, chosen, language):
    plan, found = checked(BEST, {"x": bits((256, 384), element)}, language)
    assert dict(plan.steps[0].constants).items() >= chosen.items()
    assert found["shared_load_bank_conflicts"] == found["shared_store_bank_conflicts"] == 0
    assert found["local_load_requests"] == 0
    checked(BEST, {"x": bits((133, 272), element)}, language)


@pytest.mark.parametrize(("element", "lines"), [("float32", 3), ("float64", 3), ("float64", 4)])
@pytest.mark.parametrize("language", LANGUAGES)
def test_transpose_with_other_tiles(element, lines, language):
    rung = replace(BEST, constants={"LINES": lines}).with_element(element)
    _, found = checked(rung, {"x": bits((192, 576), element)}, language)
    assert found["shared_load_bank_conflicts"] == 0


@pytest.mark.parametrize("lines", [1, 2])
def test_transpose_by_matrices(lines):
    rung = kernel("transpose/matrices").with_constants(LINES=lines)
    for shape in ((256, 384), (8, 264), (136, 72)):
        _, found = checked(rung, {"x": bits(shape, "float16")}, "cuda-c")
        assert found["shared_load_bank_conflicts"] == found["shared_store_bank_conflicts"] == 0
    with pytest.raises(
        SpecError, match=r"^transpose/matrices: there are 9 columns, it must be a multiple of 8"
    ):
        bind(rung, {"x": bits((8, 9), "float16")})
    assert bind(rung, {"x": bits((8, 9), "float16")}, fall_back=True).kernel.name == "vectorised"
    with pytest.raises(SpecError, match=r"^transpose/matrices: LINES is 3, it must be 1 or 2; take 2$"):
        bind(rung.with_constants(LINES=3), {"x": bits((8, 8), "float16")})


@pytest.mark.parametrize("columns", [1, 3, 4, 24, 1000, 1001, 5000])
def test_rows_as_they_are_tuned(columns):
    table, index = bits((5, columns), "float32"), np.array([4, -1, 0, -5, 2, 2, 1])
    plan, _ = checked(kernel("take_rows/vectorised"), {"table": table, "index": index}, "cuda-c")
    pieces = columns if columns % 4 else columns // 4
    lanes = plan.steps[0].constants["LANES_A_ROW"]
    assert lanes == 256 or pieces <= lanes < 2 * pieces


def test_a_few_long_rows_are_spread_over_the_device():
    table = ArraySpec((4, 2**22), dtype_named("float32"))
    (launch,) = bind(kernel("take_rows/vectorised"), {"table": table, "index": np.arange(2)}).steps
    assert launch.grid == (1, 2**12, 1)


@pytest.mark.parametrize(
    ("name", "shape"), [("take/unrolled", (2**33,)), ("take_rows/vectorised", (2**33, 1))]
)
def test_gathers_from_beyond_32_bits(name, shape):
    (launch,) = bind(
        kernel(name),
        {"table": ArraySpec(shape, dtype_named("uint8")), "index": np.array([-(2**33), 2**33 - 1])},
    ).steps
    assert launch.arguments["length"] == 2**33


@pytest.mark.parametrize("element", MOVED)
def test_transpose_beyond_32_bits(element):
    x = ArraySpec((2**17 + 1, 2**17), dtype_named(element))
    (launch,) = bind(BEST, {"x": x}).steps
    side = 16 * 16 // x.dtype.itemsize if element != "uint8" else 128
    assert launch.grid == (-(-x.shape[0] // side) * (2**17 // side), 1, 1)


@pytest.mark.parametrize(("element", "ways"), [("float32", 1), ("float64", 1), ("float16", 2), ("uint8", 4)])
def test_odd_shapes_part_their_columns_over_the_banks(element, ways):
    _, found = checked(BEST, {"x": bits((257, 131), element)}, "cuda-c")
    assert found["shared_load_wavefronts"] <= 1.2 * ways * found["shared_load_requests"] * (
        2 if element == "float64" else 1
    )
    assert found["local_load_requests"] == 0
