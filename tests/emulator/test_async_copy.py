"""cp.async: values at the wait, complaints before it, races, and what counts."""

from __future__ import annotations

import numpy as np
import pytest
from launching import Kernels

from kernellab.compile.cuda_c import compile_cuda
from kernellab.emulation import run_binary
from kernellab.errors import ExecutionError


def kernels(**flags):
    names = ("NO_WAIT", "NO_BARRIER", "NO_SECOND_BARRIER")
    return Kernels.of("async_copy.cu", options=tuple(f"-D{name}={flags.get(name, 0)}" for name in names))


COPIES = kernels()
SEEDS = pytest.mark.parametrize("seed", [None, 1, 2, 3])


def floats(*shape):
    return np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)


@SEEDS
@pytest.mark.parametrize("nbytes", [4, 8, 16])
def test_groups_arrive_one_by_one(nbytes, seed):
    x = floats(128, nbytes // 4)
    y = np.zeros_like(x)
    trace = COPIES(f"groups{nbytes}", 1, 64, x, y, seed=seed, sanitize=True)
    np.testing.assert_array_equal(y, x)
    assert trace.diagnostics == ()


@SEEDS
def test_what_is_left_out_is_zero_and_not_read(seed):
    n = 20
    x = floats(n, 4)  # the lanes from n on would read past its end
    y = np.full((4, 32, 4), -1, np.float32)
    assert COPIES("forms", 1, 32, x, y, n, seed=seed, sanitize=True).diagnostics == ()
    whole, lanes = np.zeros((32, 4), np.float32), np.arange(32)
    whole[:n] = x
    np.testing.assert_array_equal(y[0], whole)
    np.testing.assert_array_equal(y[1], x[lanes % n])
    np.testing.assert_array_equal(y[2], whole)
    some = x[lanes % n].view(np.uint8).copy()
    some[np.arange(16) >= (lanes % 17)[:, None]] = 0
    np.testing.assert_array_equal(y[3].view(np.uint8), some)


@SEEDS
def test_double_buffering(seed):
    x, y = floats(5, 64, 4), np.zeros(64, np.float32)
    trace = COPIES("neighbours", 1, 64, x, y, 5, seed=seed, sanitize=True)
    np.testing.assert_array_equal(y, x[:, ::-1, 0].sum(axis=0))
    assert trace.diagnostics == ()


@SEEDS
def test_groups_belong_to_a_thread(seed):
    x, y = floats(96), np.zeros(32, np.float32)
    assert COPIES("uneven", 1, 32, x, y, 0, seed=seed, sanitize=True).diagnostics == ()
    np.testing.assert_array_equal(y, np.where(np.arange(32) < 16, x[:32], x[:32] + x[32:64]))
    trace = COPIES("uneven", 1, 32, x, y, 1, seed=seed, errors="record")
    assert [each.count for each in trace.diagnostics if each.kind == "in flight"] == [16, 16]


@SEEDS
@pytest.mark.parametrize(
    ("what", "operation"),
    [(0, "load"), (1, "store"), (2, "atomic"), (3, "asynchronous write"), (4, "load")],
)
def test_touching_what_is_in_flight_names_both_lines(what, operation, seed):
    lines = COPIES.text.splitlines()
    first = next(i for i, text in enumerate(lines, 1) if "void touched" in text)
    copy, touch = first + 3, first + 5 + what
    x, y = floats(32), np.zeros(32, np.float32)
    trace = COPIES("touched", 1, 32, x, y, what, seed=seed, errors="record")
    found = [each for each in trace.diagnostics if each.kind == "in flight"]
    assert [(each.line, each.count, each.is_error) for each in found] == [(touch, 32, True)]
    assert f"this {operation} touches byte 0 of shared memory" in found[0].message
    assert f"source.cu:{copy} is still to write; wait for it first" in found[0].message


@pytest.mark.parametrize("what", [5, 6])
def test_a_copy_that_nobody_waits_for_harms_nobody(what):
    x, y = floats(32), np.zeros(32, np.float32)
    trace = COPIES("touched", 3, 32, x, y, what, seed=1, sanitize=True)
    assert trace.diagnostics == ()
    np.testing.assert_array_equal(y, 5 if what == 5 else x)


def test_a_wait_does_not_see_what_is_not_committed():
    with pytest.raises(ExecutionError, match=r"in flight: this load touches byte 0"):
        COPIES("uncommitted", 1, 32, floats(32), np.zeros(32, np.float32))


@SEEDS
def test_a_wait_too_late_is_seen(seed):
    mutant = kernels(NO_WAIT=-1)
    x, y = floats(5, 64, 4), np.zeros(64, np.float32)
    with pytest.raises(ExecutionError, match=r"in flight: this load touches byte \d+ of shared memory"):
        mutant("neighbours", 1, 64, x, y, 5, seed=seed)


@pytest.mark.parametrize("flag", ["NO_BARRIER", "NO_SECOND_BARRIER"])
def test_other_threads_need_a_barrier(flag):
    x, y = floats(5, 64, 4), np.zeros(64, np.float32)
    trace = kernels(**{flag: 1})("neighbours", 1, 64, x, y, 5, sanitize=True)
    assert "race" in {each.kind for each in trace.diagnostics}


@SEEDS
def test_the_barrier_belongs_behind_the_wait(seed):
    trace = COPIES("barrier_first", 1, 32, floats(32), np.zeros(32, np.float32), seed=seed, sanitize=True)
    [found] = trace.diagnostics
    assert (found.kind, found.count) == ("race", 32)
    assert "y[t] = s[31 - t]" in COPIES.text.splitlines()[found.line - 1]


@pytest.mark.parametrize(
    ("start", "stop", "size", "message"),
    [
        (4, 0, 16, "misaligned global load: address 0x[0-9a-f]+ is no multiple of 16"),
        (0, 8, 16, "misaligned shared store: address 0x8 is no multiple of 16"),
        (16, 0, 16, "out of bounds global load: 0 bytes past the end of x"),
        (-16, 0, 4, "out of bounds global load"),
        (0, 16, 0, "out of bounds shared store: byte 512 of shared memory, which has 512"),
        (0, 0, 17, "copy size global load: src-size is 17, and the copy has 16 bytes"),
    ],
)
def test_bad_places(start, stop, size, message):
    with pytest.raises(ExecutionError, match=message):
        COPIES("stray", 1, 32, floats(32, 4), np.zeros((32, 4), np.float32), start, stop, size)


@pytest.mark.parametrize(("stride", "sectors", "lines"), [(1, 4, 1), (2, 8, 2), (8, 32, 8), (32, 32, 32)])
def test_counts_as_a_global_load_and_no_shared_store(stride, sectors, lines):
    warps = 2 * 8
    x, y = floats(256 * stride), np.zeros(256, np.float32)
    trace = COPIES("strided", 2, 256, x, y, stride)
    found = trace.totals
    assert found["global_load_requests"] == found["async_copy_requests"] == warps
    assert found["global_load_sectors"] == warps * sectors
    assert found["global_load_lines"] == warps * lines
    assert (found["shared_store_requests"], found["shared_load_requests"]) == (0, warps)
    assert trace.source == "SASS"
    [line] = [line for line in trace.lines if "&x[t * stride]" in line.text]
    assert (line.requests, line.sectors) == (warps, warps * sectors)


WRAPPER = """
__device__ __forceinline__ void copy16(void* shared, const void* from) {
    unsigned to = (unsigned)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
}
template <int N> __device__ __forceinline__ void copy_rows(float4 (*s)[32], const float4* from) {
#pragma unroll
    for (int k = 0; k < N; ++k) copy16(&s[k][threadIdx.x], from + 32 * k + threadIdx.x);
}
"""
CALLER = """
#include "wrapper.cuh"
extern "C" __global__ void rows(const float4* x, const float4* w, float4* y) {
    __shared__ float4 s[3][32];
    copy_rows<2>(s, x);
    copy16(&s[2][threadIdx.x], &w[2 * threadIdx.x]);
    asm volatile("cp.async.wait_all;" ::: "memory");
    for (int k = 0; k < 3; ++k) y[32 * k + threadIdx.x] = s[k][threadIdx.x];
}
"""


def test_a_copy_in_a_wrapper_counts_where_the_kernel_calls_it(tmp_path):
    (tmp_path / "wrapper.cuh").write_text(WRAPPER)
    x, w, y = floats(64, 4), floats(64, 4), np.zeros((96, 4), np.float32)
    binary = compile_cuda(CALLER, arch="sm_90", include_dirs=(tmp_path,))
    trace = run_binary(binary, "rows", 1, 32, (x, w, y), name="rows")
    np.testing.assert_array_equal(y, np.concatenate((x, w[::2])))
    found = {line.text.strip(): (line.requests, line.sectors) for line in trace.lines}
    assert found["copy_rows<2>(s, x);"] == (2, 32)
    assert found["copy16(&s[2][threadIdx.x], &w[2 * threadIdx.x]);"] == (1, 32)
    assert trace.source == "SASS"


def test_lanes_that_read_nothing_cost_nothing():
    x, y = floats(32, 4), np.zeros((32, 4), np.float32)
    found = COPIES("stray", 1, 32, x, y, 0, 0, 0).totals
    assert found["global_load_requests"] == found["async_copy_requests"] == 0
    assert not y.any()
