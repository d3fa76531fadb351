"""Device functions: recursion, structures by value, pointers to functions, printf, assert, malloc."""

from __future__ import annotations

import math

import numpy as np
import pytest
from launching import Kernels, integers

from kernellab.errors import ExecutionError

CONTROL = Kernels.of("control.cu")
TYPES = Kernels.of(
    "types.cu", arch="sm_80", names=("stencil<float, 2>", "stencil<int, 1>", "stencil<double, 3>")
)
f32, i32 = np.float32, np.int32


def test_recursion():
    y = np.zeros(96, i32)
    CONTROL("recursion", 1, 32, y)

    def ackermann(m, n):
        if m == 0:
            return n + 1
        return ackermann(m - 1, 1 if n == 0 else ackermann(m, n - 1))

    fibonacci = [0, 1, 1, 2, 3, 5, 8, 13, 21]
    for i in range(32):
        assert y[i::32].tolist() == [math.factorial(i % 11), ackermann(i % 3, i % 4), fibonacci[i % 9]]


def test_each_lane_sorts_its_row_by_recursion(rng):
    x = integers(rng, -50, 50, (32, 20))
    expected = np.sort(x, 1)
    CONTROL("sort_rows", 1, 32, x, 20)
    np.testing.assert_array_equal(x, expected)


def test_structures_by_value(rng):
    x = (rng.standard_normal(32) + 1j * rng.standard_normal(32)).astype(np.complex64)
    y, z = np.zeros_like(x), np.zeros(32)
    CONTROL("by_value", 1, 32, x.view(f32), y.view(f32), z)
    np.testing.assert_allclose(y, x**4, rtol=1e-4)
    for i in range(32):
        a, steps = [1.0, 2.0, 3.0], [0.5, 1.0] if i % 2 else [1.0]
        for by in steps:
            a = [v + by * k for k, v in enumerate(a)]
        assert z[i] == a[0] + a[1] * 10 + a[2] * 100 + (i + len(steps)) * 1000 + 0.5


def test_pointers_to_functions_in_a_table(rng):
    x, y = integers(rng, 0, 9, 32), np.zeros(32, i32)
    CONTROL("pointers", 1, 32, x, y)
    for i, v in enumerate(x.tolist()):
        assert y[i] == [v + i % 5, v - i % 5, v ** (i % 5)][i % 3]


def test_virtual_functions():
    y, i = np.zeros(32, f32), np.arange(32)
    CONTROL("virtuals", 1, 32, y, 1)
    np.testing.assert_array_equal(y, np.where(i % 2 == 0, 3 * i * i, i * i))


def test_recursion_that_does_not_end():
    text = """
    __device__ __noinline__ int down(volatile int* x, int n) { return x[0] == 1 ? n : down(x, n + 1) + x[0]; }
    extern "C" __global__ void f(int* x) { x[1] = down(x, 0); }"""
    with pytest.raises(ExecutionError, match=r"f: calls are \d+ deep, .* does the recursion end\?"):
        Kernels(text)("f", 1, 1, np.zeros(2, i32))


def test_printf(capsys):
    x = np.array([1.25, -2.5, 1e6], f32)
    trace = TYPES("prints", 1, 32, x, 3)
    lines = trace.output.splitlines()
    assert lines[0] == "0:  1.25|0     |0000ff|a|even|1.250000e+03|0|%|4000000000|   ab|+0|0.5|10000000000"
    assert lines[1].startswith("1: -2.50|3     |000100|b|odd|-2.500000e+03|-5000000000|")
    assert lines[3] == "plain"
    assert capsys.readouterr().out == trace.output


def test_assert_names_the_expression_and_the_thread():
    x = np.ones(32, i32)
    TYPES("asserts", 1, 32, x)
    x[7] = -1
    with pytest.raises(
        ExecutionError, match=r"assertion failed: `x\[threadIdx\.x\] >= 0.*thread \(7, 0, 0\)"
    ):
        TYPES("asserts", 1, 32, x)


def test_memory_allocated_in_a_kernel():
    y = np.zeros(64, i32)
    TYPES("allocates", 1, 64, y.view(np.uint64), 10)
    np.testing.assert_array_equal(y, 45 * np.arange(64))
