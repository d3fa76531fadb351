"""Address spaces: hints, generic addresses, copies; and every access that a GPU would not survive."""

from __future__ import annotations

import numpy as np
import pytest
from launching import Kernels, integers

from kernellab.emulator.memory import GlobalMemory, OwnedMemory
from kernellab.errors import ExecutionError

MEMORY = Kernels.of("memory.cu")
f32, i32 = np.float32, np.int32


def test_cache_hints_change_no_value(rng):
    x, y, z = rng.standard_normal(128).astype(f32), np.zeros(128, f32), np.zeros((32, 4), f32)
    MEMORY("hints", 1, 32, x, y, z)
    first = x[:32]
    np.testing.assert_allclose(y, np.concatenate([5 * first, 10 * first, 15 * first, first]), rtol=1e-6)
    np.testing.assert_array_equal(z, x.reshape(32, 4))


def test_generic_addresses_of_three_spaces_in_one_warp(rng):
    x, y, i = rng.standard_normal(32).astype(f32), np.zeros(96, f32), np.arange(32)
    trace = MEMORY("generic", 1, 32, x, y)
    spaces = [2 * x[i % 4] + f32(1000), (i + i % 4).astype(f32) + 2000, x[i % 4] + f32(3000)]
    np.testing.assert_allclose(y[:32], np.choose(i % 3, spaces), rtol=1e-6)
    np.testing.assert_array_equal(y[32:64], np.where(i % 2, 0, 5 * i))
    np.testing.assert_array_equal(y[64:], np.where(i % 2, 5 * i, 2 * x))
    assert trace.totals["global_load_requests"] > 0  # each counts where its address points
    assert trace.totals["local_load_requests"] > 0


def test_structures_in_shared_memory(rng):
    x, y = integers(rng, 0, 99, (8, 4)), np.zeros((12, 4), i32)
    MEMORY("copies", 1, 32, x, y, 4)
    np.testing.assert_array_equal(y[:8], np.concatenate([x[3::-1], x[:3:-1]]))
    np.testing.assert_array_equal(y[8:, 0], [3, 2, 1, 0])


def test_a_null_pointer_can_be_asked_for():
    y = np.zeros(32, f32)
    MEMORY("null_pointer", 1, 32, y, None)
    assert set(y) == {-1}


def read_only():
    y = np.zeros(32, f32)
    y.flags.writeable = False
    return y


def off_by_four_bytes():
    whole = np.zeros(200, f32)
    start = (-whole.ctypes.data % 16) // 4 + 1
    return whole[start : start + 32]


FAULTS = [
    (
        "beyond",
        32,
        lambda: (np.zeros(32, f32), 1),
        r"out of bounds global store: 0 bytes past the end of y \(float32, 32\).*128 bytes.*\(31, 0, 0\)",
    ),
    (
        "beyond",
        32,
        lambda: (np.zeros(32, f32), 100000),
        r"out of bounds global store: 399872 bytes past the end of y",
    ),
    (
        "before",
        32,
        lambda: (np.zeros(32, f32),),
        r"out of bounds global store: 4 bytes before y \(float32, 32\).*thread \(0, 0, 0\)",
    ),
    (
        "reads_beyond",
        32,
        lambda: (np.zeros(32, f32), np.zeros(32, f32), 5),
        r"out of bounds global load: 0 bytes past the end of x.*thread \(27, 0, 0\)",
    ),
    (
        "wide",
        8,
        lambda: (off_by_four_bytes(), np.zeros(32, f32)),
        r"misaligned global load: address 0x\w+ is no multiple of 16",
    ),
    (
        "wide",
        9,
        lambda: (np.zeros(32, f32), np.zeros(36, f32)),
        r"out of bounds global load: 0 bytes past the end of x.*thread \(8, 0, 0\)",
    ),
    (
        "null_read",
        32,
        lambda: (np.zeros(32, f32), None),
        r"out of bounds global load: address 0x0, a null pointer",
    ),
    ("beyond", 32, lambda: (read_only(), 0), r"read-only global store: y \(float32, 32\) is read-only"),
    (
        "shared_beyond",
        32,
        lambda: (np.zeros(32, f32), 1),
        r"out of bounds shared store: byte 128 of shared memory, which has 128",
    ),
    (
        "shared_beyond",
        32,
        lambda: (np.zeros(32, f32), -1),
        r"out of bounds shared store: byte -4 of shared memory",
    ),
]


