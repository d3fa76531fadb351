"""Arguments of a launch: kinds, dtypes, values that do not fit, layouts, geometry."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from launching import Kernels

from kernellab.errors import ArgumentError, SpecError

MEMORY = Kernels.of("memory.cu")
f32, i32 = np.float32, np.int32
GOOD = (np.zeros(8), 0.1, 1 / 3, -5, 255, 2**40, True, -7, 2**32 - 1)


def test_plain_numbers_take_the_type_of_the_parameter():
    y = np.zeros(8)
    MEMORY("scalars", 1, 1, y, *GOOD[1:])
    assert y.tolist() == [float(f32(0.1)), 1 / 3, -5, 255, 2**40, 1, -7, 2**32 - 1]


def test_numpy_scalars_of_the_exact_type():
    y = np.zeros(8)
    values = (
        f32(0.1),
        np.float64(2),
        i32(3),
        np.uint8(4),
        np.int64(5),
        np.bool_(True),
        np.int16(6),
        np.uint32(7),
    )
    MEMORY("scalars", 1, 1, y, *values)
    assert y.tolist() == [float(v) for v in values]


def test_a_whole_number_for_a_float_and_an_array_of_no_dimension():
    y = np.zeros(8)
    MEMORY("scalars", 1, 1, y, 5, 7, np.array(3, i32), *GOOD[4:])
    assert y[:3].tolist() == [5, 7, 3]


WRONG = [
    (
        0,
        np.zeros(8, f32),
        r"y is `double\*` and takes an array of float64, got float32; .*astype\('float64'\)",
    ),
    (0, np.zeros(8, ">f8"), r"y is `double\*` and takes an array of float64, got >f8"),
    (0, 3, r"y is `double\*`, got int 3; pass an array"),
    (0, [1.0], r"y is `double\*`, got list \[1.0\]; pass an array"),
    (0, "x", r"y is `double\*`, got str 'x'"),
    (1, np.zeros(8), r"a is `float`, got an array of float64; pass a scalar"),
    (1, None, r"a is `float`, got None"),
    (1, np.float64(0.1), r"a is `float` of 4 bytes, got a float64 scalar of 8"),
    (1, np.float16(1), r"a is `float` of 4 bytes, got a float16 scalar of 2"),
    (1, 1j, r"a is `float`, got the complex number 1j"),
    (3, 2.5, r"c is `int`, got the float 2.5; pass an integer"),
    (3, f32(1), r"c is `int`, got a float32 scalar"),
    (3, np.int64(5), r"c is `int` of 4 bytes, got a int64 scalar of 8"),
]
TOO_LARGE = [
    (0, np.zeros(16)[::2], r"y is not contiguous .*numpy\.ascontiguousarray"),
    (0, np.zeros((3, 3), order="F"), r"y is not contiguous"),
    (1, 1e39, r"a is `float`, and 1e\+39 is too large"),
    (3, 2**31, r"c is `int` and holds -2147483648 to 2147483647, got 2147483648"),
    (4, 256, r"d is `unsigned char` and holds 0 to 255, got 256"),
    (4, -1, r"d is `unsigned char` and holds 0 to 255, got -1"),
    (5, 2**63, r"e is `long long` and holds .* got 9223372036854775808"),
    (7, 40000, r"g is `short` and holds -32768 to 32767, got 40000"),
    (8, -1, r"h is `unsigned` and holds 0 to 4294967295, got -1"),
]


@pytest.mark.parametrize(("position", "value", "message"), WRONG, ids=str)
def test_the_wrong_kind_is_refused(position, value, message):
    arguments = [*GOOD[:position], value, *GOOD[position + 1 :]]
    with pytest.raises(ArgumentError, match=rf"^scalars: {message}"):
        MEMORY("scalars", 1, 1, *arguments)


@pytest.mark.parametrize(("position", "value", "message"), TOO_LARGE, ids=str)
def test_what_does_not_fit_is_refused(position, value, message):
    arguments = [*GOOD[:position], value, *GOOD[position + 1 :]]
    with pytest.raises(SpecError, match=rf"^scalars: {message}"):
        MEMORY("scalars", 1, 1, *arguments)


@pytest.mark.parametrize("count", [0, 8, 10])
def test_the_wrong_number_lists_the_parameters(count):
    with pytest.raises(
        ArgumentError, match=rf"takes 9 arguments \(double\* y, float a, .*unsigned h\), got {count}"
    ):
        MEMORY("scalars", 1, 1, *(*GOOD, 1)[:count])


def test_bfloat16_structures_and_complex_numbers_by_pointer():
    text = """
    #include <cuda_bf16.h>
    struct P { float x; int n; };
    extern "C" __global__ void f(__nv_bfloat16* b, P* p, float2* c, const P one, void* raw) {
        b[0] = __float2bfloat16(1.5f); p[1].n = one.n + 1; p[1].x = one.x; c[0] = make_float2(c[0].y, c[0].x);
        ((unsigned char*)raw)[2] = 7;
    }"""
    record = np.dtype([("x", f32), ("n", i32)])
    b, p, c, raw = (
        np.zeros(2, ml_dtypes.bfloat16),
        np.zeros(2, record),
        np.array([1 + 2j], "c8"),
        np.zeros(4, "u1"),
    )
    Kernels(text)("f", 1, 1, b, p, c, np.array((2.5, 41), record)[()], raw)
    assert (float(b[0]), p[1]["n"], p[1]["x"], c[0], raw[2]) == (1.5, 42, 2.5, 2 + 1j, 7)


# -- geometry
@pytest.mark.parametrize(
    ("grid", "block"),
    [(2, (4, 2, 3)), ([2, 3], 64), ((np.int64(3), 1), np.array([2, 2])), ((1,), (1024, 1, 1))],
)
def test_geometry_is_an_integer_or_up_to_three(grid, block):
    y = np.zeros(5000, i32)
    trace = MEMORY("block_sizes", grid, block, y)
    blocks, threads = int(np.prod(grid)), int(np.prod(block))
    assert np.count_nonzero(y) == blocks * threads
    assert (len(trace.grid), len(trace.block)) == (3, 3)


@pytest.mark.parametrize("grid", [0, (1, 0), [0, 5]])
def test_an_empty_grid_runs_nothing(grid):
    y = np.zeros(32, i32)
    trace = MEMORY("block_sizes", grid, 32, y)
    assert not y.any()
    assert trace.totals["warp_instructions"] == 0


@pytest.mark.parametrize(
    ("grid", "block", "error", "message"),
    [
        (1, (1024, 2), SpecError, r"block \(1024, 2, 1\) has 2048 threads, the limit is 1024"),
        (1, 0, SpecError, r"block \(0, 1, 1\) has no threads"),
        (1, (1, 1, 65), SpecError, "block is 65 along z, the limit is 64"),
        ((1, 70000), 1, SpecError, "grid is 70000 along y, the limit is 65535"),
        (2**31, 1, SpecError, "grid is 2147483648 along x"),
        (-1, 1, SpecError, "grid is -1, no side may be negative"),
        (1.5, 1, ArgumentError, "grid is 1.5, it must be one to three integers"),
        ("a", 1, ArgumentError, "grid is 'a'"),
        ((), 1, ArgumentError, r"grid is \(\)"),
        (1, (1, 2, 3, 4), ArgumentError, r"block is \(1, 2, 3, 4\)"),
    ],
)
def test_geometry_that_no_gpu_launches(grid, block, error, message):
    with pytest.raises(error, match=f"^block_sizes: {message}"):
        MEMORY("block_sizes", grid, block, np.zeros(1, i32))
