"""Moves, conversions, comparisons and selection."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from opcodes_exact import DTYPES, FORMATS, bits_of, call, check_integers, integers, round_exact

INTEGERS = ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64")
MODES = ("rn", "rz", "rm", "rp")
NAN, INF = math.nan, math.inf


def range_of(type_: str) -> tuple[int, int]:
    bits = int(type_[1:])
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if type_[0] == "s" else (0, (1 << bits) - 1)


def values(type_: str) -> list[int]:
    low, high = range_of(type_)
    edges = [e + d for k in range(0, 64, 3) for e in (1 << k, -(1 << k)) for d in (-1, 0, 1)]
    ties = [
        (1 << k) + (1 << k - p) * n
        for k in range(12, 63, 5)
        for p in (8, 11, 24, 53)
        if k >= p
        for n in (1, 3)
    ]
    ties = [t + d for t in ties for d in (-1, 0, 1)]
    return sorted(
        {v for v in [*integers(int(type_[1:]), type_[0] == "s"), *edges, *ties] if low <= v <= high}
    )


@pytest.mark.parametrize("source", INTEGERS)
def test_integer_to_integer(source):
    for result in INTEGERS:
        if source == result:
            continue
        low, high = range_of(result)
        check_integers(f"cvt.{result}.{source}", lambda a: a, values(source))
        check_integers(
            f"cvt.sat.{result}.{source}",
            lambda a, low=low, high=high: min(max(a, low), high),
            values(source),
        )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("result", FORMATS)
def test_integer_to_float_rounds_once(result, mode):
    for source in INTEGERS:
        v = values(source)
        got = call(f"cvt.{mode}.{result}.{source}", v)
        want = np.array([round_exact(Fraction(x), result, mode) for x in v]).astype(DTYPES[result])
        np.testing.assert_array_equal(
            bits_of(got, got.dtype), bits_of(want, want.dtype), f"cvt.{result}.{source}"
        )


INTEGRAL = {"rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil, "rni": round}


@pytest.mark.parametrize("mode", INTEGRAL)
@pytest.mark.parametrize("source", FORMATS)
def test_float_to_integer_saturates(source, mode):
    edges = [0.0, -0.0, 0.4, 0.5, 0.6, 1.5, 2.5, -0.5, -1.5, 254.5, 255.5, 1e-30, -1e-30, 3e9, 1e15]
    edges += [
        s * 2.0**k * (1 + d) for k in (7, 8, 15, 31, 32, 63, 64) for d in (0, -(2.0**-24)) for s in (1, -1)
    ]
    with np.errstate(over="ignore"):
        v = np.array(edges, DTYPES[source])
    v = v[np.isfinite(v.astype(float))]
    for result in INTEGERS:
        low, high = range_of(result)
        got = call(f"cvt.{mode}.{result}.{source}", v)
        want = [min(max(INTEGRAL[mode](float(x)), low), high) for x in v]
        assert got.tolist() == want, f"cvt.{mode}.{result}.{source}"
        ends = call(f"cvt.{mode}.{result}.{source}", [INF, -INF, NAN]).tolist()
        # A NaN is 0, or the top bit alone where either side has 64 bits (the ISA; an H200 agrees).
        nan = (low if low else (high + 1) // 2) if "64" in source + result else 0
        assert ends == [high, low, nan], f"cvt.{mode}.{result}.{source}"


def floats(format: str) -> np.ndarray:
    rng = np.random.default_rng(4)
    precision, least, _ = FORMATS[format]
    rows = [
        0.0,
        -0.0,
        2.0**least,
        1.0,
        65504.0,
        65519.0,
        65520.0,
        2.0**-24,
        2.0**-25,
        2.0**-25 * 1.5,
        2.0**-126,
    ]
    rows += [
        2.0**-150,
        2.0**-149 * 1.5,
        1 + 2.0**-11,
        1 + 2.0**-8,
        1 + 2.0**-8 + 2.0**-30,
        1 + 2.0**-11 + 2.0**-40,
    ]
    rows += [3.4e38, 3.39e38, 3.3961775e38, 1e300, 2.0**-1074, INF]
    with np.errstate(all="ignore"):
        table = np.array([*rows, *(-np.array(rows))], np.float64).astype(DTYPES[format])
        u = np.dtype(f"u{np.dtype(DTYPES[format]).itemsize}")
        anything = rng.integers(0, 2 ** (8 * u.itemsize) - 1, 600, dtype=u, endpoint=True).view(
            DTYPES[format]
        )
        ordinary = rng.standard_normal(400).astype(np.float32 if precision > 24 else DTYPES[format])
        everything = np.concatenate([table, anything, ordinary.astype(DTYPES[format])])
        return everything[~np.isnan(everything)]


NARROW = [
    (r, s) for r, s in itertools.permutations(FORMATS, 2) if r != "f64" and not (r == "f32" and s != "f64")
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("result", "source"), NARROW)
def test_narrowing_rounds_once(result, source, mode):
    v = floats(source)
    got = call(f"cvt.{mode}.{result}.{source}", v)
    want = [
        round_exact(Fraction(float(x)), result, mode) if x != 0 and np.isfinite(float(x)) else float(x)
        for x in v
    ]
    want = np.array(want).astype(DTYPES[result])
    np.testing.assert_array_equal(bits_of(got, got.dtype), bits_of(want, want.dtype))


@pytest.mark.parametrize("pair", ["f32.f16", "f64.f32", "f64.f16", "f32.bf16", "f64.bf16"])
def test_widening_is_exact(pair):
    v = floats(pair.split(".")[1])
    np.testing.assert_array_equal(call(f"cvt.{pair}", v).astype(float), v.astype(float))
    assert np.isnan(call(f"cvt.{pair}", [NAN]).astype(float))[0]


@pytest.mark.parametrize("format", ["f32", "f64", "f16"])
@pytest.mark.parametrize("mode", INTEGRAL)
def test_rounding_to_whole_numbers(format, mode):
    v = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 100.25]
    got = call(f"cvt.{mode}.{format}.{format}", v)
    assert got.tolist() == [INTEGRAL[mode](x) for x in v]
    assert np.signbit(got)[1]


def test_modifiers_of_cvt():
    assert call("cvt.sat.f32.f32", [-1.0, 0.5, 2.0, NAN]).tolist() == [0, 0.5, 1, 0]
    assert call("cvt.rpi.s32.f32", [1e-40])[0] == 1
    assert call("cvt.rpi.ftz.s32.f32", [1e-40])[0] == 0
    assert call("cvt.ftz.f64.f32", [1e-40])[0] == 0
    assert call("cvt.rn.relu.f16.f32", [-1.0, 1.0]).tolist() == [0, 1]
    assert call("cvt.rn.satfinite.f16.f32", [1e6, -INF]).tolist() == [65504, -65504]


def test_tf32():
    one = 0x3F800000
    words = np.array([one + 0x0FFF, one + 0x1000, one + 0x3000, one + 0x1001], np.uint32).view(np.float32)
    assert call("cvt.rna.tf32.f32", words).tolist() == [one, one + 0x2000, one + 0x4000, one + 0x2000]
    assert call("cvt.rn.tf32.f32", words).tolist() == [one, one, one + 0x4000, one + 0x2000]
    assert call("cvt.rz.tf32.f32", words).tolist() == [one, one, one + 0x2000, one]


def test_pairs():
    a, b = [1.0, -2.0, 70000.0], [0.5, 3.0, -1.0]
    for type_ in ("f16", "bf16"):
        high, low = (call(f"cvt.rn.{type_}.f32", x).view(np.uint16).astype(int) for x in (a, b))
        assert call(f"cvt.rn.{type_}x2.f32", a, b).tolist() == (high << 16 | low).tolist()
    got = call("cvt.rn.satfinite.e4m3x2.f32", [1.0, 1e9, NAN], [0.5, -1e9, 448.0])
    assert got.tolist() == [0x3830, 0x7EFE, 0x7F7E]
    assert call("cvt.rn.satfinite.e5m2x2.f32", [1.0, 1e9], [0.5, -INF]).tolist() == [0x3C38, 0x7BFB]
    every = np.arange(256)
    for type_, dtype in (("e4m3x2", ml_dtypes.float8_e4m3fn), ("e5m2x2", ml_dtypes.float8_e5m2)):
        back = call(f"cvt.rn.f16x2.{type_}", every).view(np.float16)[::2].astype(float)
        np.testing.assert_array_equal(back, every.astype(np.uint8).view(dtype).astype(float))


def test_pack():
    assert call("cvt.pack.sat.s16.s32", [40000], [-40000])[0] == 0x7FFF8000
    assert call("cvt.pack.sat.u8.s32.b32", [300], [-5], [0xABCD])[0] == 0xABCDFF00
    assert call("cvt.pack.sat.s8.s32.b32", [-300], [5], [0x1234])[0] == 0x12348005
    assert call("cvt.pack.sat.u4.s32.b32", [99], [3], [0x123456])[0] == 0x123456F3
    assert call("cvt.pack.sat.s2.s32.b32", [-9], [1], [0xF])[0] == 0xF9


@pytest.mark.parametrize("type_", ["b16", "b32", "b64", "u16", "s32", "s64", "f32", "f64", "pred"])
def test_mov_copies(type_):
    from kernellab.emulator.opcodes import semantics

    found = semantics(f"mov.{type_}")
    source = np.ones((2, 32), found.sources[0])
    copy = found.compute(source)
    assert copy.dtype == source.dtype
    assert not np.shares_memory(copy, source)
    np.testing.assert_array_equal(copy, source)


ORDERED = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def compare(name: str, a: float, b: float) -> bool:
    has_nan = math.isnan(a) or math.isnan(b)
    if name in ("num", "nan"):
        return has_nan == (name == "nan")
    if name.endswith("u"):
        return has_nan or ORDERED[name[:-1]](a, b)
    return not has_nan and ORDERED[name](a, b)


FLOAT_COMPARISONS = [*ORDERED, *(f"{name}u" for name in ORDERED), "num", "nan"]
PAIRS = list(itertools.product([0.0, -0.0, 1.0, -1.5, INF, -INF, NAN], repeat=2))


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", FLOAT_COMPARISONS)
def test_setp_of_floats(name, format):
    a, b = zip(*PAIRS, strict=True)
    want = [compare(name, x, y) for x, y in PAIRS]
    assert call(f"setp.{name}.{format}", a, b).tolist() == want
    p, q = call(f"setp.{name}.{format}", a, b, destinations=2)
    assert p.tolist() == want
    assert q.tolist() == [not w for w in want]
    if format in ("f16", "bf16"):
        words = [np.ascontiguousarray(np.array(x, DTYPES[format])[:48]).view(np.uint32) for x in (a, b)]
        low, high = call(f"setp.{name}.{format}x2", *words)
        assert np.stack([low, high], 1).ravel().tolist() == want[:48]
        ones = call(f"set.{name}.{format}x2.{format}x2", *words).view(DTYPES[format]).astype(float)
        assert ones.tolist() == [float(w) for w in want[:48]]
        masks = call(f"set.{name}.u32.{format}x2", *words).view(np.uint16)
        assert masks.tolist() == [65535 * w for w in want[:48]]


@pytest.mark.parametrize("type_", INTEGERS[2:])
@pytest.mark.parametrize("name", ORDERED)
def test_setp_of_integers(name, type_):
    v = integers(int(type_[1:]), type_[0] == "s")
    check_integers(f"setp.{name}.{type_}", ORDERED[name], v, v)
    alias = {"lt": "lo", "le": "ls", "gt": "hi", "ge": "hs"}.get(name)
    if alias and type_[0] == "u":
        check_integers(f"setp.{alias}.{type_}", ORDERED[name], v, v)


@pytest.mark.parametrize(
    ("join", "combine"),
    [("and", lambda p, c: p and c), ("or", lambda p, c: p or c), ("xor", lambda p, c: p != c)],
)
def test_setp_with_a_third_source(join, combine):
    flags = [False, True]
    check_integers(
        f"setp.lt.{join}.s32",
        lambda a, b, c: (combine(a < b, c), combine(not a < b, c)),
        [-1, 0, 5],
        [-1, 0, 5],
        flags,
        destinations=2,
    )
    check_integers(
        f"set.lt.{join}.u32.s32", lambda a, b, c: -combine(a < b, c), [-1, 0, 5], [-1, 0, 5], flags
    )


def test_set_writes_ones():
    assert call("set.lt.u32.f32", [1.0, 2.0], [2.0, 1.0]).tolist() == [0xFFFFFFFF, 0]
    assert call("set.gt.s32.f64", [1.0, 2.0], [2.0, 1.0]).tolist() == [0, -1]
    assert call("set.gt.f32.s32", [1, 2], [2, 1]).tolist() == [0.0, 1.0]
    assert call("setp.eq.ftz.f32", [1e-40], [0.0])[0]
    assert not call("setp.eq.f32", [1e-40], [0.0])[0]


@pytest.mark.parametrize("type_", ["b16", "b32", "b64", "s32", "f32", "f64"])
def test_selp(type_):
    from kernellab.emulator.opcodes import semantics

    a = [1, 2, 3, 4] if type_[0] != "f" else [1.5, NAN, -0.0, INF]
    b = [9, 8, 7, 6] if type_[0] != "f" else [NAN, 1.0, 0.0, -INF]
    dtype = semantics(f"selp.{type_}").sources[0]
    got = call(f"selp.{type_}", a, b, [True, False, True, False])
    want = np.array([a[0], b[1], a[2], b[3]], dtype)
    np.testing.assert_array_equal(bits_of(got, dtype), bits_of(want, dtype))


def test_slct():
    assert call("slct.u32.s32", [1] * 3, [2] * 3, [-1, 0, 5]).tolist() == [2, 1, 1]
    c = [-1.0, -0.0, 0.0, 3.0, NAN, -1e-40]
    assert call("slct.f32.f32", [1.0] * 6, [2.0] * 6, c).tolist() == [2, 1, 1, 1, 2, 2]
    assert call("slct.ftz.f32.f32", [1.0], [2.0], [-1e-40])[0] == 1


def test_testp_and_copysign():
    v = [0.0, -0.0, 1.0, 1e-40, INF, -INF, NAN]
    expected = {
        "finite": [1, 1, 1, 1, 0, 0, 0],
        "infinite": [0, 0, 0, 0, 1, 1, 0],
        "number": [1, 1, 1, 1, 1, 1, 0],
        "notanumber": [0, 0, 0, 0, 0, 0, 1],
        "normal": [1, 1, 1, 0, 0, 0, 0],
        "subnormal": [0, 0, 0, 1, 0, 0, 0],
    }
    for name, want in expected.items():
        assert call(f"testp.{name}.f32", v).tolist() == [bool(w) for w in want], name
    assert call("copysign.f32", [-1.0, 2.0], [3.0, -4.0]).tolist() == [-3.0, 4.0]