@pytest.mark.parametrize(("name", "block", "arguments", "message"), FAULTS)
def test_faults_name_the_access_the_array_and_the_thread(name, block, arguments, message):
    with pytest.raises(ExecutionError, match=rf"^{name}: {message}"):
        MEMORY(name, 1, block, *arguments())


def test_faults_can_be_recorded_and_the_others_go_on():
    y = np.zeros(32, f32)
    trace = MEMORY("beyond", 1, 32, y, 1, errors="record")
    assert set(y[1:]) == {1}
    (found,) = trace.diagnostics
    assert (found.kind, found.is_error, found.count, found.thread) == ("out of bounds", True, 1, (31, 0, 0))
    assert found.line == int(str(found).split("source.cu:")[1].split(",")[0])


def test_unwritten_shared_memory_is_seen():
    trace = MEMORY("unwritten", 1, 32, np.zeros(32, f32))
    (found,) = trace.diagnostics
    assert found.kind == "unwritten shared memory"
    assert not found.is_error
    assert "byte 124 of shared memory" in str(found)


def test_an_index_beyond_two_to_the_31():
    n = 2**31 + 7
    y = np.empty(n, np.int8)  # touched at its ends only
    trace = MEMORY("big_index", -(-n // 256), 256, y, n, blocks=1)
    assert trace.totals["global_store_requests"] == -(-n // 32)
    assert set(y[-7:]) == {1}  # what the last block writes


def test_arrays_that_share_memory_share_addresses():
    whole = np.arange(64, dtype=f32)
    text = 'extern "C" __global__ void f(float* x, float* y) { y[threadIdx.x] += x[threadIdx.x + 16]; }'
    Kernels(text)("f", 1, 16, whole[:32], whole[16:32])
    np.testing.assert_array_equal(whole[16:32], 2 * np.arange(16, 32))


def test_allocations_are_found_by_address():
    memory = GlobalMemory()
    first = memory.allocate("first", np.arange(8, dtype=np.uint8))
    second = memory.allocate("second", np.zeros(4, np.uint8), offset=4)
    assert second.base % 512 == 4
    faults = []
    addresses = np.array([first.base + 7, second.base, first.base + 8, second.base - 1])
    (values,) = memory.load(addresses, 1, 1, faults)
    assert values.tolist() == [7, 0, 0, 0]
    assert faults[0].positions.tolist() == [2, 3]
    assert memory.name_of(second.base - 1) == "1 bytes before second"


def test_owned_memory_keeps_owners_apart():
    memory = OwnedMemory("shared", owners=3, size=20, tracks_writes=True)
    owners, addresses = np.array([0, 2]), np.array([16, 0])
    faults = []
    memory.store(owners, addresses, 4, [np.array([5, 6], np.uint32)], faults)
    (values,) = memory.load(np.array([0, 1, 2]), np.array([16, 16, 0]), 4, 1, faults)
    assert values.tolist() == [5, 0, 6]
    assert [(f.kind, f.positions.tolist()) for f in faults] == [("unwritten", [1])]


NO_SHARED = Kernels(
    """extern "C" __global__ void loads(float* y) {
    extern __shared__ float s[]; y[threadIdx.x] = s[threadIdx.x];
}
extern "C" __global__ void stores(float* y) {
    extern __shared__ float s[]; s[threadIdx.x] = 1; __syncthreads(); y[threadIdx.x] = s[31 - threadIdx.x];
}
extern "C" __global__ void adds(float* y) {
    extern __shared__ float s[]; y[threadIdx.x] = atomicAdd(&s[threadIdx.x], 1.0f);
}
extern "C" __global__ void points(float* y, int offset) {
    float* p = (float*)__cvta_shared_to_generic(offset); y[threadIdx.x] = *p;
}"""
)


@pytest.mark.parametrize("sanitize", [False, True])
@pytest.mark.parametrize(
    ("name", "operation", "more"),
    [("loads", "load", ()), ("stores", "store", ()), ("adds", "atomic", ()), ("points", "load", (64,))],
)
def test_dynamic_shared_memory_that_was_not_asked_for(name, operation, more, sanitize):
    message = f"out of bounds shared {operation}: the block has 0 bytes of shared memory; pass shared_mem="
    with pytest.raises(ExecutionError, match=message):
        NO_SHARED(name, 1, 32, np.zeros(32, f32), *more, sanitize=sanitize)
