"""Instructions as machine code has them: what one PTX instruction becomes, and what is seldom executed."""

from __future__ import annotations

import numpy as np
import pytest

import kernellab as kl

# An iteration of the loops below in the listing of nvdisasm, by hand: from the label to the branch back, without
# the call of the routine for awkward operands. The loop's own are 5: two counters' steps, a compare, an add, a jump.
TEXT = """extern "C" __global__ void product(const float* __restrict__ x, float* __restrict__ y, int n) {
    float a = x[threadIdx.x], sum = 0;
#pragma unroll 1
    for (int k = 0; k < n; ++k, a += 1.0f / 64) { sum += a * x[0]; }
    y[threadIdx.x] = sum;
}
extern "C" __global__ void quotient(const float* __restrict__ x, float* __restrict__ y, int n) {
    float a = x[threadIdx.x], sum = 0;
#pragma unroll 1
    for (int k = 0; k < n; ++k, a += 1.0f / 64) { sum += x[0] / a; }
    y[threadIdx.x] = sum;
}
extern "C" __global__ void power(const float* __restrict__ x, float* __restrict__ y, int n) {
    float a = x[threadIdx.x], sum = 0;
    if (n > 8) {
#pragma unroll 1
        for (int k = 0; k < n; ++k, a += 1.0f / 64) { sum += __expf(a) * x[0]; }
    } else {
#pragma unroll 1
        for (int k = 0; k < n; ++k, a += 1.0f / 64) { sum += __powf(a, x[0]); }
    }
    y[threadIdx.x] = sum;
}
"""


def an_iteration(entry: str, *options: str) -> float:
    """Warp instructions of one pass of a kernel's loop."""
    x, y = np.linspace(1, 2, 32, dtype=np.float32), np.zeros(32, np.float32)
    traces = [kl.trace(TEXT, entry, 1, 32, (x, y, n), options=options) for n in (1, 5)]
    if {trace.source for trace in traces} != {"SASS"} and not traces[0].mapped:
        pytest.skip("no nvdisasm")
    assert all(trace.source == "SASS" for trace in traces), traces[0].notes
    few, many = (trace.totals["warp_instructions"] for trace in traces)
    return (many - few) / 4


def test_a_division_is_the_instructions_that_ptxas_makes_of_it() -> None:
    # MUFU, BSSY, FCHK, 5 FFMA, BRA and BSYNC in place of the multiplication, which is one with the addition.
    assert 9 <= an_iteration("quotient") - an_iteration("product") <= 11


def test_so_is_that_of_numba_which_links_the_routine() -> None:
    pytest.importorskip("numba_cuda")

    def quotient(x, y, n):  # type: ignore[no-untyped-def]
        a, total = x[0], x[0]
        for _ in range(n):
            total = x[1] / (a + total)
        y[0] = total

    def product(x, y, n):  # type: ignore[no-untyped-def]
        a, total = x[0], x[0]
        for _ in range(n):
            total = x[1] * (a + total)
        y[0] = total

    x, y = np.ones(2, np.float32), np.zeros(1, np.float32)
    found = []
    for kernel in (quotient, product):
        few, many = (kl.trace(kernel, 1, 1, (x, y, n)).totals["warp_instructions"] for n in (4, 20))
        found.append((many - few) / 16)
    assert 9 <= found[0] - found[1] <= 12, found


def test_a_jump_behind_a_loop_is_no_second_copy_of_it() -> None:
    # MUFU.LG2, FMUL, MUFU.EX2.
    assert an_iteration("power", "--use_fast_math") - an_iteration("product") == 3
