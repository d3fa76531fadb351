"""A sample of a large grid: strata, errors, and kernels that cannot be sampled."""

from __future__ import annotations

import numpy as np
import pytest
from launching import Kernels

from kernellab.emulator.sampling import choose, size_of, strata
from kernellab.errors import SpecError

TEXT = """
extern "C" __global__ void edges(float* x, int rows, int columns) {
    int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows && j < columns) x[(long long)i * columns + j] = 1;
}
extern "C" __global__ void uneven(float* x) {
    for (int k = 0; k < blockIdx.x % 7; ++k) x[blockIdx.x * 32 + threadIdx.x] += 1;
}
extern "C" __global__ void waits(volatile int* turn) {
    if (threadIdx.x == 0) { while (*turn != blockIdx.x) {} *turn = blockIdx.x + 1; }
}
extern "C" __global__ void counts(const int* x, int* bins, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[x[i]], 1);
}
"""
KERNELS = Kernels(TEXT)


@pytest.mark.parametrize("grid", [(5, 1, 1), (1, 1, 1), (4, 3, 1), (3, 4, 5), (2, 2, 2), (1, 7, 2)])
def test_strata_hold_every_block_once(grid):
    numbers = np.concatenate([choose(boxes, grid, range(size_of(boxes))) for boxes in strata(grid)])
    np.testing.assert_array_equal(np.sort(numbers), np.arange(np.prod(grid)))


def test_the_largest_grid_is_not_listed():
    grid = (2**31 - 1, 65535, 65535)
    corners, edges, interior = strata(grid)
    assert size_of(corners) == 8
    assert size_of(corners) + size_of(edges) + size_of(interior) == np.prod(
        [int(side) for side in grid], dtype=object
    )


def test_a_sample_of_even_blocks_is_exact():
    rows, columns = 1000, 1500
    x = np.zeros((rows, columns), np.float32)
    full = KERNELS("edges", (47, 125), (32, 8), x, rows, columns)
    some = KERNELS("edges", (47, 125), (32, 8), x, rows, columns, blocks=12)
    assert 0 < some.sampled_blocks < 30
    assert some.totals["global_store_requests"] == pytest.approx(
        full.totals["global_store_requests"], rel=0.02
    )
    assert some.totals["sectors_per_request_store"] == pytest.approx(
        full.totals["sectors_per_request_store"], rel=0.02
    )
    assert full.sampled_blocks == 0


def test_the_standard_error_covers_the_truth():
    x = np.zeros(700 * 32, np.float32)
    full = KERNELS("uneven", 700, 32, x).totals["global_load_requests"]
    some = KERNELS("uneven", 700, 32, x, blocks=60)
    error = some.standard_errors["global_load_requests"]
    assert 0 < error < full / 5
    assert abs(some.totals["global_load_requests"] - full) < 4 * error


def test_blocks_that_wait_for_each_other_are_refused():
    with pytest.raises(SpecError, match=r"a loop polls global memory at source\.cu:10.*leave blocks= out"):
        KERNELS("waits", 100, 32, np.zeros(1, np.int32), blocks=5)


def test_atomics_in_a_loop_are_no_waiting():
    x, bins = np.zeros(10000, np.int32), np.zeros(4, np.int32)
    assert KERNELS("counts", 100, 32, x, bins, 10000, blocks=5).sampled_blocks >= 5


def test_a_sample_needs_a_block():
    with pytest.raises(SpecError, match="blocks is 0, it must be at least 1"):
        KERNELS("uneven", 100, 32, np.zeros(3200, np.float32), blocks=0)
