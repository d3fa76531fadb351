"""Mbarriers and bulk copies: phases, counts and bytes; what never completes is reported, what is early is found."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hopper import kernels
from launching import KERNELS as FOLDER
from launching import Kernels

from kernellab.errors import ExecutionError
from kernellab.tensor_map import TensorMap

KERNELS = kernels((FOLDER / "mbarriers.cu").read_text())
f32, i32 = np.float32, np.int32
SEEDS = [None, 1, 2, 3]


@pytest.mark.parametrize("sanitize", [False, True])
def test_a_ring_of_two_buffers(sanitize):
    y = np.zeros((3, 32), i32)
    trace = KERNELS("ring", 3, 96, y, 9, 0, sanitize=sanitize)
    expected = np.zeros(3, np.int64)
    for i in range(9):
        expected = expected * 3 + i * i + 3 + np.arange(3)
    np.testing.assert_array_equal(y, np.tile(expected[:, None], 32))
    assert trace.diagnostics == ()


def test_a_missing_arrival_is_reported_and_not_waited_for():
    start = time.process_time()
    assert KERNELS.binary
    with pytest.raises(ExecutionError) as caught:
        KERNELS("ring", 3, 96, np.zeros((3, 32), i32), 9, 1)
    message = str(caught.value)
    assert "3 threads wait in a loop in which nothing changes at source.cu" in message
    assert "of block (1, 0, 0)" in message
    assert "waits in phase 0 for 1 of 32 arrivals" in message
    assert time.process_time() - start < 5


def test_phases_counts_and_states():
    y = np.full(9, -1, i32)
    KERNELS("phases", 1, 1, y)
    # pending before: 5, 3; over only with the bytes; then parity 1 is complete of the phase before... 4 left
    assert y.tolist() == [5, 0, 3, 0, 1, 1, 4, 2, 1]


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (0, "gets 1 arrivals and waits for 32 bytes: one arrival too many in a phase"),
        (1, "at byte 8 of shared memory is used and was not initialised there"),
        (2, "was overwritten by other data after its mbarrier.init at source.cu"),
        (3, "is initialised again; invalidate it with mbarrier.inval first"),
        (4, "is initialised with 0 arrivals"),
        (5, "misaligned: an mbarrier at byte 4, which is no multiple of 8"),
        (6, "an address in global memory where one in shared memory is needed"),
    ],
)
def test_wrong_use(what, message):
    with pytest.raises(ExecutionError, match=r"thread \(0, 0, 0\)") as caught:
        KERNELS("wrong", 1, 1, np.zeros(2, i32), what)
    assert message in str(caught.value)


def test_the_thread_is_named_that_is_wrong_and_not_the_first_of_its_warp():
    with pytest.raises(ExecutionError, match=r"byte 4, which is no multiple of 8; .* thread \(5, 0, 0\)"):
        KERNELS("wrong", 1, 8, np.zeros(2, i32), 7)


def doubled(x, what=0, expected=None, seed=None, errors="raise"):
    y = np.zeros_like(x)
    n = x.shape[1]
    nbytes = 4 * n if expected is None else expected
    trace = KERNELS("doubled", len(x), 64, x, y, n, nbytes, what, seed=seed, errors=errors)
    return y, trace


@pytest.mark.parametrize("seed", SEEDS)
def test_bulk_copies_in_and_out(rng, seed):
    x = rng.standard_normal((5, 200)).astype(f32)
    y, trace = doubled(x, seed=seed)
    np.testing.assert_array_equal(y, 2 * x)
    assert trace.diagnostics == ()
    assert (trace.totals["tma_load_bytes"], trace.totals["tma_store_bytes"]) == (x.nbytes, x.nbytes)
    assert trace.totals["tma_load_requests"] == 5
    assert trace.totals["tma_load_sectors"] == x.nbytes // 32


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("what", "message"),
    [
        (1, "this load touches byte 0 of shared memory, which the asynchronous instruction at source.cu:"),
        (2, "this store touches byte 20 of shared memory, which the asynchronous instruction at source.cu:"),
        (4, "is still to write; wait for it first"),
    ],
)
def test_a_missing_wait_names_both_lines(rng, what, message, seed):
    x = rng.standard_normal((2, 128)).astype(f32)
    with pytest.raises(ExecutionError) as caught:
        doubled(x, what, seed=seed)
    assert message in str(caught.value)
    assert str(caught.value).count("source.cu:") == 2


def test_a_block_that_ends_before_its_copies(rng):
    x = rng.standard_normal((2, 128)).astype(f32)
    y, trace = doubled(x, 3)
    np.testing.assert_array_equal(y, 2 * x)
    assert "the block ends while this copy may still be reading its shared memory" in str(
        trace.diagnostics[0]
    )


@pytest.mark.parametrize(
    ("expected", "missing"), [(528, "16 bytes"), (496, "16 bytes to be expected that have")]
)
def test_wrong_numbers_of_bytes_are_a_deadlock(rng, expected, missing):
    start = time.process_time()
    with pytest.raises(ExecutionError, match="endless loop: 128 threads wait") as caught:
        doubled(rng.standard_normal((2, 128)).astype(f32), expected=expected)
    assert f"waits in phase 0 for {missing}" in str(caught.value)
    assert time.process_time() - start < 5


def test_bounds_and_alignment(rng):
    x = np.zeros((2, 128), f32)
    with pytest.raises(ExecutionError, match=r"out of bounds global load: 0 bytes past the end of x"):
        KERNELS("doubled", 2, 64, x[:1], np.zeros_like(x), 128, 512, 0)
    with pytest.raises(ExecutionError, match="a bulk copy has 508 bytes; it must have a multiple of 16"):
        KERNELS("doubled", 1, 64, x, x.copy(), 127, 508, 0)
    with pytest.raises(ExecutionError, match="a bulk copy of 2048 bytes at byte 0 of shared memory"):
        KERNELS("doubled", 1, 64, np.zeros(512, f32), np.zeros(512, f32), 512, 2048, 0)


def test_barriers_that_some_only_arrive_at():
    y = np.zeros(64, i32)
    assert KERNELS("named", 1, 128, y, 7, 128).diagnostics == ()
    expected = np.zeros(64, np.int64)
    for i in range(7):
        expected = expected * 2 + i * np.arange(64)[::-1]
    np.testing.assert_array_equal(y, expected)


def test_a_named_barrier_of_too_many_threads_is_a_deadlock():
    with pytest.raises(
        ExecutionError, match=r"deadlock: 64 threads wait at barrier 1 at source.cu:\d+; 64 .* 3 at"
    ):
        KERNELS("named", 1, 128, np.zeros(64, i32), 7, 160)


def test_a_barrier_to_which_nobody_comes():
    with pytest.raises(ExecutionError, match=r"64 threads wait .*waits in phase 0 for 1 of 1 arrivals"):
        KERNELS("nobody_comes", 1, 64)


LIBRARY = """
#include <cuda/barrier>
#include <cuda/ptx>
using barrier = cuda::barrier<cuda::thread_scope_block>;
namespace ptx = cuda::ptx;

