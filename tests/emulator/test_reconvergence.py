"""Where a diverged warp comes together: counts that an H200 gave for kernels that leave loops in odd ways."""

from __future__ import annotations

import numpy as np
import pytest

import kernellab as kl

SOURCE = """
#define KERNEL(name) extern "C" __global__ void name(const int* x, int* y, int n)
KERNEL(continues_and_returns) {
    for (int i = 0; i < n; i++) {
        int v = x[i * 32 + threadIdx.x];
        if (v % 5 == 0) continue;
        if (v == 3 * i) return;
        y[v] = v * v;
    }
}
KERNEL(breaks_in_one_arm) {
    int found = -1;
    for (int i = 0; i < n; i++) {
        int v = x[i * 32 + threadIdx.x];
        if (v & 1) {
            y[v] = v;
            if (v * 7 % 31 == threadIdx.x) { found = i; break; }
        } else {
            y[v] = -v;
        }
    }
    y[threadIdx.x] = found;
}
KERNEL(continues_and_breaks) {
    int sum = 0;
    for (int i = 0; i < n; i++) {
        int v = x[i * 32 + threadIdx.x];
        if (v % 5 == 0) continue;
        if (v % 97 == 3) break;
        sum += v;
        if (sum & 1) { y[threadIdx.x] = sum; sum = __popc(sum) + y[sum & 63]; }
    }
    y[threadIdx.x + 64] = sum;
}
"""
NAMES = (
    "global_load_requests", "global_load_sectors", "global_store_requests", "global_store_sectors",
    "divergent_branches",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "on_an_h200"),
    [
        ("continues_and_returns", (20, 80, 20, 80, 20)),
        ("breaks_in_one_arm", (20, 80, 41, 164, 28)),
        ("continues_and_breaks", (40, 173, 21, 77, 45)),
    ],
)
def test_counts_of_a_warp(name, on_an_h200):
    x, y = np.arange(640, dtype=np.int32), np.zeros(640, np.int32)
    trace = kl.trace(SOURCE, name, 1, 32, (x, y, 20))
    assert tuple(trace.totals[each] for each in NAMES) == on_an_h200


def test_lanes_that_break_do_not_run_ahead_of_the_loop():
    code = """extern "C" __global__ void longest(const int* x, int* y) {
        int i = 0;
        while (i < x[threadIdx.x]) i++;
        y[threadIdx.x] = i;
    }"""
    x, y = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    trace = kl.trace(code, "longest", 1, 32, (x, y))
    assert y.tolist() == x.tolist()
    assert trace.totals["global_store_requests"] == 1
