"""Types and arithmetic of all kinds, in several dialects of PTX, against NumPy and Python's integers."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from launching import Kernels, integers

from kernellab.errors import SpecError

f32, i32, u32 = np.float32, np.int32, np.uint32
NAMES = ("stencil<float, 2>", "stencil<int, 1>", "stencil<double, 3>")
DIALECTS = [("sm_80", ()), ("sm_90", ("--fmad=false",)), ("sm_120", ("--use_fast_math",))]
PLAIN = Kernels.of("types.cu", arch="sm_80", names=NAMES)


@pytest.fixture(params=DIALECTS, ids=lambda p: "-".join((p[0], *p[1])))
def types(request):
    arch, options = request.param
    return Kernels.of("types.cu", arch=arch, options=options, names=NAMES)


def test_half_precision(types, rng):
    x, y = (rng.standard_normal(32).astype(np.float16) for _ in range(2))
    z, w = np.zeros(160, np.float16), np.zeros(64, np.float16)
    types("halves", 1, 32, x, y, z, w)
    product = (x * y + np.float16(0.5)).astype(f32)
    np.testing.assert_allclose(
        z[:32].astype(f32), np.where(x > y, product - x.astype(f32), product), atol=4e-3
    )
    np.testing.assert_allclose(z[32:64].astype(f32), np.exp(x.astype(f32)), rtol=2e-3)
    np.testing.assert_allclose(z[64:96].astype(f32), np.sqrt(abs(y.astype(f32))), rtol=1e-3)
    np.testing.assert_array_equal(z[96:128], np.maximum(x, y))
    np.testing.assert_array_equal(z[128:], np.arange(-16, 16))
    pairs = np.stack([x, y], 1).ravel().astype(np.float64)
    np.testing.assert_array_equal(w, (pairs * pairs + 1).astype(np.float16))


def test_bfloat16(types, rng):
    x = rng.standard_normal(32).astype(ml_dtypes.bfloat16)
    y, z = np.zeros(96, ml_dtypes.bfloat16), np.zeros(32, f32)
    types("bfloats", 1, 32, x, y, z)
    wide = x.astype(np.float64)
    np.testing.assert_array_equal(z, x.astype(f32) * 3)
    np.testing.assert_array_equal(y[32:64], (wide * wide + wide).astype(ml_dtypes.bfloat16))
    np.testing.assert_array_equal(y[64:], (z + f32(0.001)).astype(ml_dtypes.bfloat16))
    np.testing.assert_allclose(y[:32].astype(f32), wide + wide * wide, rtol=0.02, atol=0.02)


def test_bytes_and_short_vectors(types, rng):
    x, y = integers(rng, 0, 256, (32, 4), np.uint8), integers(rng, -128, 128, (32, 4), np.int8)
    z, dot, short = np.zeros((32, 4), np.uint8), np.zeros(64, i32), np.zeros((32, 2), np.int16)
    types("bytes", 1, 32, x, y, z, dot, short)
    a, b = x.astype(int), y.astype(int)
    expected = [(a[:, 0] + b[:, 0]) % 256, a[:, 1] >> 1, a[:, 2] * 3 % 256, np.minimum(255, a[:, 3] + 100)]
    np.testing.assert_array_equal(z, np.stack(expected, 1))
    np.testing.assert_array_equal(dot[:32], (a * b).sum(1))
    np.testing.assert_array_equal(dot[32:], (b * b[::-1]).sum(1) + np.arange(32))
    np.testing.assert_array_equal(short, np.stack([b[:, 0] * b[:, 1], (a[:, 0] * 300).astype(np.int16)], 1))


def truncated(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def wrapped(value, bits):
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def test_64_bit_integers(types, rng):
    x, y = rng.integers(-(2**62), 2**62, 64), rng.integers(-(2**20), 2**33, 64)
    y[y == 0] = 3
    x[:4], y[:4] = [7, -7, 7, -7], [2, 2, -2, -2]
    z, u = np.zeros(256, np.int64), np.zeros(256, np.uint64)
    types("integers", 1, 64, x, y, z, u)
    for i, (a, b) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        q, ua, ub = truncated(a, b), a % 2**64, b % 2**64
        signed = (q, a - q * b, wrapped(a * b + (a >> 3) - (b << 5), 64), a * b >> 64)
        assert tuple(z[i::64].tolist()) == signed
        shifted = ((ua << (b & 63)) % 2**64) ^ (ua >> (a & 63))
        assert tuple(u[i::64].tolist()) == (ua // ub, ua % ub, ua * ub >> 64, shifted)


def test_32_bit_integers(types, rng):
    x, y = integers(rng, -(2**31), 2**31, 64), integers(rng, -1000, 1000, 64)
    y[y == 0] = 3
    x[:4], y[:4] = [7, -7, 7, -7], [2, 2, -2, -2]
    z = np.zeros(512, i32)
    types("integers32", 1, 64, x, y, z)
    for i, (a, b) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        q, u = truncated(a, b), a % 2**32
        expected = (
            q,
            a - q * b,
            truncated(a, 7) + a - 10 * truncated(a, 10) - u // 3 + u % 1000,
            a * b >> 32,
            abs(a) + max(a, b) * min(a, b),
            abs(a - b) + 5 + abs(u - b % 2**32) + 7,
            (a + b >> 1) + (a + b + 1 >> 1),
            wrapped(a, 24) * wrapped(b, 24),
        )
        assert tuple(z[i::64].tolist()) == tuple(wrapped(each, 32) for each in expected)


def test_bit_tricks(types, rng):
    x, y = integers(rng, 0, 2**32, 64, u32), integers(rng, 0, 2**32, 64, u32)
    x[:3] = [0, 1, 2**31]
    z = np.zeros(768, u32)
    types("bits", 1, 64, x, y, z)

    def reverse(value, bits):
        return int(format(value, f"0{bits}b")[::-1], 2)

    for i, (a, b) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        low_first, high_first, s = b << 32 | a, a << 32 | b, b & 63
        byte = [low_first >> 8 * k & 255 for k in range(8)]
        lanes = [(a >> 8 * k & 255, b >> 8 * k & 255) for k in range(4)]
        shifted = b << 20
        expected = (
            a.bit_count(),
            32 - a.bit_length(),
            reverse(a, 32),
            (a & -a).bit_length(),
            byte[4] | byte[1] << 8 | byte[2] << 16 | byte[5] << 24,
            low_first << (s & 31) >> 32,
            low_first >> min(s, 32),
            high_first.bit_count() + (64 - a.bit_length()) * 100 + (shifted & -shifted).bit_length() * 10000,
            (a & ~b) | (a ^ 0x0F0F0F0F) ^ (b << 7) % 2**32 ^ (b >> 3),
            sum((p + q & 255) << 8 * k for k, (p, q) in enumerate(lanes)),
            sum(abs(p - q) << 8 * k for k, (p, q) in enumerate(lanes)),
            reverse(high_first, 64),
        )
        assert tuple(z[i::64].tolist()) == tuple(each % 2**32 for each in expected)


def test_unions_and_bit_fields(types, rng):
    x, y, z = rng.standard_normal(32).astype(f32), np.zeros(64, u32), np.zeros(64, i32)
    types("unions", 1, 32, x, y, z)
    np.testing.assert_array_equal(y, np.concatenate([x, 1 - x]).view(u32))
    i = np.arange(32)
    middle = wrapped(i * 37 - 600, 11)
    np.testing.assert_array_equal(z[:32], (i & 31) + middle * 2 + i * 5000 % 65536)
    np.testing.assert_array_equal(z[32:], wrapped(middle + 100, 11))


def test_arrays_in_local_memory(types, rng):
    x, y = integers(rng, 0, 99, (32, 20)), np.zeros(64, i32)
    trace = types("local_array", 1, 32, x, y, 20)
    for i in range(32):
        counts = np.bincount((x[i] + i) & 15, minlength=16)
        assert y[i] == counts.argmax() * 100 + counts.max()
        assert y[i + 32] == counts[i * 7 & 15]
    assert trace.totals["local_load_requests"] > 0


def test_arrays_of_structures_and_one_by_value(types, rng):
    particle = np.dtype(
        [("position", f32, 3), ("mass", f32), ("energy", "f8"), ("kind", "u1"), ("charge", "i2")], align=True
    )
    p, shift = np.zeros(40, particle), np.zeros((), particle)
    p["position"], p["mass"] = rng.standard_normal((40, 3)), 2
    p["energy"] = p["kind"] = np.arange(40)
    shift["position"], shift["energy"], shift["kind"], shift["charge"] = (1, 2, 3), 0.5, 255, 7
    expected = p.copy()
    expected["position"] += np.array([2, 0, -3], f32)
    expected["energy"] *= 0.5
    expected["kind"] ^= 255
    expected["charge"] -= 7
    types("particles", 2, 32, p, 40, shift[()])
    np.testing.assert_array_equal(p, expected)


@pytest.mark.parametrize(
    ("name", "dtype", "reach"), [(NAMES[0], f32, 2), (NAMES[1], i32, 1), (NAMES[2], np.float64, 3)]
)
def test_templates_by_name_expression(types, rng, name, dtype, reach):
    x = (rng.standard_normal(100) * 50).astype(dtype)
    y = np.zeros_like(x)
    types(name, 2, 64, x, y, 100)
    near = (x[np.clip(np.arange(100) + k, 0, 99)].astype(np.float64) for k in range(-reach, reach + 1))
    expected = sum(near) / (2 * reach + 1)
    np.testing.assert_allclose(y, np.trunc(expected) if dtype == i32 else expected, rtol=1e-4, atol=1e-4)


def test_random_number_generators(types):
    y, uniform = np.zeros(64, u32), np.zeros(32, f32)
    types("random_numbers", 1, 32, y, uniform, 1234)
    for i in range(32):
        s = (1234 + i * 2654435761) % 2**32
        for _ in range(10):
            s ^= (s << 13) % 2**32
            s ^= s >> 17
            s ^= (s << 5) % 2**32
        c, k0, k1 = [i, 1, 2, 3], 1234, 77
        for _ in range(10):
            p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
            c = [q >> 32 ^ c[1] ^ k0, q % 2**32, p >> 32 ^ c[3] ^ k1, p % 2**32]
            k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
        assert (y[i], y[32 + i]) == (s, c[0] ^ c[1] ^ c[2] ^ c[3])


VALUES = [
    0.5,
    -1.5,
    3,
    -10,
    100,
    1000.5,
    -12345.678,
    1e5,
    -1e6 + 1,
    0.001,
    -1e-5,
    7,
    33.3,
    -0.0,
    2.5,
    -3.5,
] * 2


def test_float_functions():
    x = np.array(VALUES, f32)
    y = np.zeros((37, 32), f32)
    PLAIN("functions", 1, 32, x, y, 32)
    v, a, small = x.astype(float), abs(x).astype(float), (x * f32(0.001)).astype(float)
    percent, millionth = (x * f32(0.01)).astype(float), (x / f32(1e6)).astype(float)
    each = np.vectorize
    near, modulus = float(f32(3.7)), np.fmod(abs(x), f32(8)).astype(float)
    with np.errstate(over="ignore"):
        expected = [
            np.sin(v), np.cos(v), np.tan(v), np.exp(percent), np.log((abs(x) + f32(0.001)).astype(float)),
            np.log2(a + 1), (abs(x) + f32(0.1)).astype(float) ** float(f32(1.7)), each(math.erf)(v),
            np.tanh(v),
            np.arctan2(v, 3), np.arcsin(millionth), np.sqrt(a), 1 / np.sqrt(a + 1), np.cbrt(v),
            np.fmod(v, near),
            each(math.remainder)(v, near), np.floor(v), np.ceil(v), np.rint(v), np.trunc(v),
            np.trunc(v + np.copysign(0.5, v)), np.exp2(percent), np.log1p(a), np.expm1(small), np.hypot(v, 2),
            np.copysign(2, v), v * 8, np.maximum(v - 1, 0), each(math.gamma)(modulus + 0.5),
            each(math.lgamma)(a + 0.5), np.sinh(small), np.arctanh(millionth), each(math.erfc)(percent),
        ]  # fmt: skip
        for row, wanted in zip(y, expected, strict=False):
            np.testing.assert_allclose(row, wanted.astype(f32), rtol=3e-6, atol=1e-6)
    np.testing.assert_array_equal(y[33], (v * v - v).astype(f32))  # one rounding


def test_double_functions():
    v = np.array(VALUES)
    y = np.zeros((29, 32))
    PLAIN("doubles", 1, 32, v, y, 32)
    a, each = abs(v), np.vectorize
    with np.errstate(over="ignore"):
        expected = [
            np.sin(v), np.cos(v), np.tan(v), np.exp(v * 0.01), np.log(a + 0.001), np.log2(a + 1),
            (a + 0.1) ** 1.7,
            each(math.erf)(v), np.tanh(v), np.arctan2(v, 3), np.arcsin(v / 1e6), np.sqrt(a),
            1 / np.sqrt(a + 1),
            np.cbrt(v), np.fmod(v, 3.7), each(math.remainder)(v, 3.7), np.floor(v), np.rint(v),
            np.trunc(v + np.copysign(0.5, v)), each(math.gamma)(np.fmod(a, 8) + 0.5),
            each(math.lgamma)(a + 0.5),
            1 / (v + 0.5), v / 3, v.astype(f32).astype(float), np.trunc(v),
        ]  # fmt: skip
    for row, wanted in zip(y, expected, strict=False):
        np.testing.assert_allclose(row, wanted, rtol=1e-13, atol=1e-300)
    np.testing.assert_allclose(y[26:], [np.hypot(v, 2), np.expm1(v * 0.001), np.arccos(v / 1e6)], rtol=1e-13)


def test_conversions_saturate(types):
    edge = [
        0,
        1.5,
        2.5,
        -1.5,
        -2.5,
        3.99,
        -3.99,
        1e10,
        -1e10,
        np.nan,
        np.inf,
        -np.inf,
        2**31,
        255.9,
        256.5,
        -0.5,
    ]
    x = np.array(edge * 2, f32)
    y, u = np.zeros(96, i32), np.zeros(32, u32)
    types("conversions", 1, 32, x, y, u, np.zeros(32, np.int64), np.zeros(32, np.uint8))
    v = x.astype(float)

    def saturated(values, low, high):
        return np.where(np.isnan(values), 0, np.clip(values, low, high)).astype(np.int64)

    rounded = np.concatenate([np.trunc(v), np.rint(v), np.ceil(v)])
    np.testing.assert_array_equal(y, saturated(rounded, -(2.0**31), 2.0**31 - 1))
    np.testing.assert_array_equal(u, saturated(np.trunc(abs(v)), 0, 2.0**32 - 1))


def test_module_variables(types):
    y, z, i = np.zeros(33, i32), np.zeros(32, f32), np.arange(32)
    types("variables", 1, 32, y, z)
    words = np.array([list(b"first"), list(b"secon")])
    np.testing.assert_array_equal(y[:32], np.array([10, 20, 30])[i % 3] + words[i % 2, i % 5])
    np.testing.assert_array_equal(z, np.array([1.5, -2, 3.25, 0], f32)[i % 4])
    assert y[32] == 5 + i.sum()


def test_globals_are_set_and_written_back():
    y, z, counter = np.zeros(33, i32), np.zeros(32, f32), np.array([1], i32)
    values = {"counter": counter, "offsets": [1, 2, 3], "lookup": np.ones(4, f32)}
    PLAIN("variables", 1, 32, y, z, variables=values)
    assert counter[0] == y[32] == 1 + np.arange(32).sum()
    assert set(z) == {1}
    assert y[0] == 1 + ord("f")
    with pytest.raises(SpecError, match=r"globals names 'nothing', but the module has .*offsets"):
        PLAIN("variables", 1, 32, y, z, variables={"nothing": 1})
    with pytest.raises(SpecError, match=r"globals\['offsets'\] has 8 bytes, the variable has 12"):
        PLAIN("variables", 1, 32, y, z, variables={"offsets": [1, 2]})
    with pytest.raises(TypeError, match=r"globals\['lookup'\] has dtype int32, the variable is of float32"):
        PLAIN("variables", 1, 32, y, z, variables={"lookup": np.ones(4, i32)})


def test_inline_ptx(types, rng):
    x, y, lane = integers(rng, 0, 300, 32, u32), np.zeros(128, u32), np.arange(32)
    types("inline_ptx", 1, 32, x, y)
    expected = [np.where(x > 100, 7 + x, 21), lane, (1 << lane) - 1, (x >> 3 & 31) ^ x ^ lane]
    np.testing.assert_array_equal(y, np.concatenate(expected))