extern "C" __global__ void add_one(int* x, int first) {
    __shared__ alignas(16) int data[1024];
    #pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ barrier bar;
    if (threadIdx.x == 0) {
        init(&bar, blockDim.x);
        ptx::fence_proxy_async(ptx::space_shared);
    }
    __syncthreads();
    if (threadIdx.x == 0)
        cuda::memcpy_async(data, x + first, cuda::aligned_size_t<16>(sizeof(data)), bar);
    barrier::arrival_token token = bar.arrive();
    bar.wait(std::move(token));
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) data[i] += 1;
    ptx::fence_proxy_async(ptx::space_shared);
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::cp_async_bulk(ptx::space_global, ptx::space_shared, x + first, data, sizeof(data));
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
    }
}
"""


@pytest.mark.parametrize("seed", [None, 1])
def test_barriers_and_copies_of_the_cuda_library(seed):
    x = np.arange(2048, dtype=i32)
    trace = Kernels(LIBRARY, options=("-std=c++17",))("add_one", 1, 128, x, 512, seed=seed)
    expected = np.arange(2048)
    expected[512:1536] += 1
    np.testing.assert_array_equal(x, expected)
    assert trace.diagnostics == ()


@pytest.mark.parametrize("seed", SEEDS)
def test_bulk_copies_that_add(seed):
    y, tiles = np.ones(64, f32), np.ones((10, 8), f32)
    trace = KERNELS("add_up", 3, 64, TensorMap(tiles, (8, 8)), y, seed=seed)
    total = 1 + 3 * np.arange(64) + 3
    np.testing.assert_array_equal(y, total)
    expected = np.ones((10, 8), f32)
    expected[:6, 4:] = total.reshape(8, 8)[2:, :4]
    np.testing.assert_array_equal(tiles, expected)
    assert trace.diagnostics == ()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("adds", [0, 1])
def test_copies_that_arrive(adds, seed):
    x, y = np.arange(256, dtype=f32), np.zeros(256, f32)
    trace = KERNELS("gathered", 1, 64, x, y, adds, 0, seed=seed, sanitize=True)
    np.testing.assert_array_equal(y.reshape(64, 4), x.reshape(64, 4)[::-1])
    assert trace.diagnostics == ()


@pytest.mark.parametrize("adds", [0, 1])
def test_copies_have_come_when_their_barrier_is_waited_for_and_not_before(adds):
    with pytest.raises(
        ExecutionError, match=r"this load touches byte 0 of .* is still to write; wait for it"
    ):
        KERNELS("gathered", 1, 64, np.zeros(256, f32), np.zeros(256, f32), adds, 1)
