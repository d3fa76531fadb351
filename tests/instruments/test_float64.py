"""Field report F15: float64 arithmetic in kernels that hold none, found in the PTX, by source line."""

from __future__ import annotations

import numpy as np
import pytest

from kernellab.catalog import kernel
from kernellab.compile import compile_cuda, compile_numba, numba_types
from kernellab.devices import device
from kernellab.instruments import static
from kernellab.instruments.float64 import float64_lines, holds_float64
from kernellab.plan import bind

CALLING = """__device__ __noinline__ float bent(float x) {
    return 0.1 * x + 0.2;
}
extern "C" __global__ void calls(float* x) { x[0] = bent(x[0]); }
extern "C" __global__ void plain(float* x) { x[0] = 0.1f * x[0] + 0.2f; }
extern "C" __global__ void widened(const float* x, double* y) { y[0] = x[0]; }
extern "C" __global__ void by_value(float* x, double a) { x[0] = a * x[0] + a; }
"""


def test_what_is_called_counts_and_what_is_not_does_not() -> None:
    binary = compile_cuda(CALLING)
    (line,) = float64_lines(binary, "calls")
    assert (line.number, line.text) == (2, "return 0.1 * x + 0.2;")
    assert line.opcodes == ("cvt.f64.f32", "fma.rn.f64", "cvt.rn.f32.f64")
    assert float64_lines(binary, "plain") == ()


@pytest.mark.parametrize(("entry", "is_held"), [("calls", False), ("widened", True), ("by_value", False)])
def test_a_kernel_that_moves_float64_means_it(entry: str, is_held: bool) -> None:
    assert holds_float64(compile_cuda(CALLING), entry) == is_held


def test_numba_makes_float32_times_an_integer_float64() -> None:
    pytest.importorskip("numba_cuda")
    from numba import cuda, float32

    def by_index(x):  # type: ignore[no-untyped-def]
        i = cuda.threadIdx.x
        x[i] = x[i] * i + float32(0.5)

    def by_float(x):  # type: ignore[no-untyped-def]
        i = cuda.threadIdx.x
        x[i] = x[i] * float32(i) + x[i]

    types = numba_types([np.zeros(4, np.float32)])
    found = []
    for function in (by_index, by_float):
        binary = compile_numba(function, types)
        found.append(float64_lines(binary, binary.names[function.__name__]))
    assert [line.text for line in found[0]] == ["x[i] = x[i] * i + float32(0.5)"]
    assert "an integer met a float32" in found[0][0].cause
    assert found[1] == ()


def test_a_record_says_how_many_and_where() -> None:
    counts = {}
    for rung in ("double_literals", "single"):
        stock = kernel(f"horner/{rung}")
        plan = bind(stock, stock.problem.inputs(stock.problem.cases[0]))
        readings = static.ptx_mix(device("emulator").build(stock), plan)
        (counts[rung],) = [each for each in readings if each.name == "ptx_float64_instructions"]
    assert counts["double_literals"].value == 5
    assert "double_literals.cu:21 `value = 0.5 * x_value * value + 1.0;`" in counts["double_literals"].note
    assert (counts["single"].value, counts["single"].note) == (0, "")
