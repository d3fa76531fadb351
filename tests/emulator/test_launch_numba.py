"""Numba kernels as people write them, against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kernellab.errors import ExecutionError, SpecError
from kernellab.trace import trace

cuda = pytest.importorskip("numba.cuda")
from numba import float32, int32  # noqa: E402

f32, i32 = np.float32, np.int32


@cuda.jit(device=True)
def polynomial(x, coefficients):
    total = coefficients[0]
    for i in range(1, 3):
        total = total * x + coefficients[i]
    return total, total * 2


def test_reductions_in_shared_memory_and_by_shuffles(rng):
    def kernel(x, y):
        buffer = cuda.shared.array(128, float32)
        t, i = cuda.threadIdx.x, cuda.grid(1)
        buffer[t] = x[i] if i < x.size else 0
        cuda.syncthreads()
        step = 64
        while step >= 32:
            if t < step:
                buffer[t] += buffer[t + step]
            cuda.syncthreads()
            step //= 2
        if t < 32:
            value = buffer[t]
            for offset in (16, 8, 4, 2, 1):
                value += cuda.shfl_down_sync(0xFFFFFFFF, value, offset)
            if t == 0:
                cuda.atomic.add(y, 0, value)
                y[1] = cuda.popc(7) + cuda.clz(1) + cuda.ffs(8)  # literals are 64 bits wide

    x, y = rng.integers(0, 9, 1000).astype(f32), np.zeros(2, f32)
    counts = trace(kernel, 8, 128, (x, y))
    assert y.tolist() == [x.sum(), 3 + 63 + 4]
    assert counts.source == "SASS"
    assert counts.totals["shared_load_bank_conflicts"] == 0


def test_votes_and_lane_numbers(rng):
    def kernel(x, y):
        i, every = cuda.grid(1), 0xFFFFFFFF
        y[0, i] = cuda.ballot_sync(every, x[i] > 3) & 0xFFFF
        y[1, i] = cuda.any_sync(every, x[i] > 8) + 2 * cuda.all_sync(every, x[i] >= 0)
        y[2, i] = cuda.match_any_sync(every, x[i]) & 0xFF
        y[3, i] = cuda.laneid + cuda.shfl_xor_sync(every, i, 1) + cuda.shfl_up_sync(every, i, 2)
        y[4, i] = (
            cuda.syncthreads_count(int32(x[i] > 2))
            + 100 * cuda.syncthreads_and(x[i])
            + 1000 * cuda.syncthreads_or(x[i])
        )

    x, y, i = rng.integers(0, 9, 64).astype(i32), np.zeros((5, 64), np.int64), np.arange(64)
    trace(kernel, 2, 32, (x, y))
    warp, lane = x.reshape(2, 32), i % 32
    ballots = [sum(1 << k for k in np.flatnonzero(row[:16] > 3).tolist()) for row in warp]
    np.testing.assert_array_equal(y[0], np.repeat(ballots, 32))
    np.testing.assert_array_equal(y[1], np.repeat((warp > 8).any(1) + 2, 32))
    same = [sum(1 << k for k in range(8) if warp[j // 32, k] == x[j]) for j in range(64)]
    np.testing.assert_array_equal(y[2], same)
    np.testing.assert_array_equal(y[3], lane + (i ^ 1) + np.where(lane < 2, i, i - 2))
    np.testing.assert_array_equal(
        y[4], np.repeat((warp > 2).sum(1) + 100 * warp.all(1) + 1000 * warp.any(1), 32)
    )


def test_local_arrays_and_dynamic_shared_memory(rng):
    def kernel(x, y, z):
        counts = cuda.local.array(8, int32)
        i = cuda.grid(1)
        for j in range(8):
            counts[j] = 0
        for j in range(x.shape[1]):
            counts[x[i, j] % 8] += 1
        best = 0
        for j in range(8):
            if counts[j] > counts[best]:
                best = j
        y[i] = best
        first = cuda.shared.array(0, int32)
        second = cuda.shared.array(0, int32)[1:]
        if i == 0:
            first[0] = 1
            second[0] = 2
            z[0], z[1], z[2], z[3] = first[0], second[0], first[1], len(second)

    x, y, z = rng.integers(0, 50, (32, 20)).astype(i32), np.zeros(32, i32), np.zeros(4, i32)
    counts = trace(kernel, 1, 32, (x, y, z), shared_mem=8)
    np.testing.assert_array_equal(y, [np.bincount(row % 8, minlength=8).argmax() for row in x])
    assert z.tolist() == [1, 2, 2, 1]  # both names are one piece of memory
    assert counts.totals["local_load_requests"] > 0


@pytest.mark.parametrize("dtype", [np.uint32, np.int64])
def test_atomics(rng, dtype):
    def kernel(x, y, z):
        i = cuda.grid(1)
        cuda.atomic.max(y, 0, x[i])
        cuda.atomic.min(y, 1, x[i])
        cuda.atomic.add(y, 2, x[i])
        cuda.atomic.sub(y, 3, x[i])
        z[i] = cuda.atomic.add(y, 4, 1)
        cuda.atomic.exch(y, 5, x[i])
        cuda.atomic.cas(y, 6, 0, x[i])
        cuda.atomic.compare_and_swap(y[7:], 0, x[i])

    x, y, z = rng.integers(1, 1000, 64).astype(dtype), np.zeros(8, dtype), np.zeros(64, dtype)
    y[1] = 5000
    trace(kernel, 2, 32, (x, y, z))
    assert y[:3].tolist() == [x.max(), x.min(), x.sum()]
    assert dtype(y[3] + x.sum()) == 0
    assert y[4] == 64
    assert y[5] in x
    assert sorted(z) == list(range(64))
    assert y[6:].tolist() == [x[0], x[0]]


def test_atomics_on_floats(rng):
    def kernel(x, y):
        i = cuda.grid(1)
        cuda.atomic.max(y, 0, x[i])
        cuda.atomic.min(y, 1, x[i])
        cuda.atomic.add(y, 2, x[i])
        cuda.atomic.nanmax(y, 3, x[i])

    x, y = rng.integers(-50, 50, 64).astype(np.float64), np.zeros(4)
    trace(kernel, 2, 32, (x, y))
    assert y.tolist() == [x.max(), x.min(), x.sum(), x.max()]


def test_a_lock():
    def kernel(lock, y):
        if cuda.threadIdx.x == 0:
            while cuda.atomic.cas(lock, 0, 0, 1) != 0:
                pass
            y[0] += 1
            cuda.threadfence()
            cuda.atomic.exch(lock, 0, 0)

    y = np.zeros(1, i32)
    trace(kernel, 40, 32, (np.zeros(1, i32), y))
    assert y[0] == 40


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_floor_division_and_remainder_of_negative_numbers(dtype):
    def kernel(a, b, quotient, remainder):
        i = cuda.grid(1)
        if i < a.size:
            quotient[i] = a[i] // b[i]
            remainder[i] = a[i] % b[i]

    a = np.array([-6, 6, -7, 7, -7, 5, 0, np.iinfo(dtype).min], dtype)
    b = np.array([5, -5, 3, -3, -3, 7, 4, -1], dtype)
    quotient, remainder = np.zeros_like(a), np.zeros_like(a)
    trace(kernel, 1, 8, (a, b, quotient, remainder))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(remainder, a % b)
        np.testing.assert_array_equal(quotient[:-1], (a // b)[:-1])


def test_half_precision_and_complex_numbers(rng):
    def kernel(x, y, z, c, d, factor):
        i = cuda.grid(1)
        if i < x.size:
            y[i] = x[i] * x[i] + x[i]
            z[i] = float32(x[i]) * 2
            d[i] = c[i] * factor + abs(c[i]) + c[i].conjugate() / (1 + c[i])

    x = rng.standard_normal(32).astype(np.float16)
    y, z = np.zeros_like(x), np.zeros(32, f32)
    c = (rng.standard_normal(32) + 1j * rng.standard_normal(32)).astype(np.complex64)
    d = np.zeros_like(c)
    trace(kernel, 1, 32, (x, y, z, c, d, np.complex64(1 + 2j)))
    np.testing.assert_array_equal(z, x.astype(f32) * 2)
    np.testing.assert_allclose(y.astype(f32), x.astype(f32) ** 2 + x.astype(f32), atol=4e-3)
    np.testing.assert_allclose(d, c * (1 + 2j) + abs(c) + c.conj() / (1 + c), rtol=2e-5)


def test_device_functions_tuples_and_jitted_kernels(rng):
    @cuda.jit
    def kernel(x, y, coefficients):
        i = cuda.grid(1)
        if i < x.size:
            a, b = polynomial(x[i], coefficients)
            y[i] = a + b

    x = rng.standard_normal(64).astype(f32)
    y = np.zeros_like(x)
    trace(kernel, 2, 32, (x, y, (f32(1), f32(2), f32(3))))
    np.testing.assert_allclose(y, 3 * ((x + 2) * x + 3), rtol=1e-5)


def test_arrays_of_two_and_three_dimensions_views_and_orders(rng):
    def kernel(x, y, cube, turned, columns, strided, out):
        i, j = cuda.grid(2)
        if i < x.shape[0] and j < x.shape[1]:
            total = 0.0
            for a in range(-1, 2):
                for b in range(-1, 2):
                    total += x[(i + a) % x.shape[0], (j + b) % x.shape[1]]
            y[i, j] = total / 9
        if i < 4 and j < 5:
            for k in range(6):
                turned[k, j, i] = cube[i, j, k]
            row = x[i, 2:]
            for v in row:
                out[i, j] += v
            out[i, j] += columns[i, j] + strided[j]

    x, cube = rng.standard_normal((20, 30)), rng.integers(0, 99, (4, 5, 6)).astype(np.int16)
    y, turned, out = np.zeros_like(x), np.zeros((6, 5, 4), np.int16), np.zeros((4, 5))
    columns, strided = np.asfortranarray(rng.standard_normal((4, 5))), np.arange(10.0)[::2]
    trace(kernel, (3, 4), (8, 8), (x, y, cube, turned, columns, strided, out))
    near = [np.roll(x, (a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1)]
    np.testing.assert_allclose(y, sum(near) / 9, atol=1e-12)
    np.testing.assert_array_equal(turned, cube.transpose(2, 1, 0))
    np.testing.assert_allclose(out, x[:4, 2:].sum(1)[:, None] + columns + strided, rtol=1e-12)


def test_records_booleans_bytes_and_constants(rng):
    table = np.arange(10, dtype=f32)
    record = np.dtype([("a", f32), ("b", np.int64), ("c", np.uint8, (4,))], align=True)

    def kernel(x, y, flags, small, short):
        i = cuda.grid(1)
        constants = cuda.const.array_like(table)
        x[i].a = x[i].a * 2 + constants[i % 10]
        x[i].b += i
        y[i] = x[i].c[i % 4]
        if flags[i]:
            small[i] = small[i] * 3 + short[i]
        short[i] = short[i] >> 1

    x, y, i = np.zeros(32, record), np.zeros(32, i32), np.arange(32)
    x["a"], x["c"] = i, rng.integers(0, 255, (32, 4))
    flags, small = rng.integers(0, 2, 32).astype(bool), rng.integers(0, 256, 32).astype(np.uint8)
    short = rng.integers(-99, 99, 32).astype(np.int16)
    expected = np.where(flags, (small.astype(int) * 3 + short) % 256, small), short >> 1
    trace(kernel, 1, 32, (x, y, flags, small, short))
    np.testing.assert_array_equal(x["a"], 2 * i + i % 10)
    np.testing.assert_array_equal(x["b"], i)
    np.testing.assert_array_equal(y, x["c"][i, i % 4])
    np.testing.assert_array_equal(small, expected[0])
    np.testing.assert_array_equal(short, expected[1])


@pytest.mark.parametrize(("dtype", "tolerance"), [(f32, 2e-5), (np.float64, 1e-12)])
def test_mathematics(rng, dtype, tolerance):
    def kernel(x, y):
        i = cuda.grid(1)
        v = x[i]
        y[0, i] = math.sin(v)
        y[1, i] = math.exp(v)
        y[2, i] = math.log(abs(v) + 1)
        y[3, i] = math.pow(abs(v), 1.5)
        y[4, i] = math.tanh(v)
        y[5, i] = math.atan2(v, 2.0)
        y[6, i] = math.erf(v)
        y[7, i] = math.fmod(v, 0.7)
        y[8, i] = math.floor(v)
        y[9, i] = math.sqrt(abs(v))
        y[10, i] = math.gamma(abs(v) + 0.5)
        y[11, i] = math.hypot(v, 1.0)
        y[12, i] = v**3
        y[13, i] = round(v)
        y[14, i] = min(v, 0.3) + max(v, 0.1)
        y[15, i] = math.log1p(abs(v))

    x, y = rng.standard_normal(32).astype(dtype), np.zeros((16, 32), dtype)
    trace(kernel, 1, 32, (x, y))
    v, each = x.astype(float), np.vectorize
    a = abs(v)
    expected = [
        np.sin(v), np.exp(v), np.log(a + 1), a**1.5, np.tanh(v), np.arctan2(v, 2), each(math.erf)(v),
        np.fmod(v, 0.7), np.floor(v), np.sqrt(a), each(math.gamma)(a + 0.5), np.hypot(v, 1), v**3, np.rint(v),
        np.minimum(v, 0.3) + np.maximum(v, 0.1), np.log1p(a),
    ]  # fmt: skip
    np.testing.assert_allclose(y, expected, rtol=tolerance, atol=tolerance)


def test_scalars_printing_and_empty_grids():
    def kernel(y, a, b, c, d):
        y[0], y[1], y[2], y[3] = a, b, c, d
        print("a", a, b, "end")

    y = np.zeros(4)
    printed = trace(kernel, 1, 1, (y, 3, 2.5, np.int16(-4), True)).output
    assert y.tolist() == [3, 2.5, -4, 1]
    assert printed == "a 3 2.500000 end\n"
    assert trace(kernel, 0, 1, (np.zeros(4), 3, 2.5, np.int16(-4), True)).totals["warp_instructions"] == 0


def test_out_of_bounds_names_the_line_of_the_python_file():
    def kernel(x):
        x[cuda.grid(1)] = 1

    line = kernel.__code__.co_firstlineno + 1
    with pytest.raises(
        ExecutionError, match=rf"test_launch_numba\.py:{line}, block \(1, 0, 0\), thread \(8, 0, 0\)"
    ):
        trace(kernel, 2, 32, (np.zeros(40, f32),))


def test_too_much_static_shared_memory_is_refused_as_the_assembler_does():
    def wide(x):
        s = cuda.shared.array(13000, np.float32)
        s[cuda.threadIdx.x] = x[0]
        cuda.syncthreads()
        x[cuda.threadIdx.x] = s[31 - cuda.threadIdx.x]

    with pytest.raises(
        SpecError, match=r"wide: its arrays in static shared memory have 52000 bytes, the limit "
    ):
        trace(wide, 1, 32, (np.ones(32, np.float32),))
