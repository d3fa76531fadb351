"""Float arithmetic against exact fractions: every rounding mode, hard cases of fma, the special values."""

from __future__ import annotations

import math
import platform
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from opcodes_exact import DTYPES, FORMATS, bits_of, call, round_exact

from kernellab.emulator.opcodes import semantics

MODES = ("rn", "rz", "rm", "rp")
EXACT = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "fma": lambda a, b, c: a * b + c,
    "rcp": lambda a: 1 / a,
}


def special(format: str) -> list[float]:
    precision, least, largest = FORMATS[format]
    tiny, ulp = 2.0**least, 2.0 ** (1 - precision)
    normal = 2.0 ** (least + precision - 1)
    big = float((2 - Fraction(ulp)) * Fraction(2) ** largest)
    sizes = [
        tiny,
        3 * tiny,
        normal - tiny,
        normal,
        1 - ulp / 2,
        1.0,
        1 + ulp,
        1.5,
        3.0,
        1 / ulp,
        1 / ulp + 1,
        big,
    ]
    return [sign * x for x in sizes for sign in (1, -1)]


def random_floats(format: str, count: int, rng, spread: int = 12) -> np.ndarray:
    precision = FORMATS[format][0]
    mantissa = rng.integers(2 ** (precision - 1), 2**precision, count).astype(np.float64)
    kept = rng.integers(1, precision + 1, count)  # short significands make ties
    mantissa = np.floor(mantissa / 2.0 ** (precision - kept)) * 2.0 ** (precision - kept)
    value = np.ldexp(
        mantissa * rng.choice([-1, 1], count), rng.integers(-spread, spread + 1, count) - precision
    )
    return value.astype(DTYPES[format])


def near_ties(format: str, count: int, rng) -> list[np.ndarray]:
    """a, b, c with a * b halfway between two numbers and c far below: where rounding twice goes wrong."""
    precision, least, _ = FORMATS[format]
    rows = []
    while len(rows) < count:
        odd = int(rng.integers(2 ** (precision - 1), 2**precision)) * 2 + 1  # a tie, one bit too long
        a = next((d for d in (3, 5, 7, 9, 11, 13, 17, 19, 23, 29, 31) if odd % d == 0), None)
        if a is None:
            continue
        b = odd // a
        if b.bit_length() > precision:
            continue
        shift = int(rng.integers(-3, 4))
        distance = int(rng.integers(precision + 2, 3 * precision + 8))
        c = math.ldexp(float(rng.choice([-1, 1])), max(shift - distance + precision, least))
        rows.append((math.ldexp(a, shift), float(b), c))
    return [np.array(x, DTYPES[format]) for x in zip(*rows, strict=True)]


def check_exact(opcode: str, name: str, format: str, mode: str, columns) -> None:
    columns = [np.asarray(c, DTYPES[format]) for c in columns]
    results = call(opcode, *columns)
    for i, values in enumerate(zip(*(map(float, c) for c in columns), strict=True)):
        exact = EXACT[name](*map(Fraction, values))
        if exact == 0:
            assert results[i] == 0
            continue
        want = np.array(round_exact(exact, format, mode)).astype(DTYPES[format])
        assert bits_of(results[i], results.dtype) == bits_of(want, want.dtype), (
            f"{opcode}{values}: {results[i]}"
        )


