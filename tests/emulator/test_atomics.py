"""Atomics: lane after lane, for every operation, type and space."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from launching import Kernels, integers

from kernellab.emulator import atomics

MEMORY = Kernels.of("memory.cu")
f32, i32 = np.float32, np.int32


def test_every_operation_on_integers(rng):
    x, y, old = integers(rng, 1, 1000, 64), np.zeros(16, i32), np.zeros(128, i32)
    y[2], y[4] = 9999, -1
    MEMORY("atomics", 1, 64, x, y, old)
    down = 0
    for _ in range(64):
        down = 6 if down == 0 or down > 6 else down - 1
    bits = [operation.reduce(x) for operation in (np.bitwise_and, np.bitwise_or, np.bitwise_xor)]
    expected = [
        x.sum(),
        -x.sum(),
        x.min(),
        x.max(),
        *bits,
        x[-1],
        64 % 11,
        down,
        x[0],
        128,
        x.max(),
        64,
        64,
        0,
    ]
    np.testing.assert_array_equal(y, expected)
    assert sorted(old[:64]) == list(range(0, 128, 2))
    np.testing.assert_array_equal(old[64:], np.concatenate([[0], np.maximum.accumulate(x)[:-1]]))


def test_wide_and_floating_types(rng):
    x, y = rng.integers(-(2**60), 2**60, 64), np.zeros(8, np.uint64)
    single, double, pair, half = (
        np.zeros(2, f32),
        np.zeros(1),
        np.zeros(2, np.float16),
        np.zeros(2, np.float16),
    )
    brain = np.zeros(2, ml_dtypes.bfloat16)
    MEMORY("atomics_wide", 1, 64, x, y, single, double, pair, half, brain)
    expected = [x.sum(), max(0, x.max()), min(0, x.min()), x[0], x[-1], np.bitwise_xor.reduce(x), 0, 0]
    np.testing.assert_array_equal(y.view(np.int64), expected)
    assert single.tolist() == [0.5 * 2016, 63]
    assert double[0] == 0.25 * 2016
    assert (pair.tolist(), half.tolist(), brain.tolist()) == ([64, 128], [64, 0], [64, 128])


def test_float_maximum_by_compare_and_swap(rng):
    x, y = rng.standard_normal(256).astype(f32), np.full(1, -1e30, f32)
    MEMORY("float_max", 4, 64, x, y)
    assert y[0] == x.max()


def test_shared_memory(rng):
    x, y, z = integers(rng, 1, 100, 64), np.zeros(80, i32), np.zeros(2, f32)
    trace = MEMORY("shared_atomics", 1, 64, x, y, z)
    sums = [x[k::4].sum() for k in range(4)]
    np.testing.assert_array_equal(y[:10], [*sums, x.max(), np.bitwise_or.reduce(x), 64, 64, x.sum(), x.max()])
    assert set(y[16:]) == {1}
    np.testing.assert_array_equal(z, [x[::2].sum(), x[1::2].sum()])
    assert trace.totals["shared_atomic_requests"] > 0


@pytest.mark.parametrize("name", ["add", "min", "max", "and", "or", "xor", "exch", "inc", "dec"])
@pytest.mark.parametrize("addresses", [1, 3, 40])
def test_old_values_are_those_of_one_lane_after_the_other(rng, name, addresses):
    memory = integers(rng, 0, 50, addresses, np.uint32)
    where, operands = rng.integers(0, addresses, 100), integers(rng, 0, 50, 100, np.uint32)
    expected, old = memory.copy(), []
    for i, operand in zip(where, operands, strict=True):
        old.append(expected[i])
        expected[i] = atomics.OPERATIONS[name](expected[i : i + 1], operand[None])[0]
    found = atomics.combine(name, memory, where, operands, wants_old=True)
    np.testing.assert_array_equal(found, old)
    np.testing.assert_array_equal(memory, expected)


@pytest.mark.parametrize("dtype", [f32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("wants_old", [False, True])
def test_float_sums_round_after_every_lane(rng, dtype, wants_old):
    operands = rng.standard_normal(100).astype(dtype)
    memory, expected = np.zeros(2, dtype), np.zeros(2, dtype)
    for i, operand in enumerate(operands):
        expected[i % 2] = dtype(expected[i % 2] + operand)
    atomics.combine("add", memory, np.arange(100) % 2, operands, wants_old)
    np.testing.assert_array_equal(memory, expected)


@pytest.mark.parametrize("addresses", [1, 50])
def test_compare_and_swap_one_lane_after_the_other(rng, addresses):
    memory = integers(rng, 0, 3, addresses, np.uint32)
    where = rng.integers(0, addresses, 100)
    compares, news = (integers(rng, 0, 3, 100, np.uint32) for _ in range(2))
    expected, old = memory.copy(), []
    for i, compare, new in zip(where, compares, news, strict=True):
        old.append(expected[i])
        if expected[i] == compare:
            expected[i] = new
    np.testing.assert_array_equal(atomics.compare_and_swap(memory, where, compares, news), old)
    np.testing.assert_array_equal(memory, expected)


def test_a_seed_serves_lanes_in_another_order():
    x = np.array([1e8, 1, -1e8, 1] * 16, f32)
    text = 'extern "C" __global__ void f(const float* x, float* y) { atomicAdd(y, x[threadIdx.x]); }'
    sums = set()
    for seed in (None, 1, 2, 3, 4):
        y = np.zeros(1, f32)
        Kernels(text)("f", 1, 64, x, y, seed=seed)
        sums.add(float(y[0]))
    assert len(sums) > 1