def columns_for(name: str, format: str, seed: int, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    sources = {"fma": 3, "rcp": 1}.get(name, 2)
    pool = np.array(special(format), DTYPES[format])
    columns = [
        np.where(rng.random(count) < 0.4, rng.choice(pool, count), random_floats(format, count, rng)).astype(
            DTYPES[format]
        )
        for _ in range(sources)
    ]
    if name == "fma":  # c cancels the rounded product, or is a tie's neighbour
        with np.errstate(all="ignore"):
            product = (columns[0] * columns[1]).astype(DTYPES[format])
        cancels = (rng.random(count) < 0.3) & np.isfinite(product)
        columns[2] = np.where(cancels, -product, columns[2]).astype(DTYPES[format])
    return columns


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("format", ["f32", "f64"])
def test_rounding_is_exact(format, name, mode):
    check_exact(f"{name}.{mode}.{format}", name, format, mode, columns_for(name, format, 3, 700))


@pytest.mark.parametrize("format", FORMATS)
def test_fma_rounds_once(format):
    columns = columns_for("fma", format, 5, 1500)
    with np.errstate(all="ignore"):
        check_exact(f"fma.rn.{format}", "fma", format, "rn", columns)
        check_exact(f"fma.rn.{format}", "fma", format, "rn", near_ties(format, 300, np.random.default_rng(6)))


def test_near_ties_would_catch_rounding_twice():
    a, b, c = (x.astype(np.float64) for x in near_ties("f32", 300, np.random.default_rng(6)))
    twice = (a * b + c).astype(np.float32)
    assert np.any(twice != call("fma.rn.f32", a, b, c))


@pytest.mark.parametrize("format", ["f32", "f64", "bf16"])
def test_fma_of_subnormal_results(format):
    rng = np.random.default_rng(8)
    precision, least, _ = FORMATS[format]
    root = 2.0 ** (least // 2)
    a, b = (
        (random_floats(format, 1000, rng, 2).astype(np.float64) * root).astype(DTYPES[format]) for _ in "ab"
    )
    c = (rng.integers(-40, 40, 1000) * 2.0 ** (least + rng.choice([0, 1, precision - 8], 1000))).astype(
        DTYPES[format]
    )
    check_exact(f"fma.rn.{format}", "fma", format, "rn", [a, b, c])
    # c + half a step, less or more a little that a float64 sum of float32 cannot hold
    half, step = 2.0 ** ((least - 1) // 2), 2.0 ** -(precision - 4)
    for odd in (1, 2 ** (precision - 2) + 1):
        columns = [[half * (1 + step)], [half * (1 - step)], [odd * 2.0**least]]
        check_exact(f"fma.rn.{format}", "fma", format, "rn", columns)


def test_fma_is_not_a_multiply_and_an_add():
    # field problem F10
    a = np.float32(1 + 2.0**-12)
    rounded = np.float32(a * a)
    assert call("fma.rn.f32", [a], [a], [-rounded])[0] == np.float32(2.0**-24)
    assert call("add.f32", call("mul.f32", [a], [a]), [-rounded])[0] == 0


@pytest.mark.parametrize("format", ["f32", "f64", "f16", "bf16"])
def test_fma_of_special_values(format):
    inf, nan, big = math.inf, math.nan, special(format)[-2]
    rows = [
        (inf, 1, -inf, nan),
        (inf, 0, 1, nan),
        (1, 2, inf, inf),
        (big, big, -inf, -inf),  # the product overflows, but is finite
        (big, 2, -big, big),
        (-0.0, 1, -0.0, -0.0),
        (-0.0, 1, 0.0, 0.0),
        (1, 1, -1, 0.0),
        (nan, 1, 1, nan),
        (big, -2, 0, -inf),
    ]
    a, b, c, want = zip(*rows, strict=True)
    got = call(f"fma.rn.{format}", a, b, c).astype(np.float64)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[5:8]), [True, False, False])


@pytest.mark.parametrize("mode", MODES)
def test_sqrt_and_exact_zeros(mode):
    for format in ("f32", "f64"):
        values = [abs(x) for x in special(format)] + list(range(1, 60))
        got = call(f"sqrt.{mode}.{format}", values).astype(np.float64)
        for x, root in zip(np.array(values, DTYPES[format]).astype(np.float64), got, strict=True):
            root, x = Fraction(root), Fraction(x)
            up = Fraction(float(np.nextafter(DTYPES[format](root), DTYPES[format](np.inf))))
            down = Fraction(float(np.nextafter(DTYPES[format](root), DTYPES[format](0))))
            if mode in ("rz", "rm"):
                assert root**2 <= x < up**2
            elif mode == "rp":
                assert down**2 < x <= root**2
            else:
                assert ((down + root) / 2) ** 2 <= x <= ((up + root) / 2) ** 2
        zero = call(f"add.{mode}.{format}", [1.5, -0.0, 0.0, -0.0], [-1.5, -0.0, 0.0, 0.0])
        assert np.signbit(zero).tolist() == [mode == "rm", True, False, mode == "rm"]
        assert math.isnan(call(f"sqrt.{mode}.{format}", [-1.0])[0])


@pytest.mark.parametrize("format", ["f16", "bf16"])
@pytest.mark.parametrize("name", ["add", "sub", "mul"])
def test_half_arithmetic(name, format):
    check_exact(f"{name}.{format}", name, format, "rn", columns_for(name, format, 11, 1200))


@pytest.mark.parametrize("format", ["f16", "bf16"])
@pytest.mark.parametrize(
    ("opcode", "sources"),
    [
        ("add", 2),
        ("mul", 2),
        ("fma.rn", 3),
        ("fma.rn.relu", 3),
        ("neg", 1),
        ("abs", 1),
        ("min", 2),
        ("max.NaN", 2),
    ],
)
def test_packed_is_the_single_form_on_both_halves(opcode, sources, format):
    rng = np.random.default_rng(2)
    dtype = np.dtype(DTYPES[format])
    halves = [rng.choice(np.array([*special(format), np.nan, 0.0], dtype), (300, 2)) for _ in range(sources)]
    words = [np.ascontiguousarray(h).view(np.uint32).ravel() for h in halves]
    packed = call(f"{opcode}.{format}x2", *words).view(np.uint16)
    single = call(f"{opcode}.{format}", *(h.ravel() for h in halves)).view(np.uint16)
    np.testing.assert_array_equal(packed, single)


@pytest.mark.parametrize(("opcode", "sources"), [("add.rn.ftz", 2), ("mul.rz", 2), ("fma.rp", 3)])
def test_pairs_of_f32_are_the_single_form_on_both_halves(opcode, sources):
    columns = columns_for("fma", "f32", 12, 400)[:sources]
    pairs = call(f"{opcode}.f32x2", *(c.view(np.uint64) for c in columns)).view(np.uint32)
    np.testing.assert_array_equal(pairs, call(f"{opcode}.f32", *columns).view(np.uint32))


def test_packed_accepts_a_scalar_and_a_row_of_warps():
    compute = semantics("add.f16x2").compute
    ones = np.full((3, 32), 0x3C003C00, np.uint32)
    two = compute(ones, np.uint32(0x40003C00))
    assert two.shape == (3, 32)
    assert np.all(two == 0x42004000)


def test_saturation_and_relu():
    x = [-1.0, -0.0, 0.25, 2.0, np.nan, np.inf]
    for format in ("f32", "f16"):
        got = call(f"add.sat.{format}", x, [0.0] * 6)
        assert got.tolist() == [0, 0, 0.25, 1, 0, 1]
        assert not np.signbit(got).any()
    relu = call("fma.rn.relu.f16", x, [1.0] * 6, [0.0] * 6)
    np.testing.assert_array_equal(relu, np.array([0, 0, 0.25, 2, np.nan, np.inf], np.float16))


def test_flushing_keeps_the_sign():
    small, normal = 2.0**-127, 2.0**-126
    assert bits_of(call("add.ftz.f32", [-small, small], [-0.0, 0.0]), np.dtype("f4")).tolist() == [1 << 31, 0]
    assert call("add.f32", [small], [0.0])[0] == np.float32(small)
    assert call("mul.ftz.f32", [small], [2.0**30])[0] == 0  # the source is flushed
    assert call("sub.ftz.f32", [1.5 * normal], [normal])[0] == 0  # the result is flushed
    assert call("fma.rn.ftz.f32", [1.0], [normal], [normal])[0] == np.float32(2 * normal)
    # seen on an H200: a product below the normal range is flushed even where it would round into it
    below_one = np.float32(1 - 2.0**-24)
    assert call("mul.f32", [below_one], [normal])[0] == np.float32(normal)
    assert call("mul.ftz.f32", [below_one], [normal])[0] == 0


@pytest.mark.parametrize("format", ["f32", "f64", "f16", "bf16"])
def test_min_max(format):
    nan = math.nan
    a = [1.0, -0.0, 0.0, nan, 1.0, nan, -np.inf, 0.0]
    b = [2.0, 0.0, -0.0, 1.0, nan, nan, np.inf, 0.0]
    least, most = call(f"min.{format}", a, b), call(f"max.{format}", a, b)
    np.testing.assert_array_equal(least.astype(float), [1, 0, 0, 1, 1, nan, -np.inf, 0])
    np.testing.assert_array_equal(most.astype(float), [2, 0, 0, 1, 1, nan, np.inf, 0])
    assert np.signbit(least.astype(float))[1:3].tolist() == [True, True]
    assert np.signbit(most.astype(float))[1:3].tolist() == [False, False]
    assert (
        np.isnan(call(f"min.NaN.{format}", a, b).astype(float)).tolist()
        == [False] * 3 + [True] * 3 + [False] * 2
    )
    if format != "f64":
        signed = call(f"max.xorsign.abs.{format}", [-3.0, -3.0, 2.0], [2.0, -5.0, -1.0]).astype(float)
        assert signed.tolist() == [-3, 5, -2]


APPROXIMATE = {
    "sin": math.sin,
    "cos": math.cos,
    "ex2": lambda x: 2.0**x,
    "lg2": math.log2,
    "tanh": math.tanh,
    "rcp": lambda x: 1 / x,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
}


@pytest.mark.parametrize("name", APPROXIMATE)
def test_approximate(name):
    x = np.linspace(0.01, 6, 500, dtype=np.float32)
    want = np.array([APPROXIMATE[name](float(v)) for v in x])
    got = call(f"{name}.approx.f32", x)
    np.testing.assert_allclose(got, want, rtol=6.1e-8)
    if name in ("ex2", "tanh"):
        want = np.array([APPROXIMATE[name](float(v)) for v in x.astype(np.float16)])
        np.testing.assert_allclose(call(f"{name}.approx.f16", x), want, rtol=2.0**-10)


def test_approximate_edges():
    assert call("rcp.approx.f32", [0.0, -0.0, np.inf]).tolist() == [np.inf, -np.inf, 0.0]
    assert call("rsqrt.approx.f32", [0.0, np.inf]).tolist() == [np.inf, 0.0]
    assert np.isnan(call("rsqrt.approx.f32", [-1.0])[0])
    assert call("lg2.approx.f32", [0.0, 1.0]).tolist() == [-np.inf, 0.0]
    assert np.isnan(call("lg2.approx.f32", [-1.0])[0])
    assert call("ex2.approx.f32", [-np.inf, 128.0, -149.0]).tolist() == [0.0, np.inf, 2.0**-149]
    assert call("ex2.approx.ftz.f32", [-149.0])[0] == 0
    big = np.float32(2.0**127)
    assert call("div.approx.f32", [big, -1.0], [big, big]).tolist() == [0.0, -0.0]
    assert call("div.full.f32", [big], [big])[0] == 1
    assert call("div.rn.f32", [1.0, -1.0], [0.0, 0.0]).tolist() == [np.inf, -np.inf]
    gross = call("rcp.approx.ftz.f64", [3.0])
    assert gross.view(np.uint64)[0] & 0xFFFFFFFF == 0
    assert gross[0] == pytest.approx(1 / 3, rel=2.0**-20)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="about glibc's allocator")
def test_temporaries_do_not_fault_in_their_pages_each_time():
    text = """
import resource
import numpy as np
from kernellab.emulator.opcodes import semantics
x = np.ones((512, 32), np.float32)
compute = semantics("fma.rn.f32").compute
for i in range(30):
    if i == 10:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    compute(x, x, x)
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 20)
"""
    faults = float(subprocess.run([sys.executable, "-c", text], check=True, capture_output=True).stdout)
    assert faults < 5
