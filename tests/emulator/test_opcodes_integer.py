"""Integer, bit and carry opcodes against Python integers."""

from __future__ import annotations

import numpy as np
import pytest
from opcodes_exact import call, check_integers, integers

from kernellab.emulator.opcodes import semantics
from kernellab.errors import UnsupportedPTXError

TYPES = ("u16", "s16", "u32", "s32", "u64", "s64")


def values(type_: str) -> list[int]:
    return integers(int(type_[1:]), type_[0] == "s")


def clamp(value: int, type_: str) -> int:
    bits = int(type_[1:])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if type_[0] == "s" else (0, (1 << bits) - 1)
    return min(max(value, low), high)


def truncated(a: int, b: int, type_: str) -> int:
    if b == 0:
        return -1
    return abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)


def remainder(a: int, b: int, type_: str) -> int:
    return -1 if b == 0 else a - b * truncated(a, b, type_)


def signed(value: int, bits: int) -> int:
    value %= 1 << bits
    return value - (1 << bits) if value >> (bits - 1) else value


BINARY = {
    "add": lambda a, b, t: a + b,
    "sub": lambda a, b, t: a - b,
    "mul.lo": lambda a, b, t: a * b,
    "mul.hi": lambda a, b, t: (a * b) >> int(t[1:]),
    "min": lambda a, b, t: min(a, b),
    "max": lambda a, b, t: max(a, b),
    "div": truncated,
    "rem": remainder,
}


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, type_):
    v = values(type_)
    if name in ("add", "sub", "mul.lo"):  # read as unsigned, where the sign does not matter
        v = [x % (1 << int(type_[1:])) for x in v]
    check_integers(f"{name}.{type_}", lambda a, b: BINARY[name](a, b, type_), v, v)


@pytest.mark.parametrize(
    ("opcode", "reference"),
    [
        ("add.sat.s32", lambda a, b: clamp(a + b, "s32")),
        ("sub.sat.s32", lambda a, b: clamp(a - b, "s32")),
        ("min.relu.s32", lambda a, b: max(min(a, b), 0)),
        ("max.relu.s32", lambda a, b: max(a, b, 0)),
        ("mul.wide.s32", lambda a, b: a * b),
        ("mul24.lo.s32", lambda a, b: signed(a, 24) * signed(b, 24)),
        ("mul24.hi.s32", lambda a, b: signed(a, 24) * signed(b, 24) >> 16),
    ],
)
def test_binary_s32(opcode, reference):
    check_integers(opcode, reference, values("s32"), values("s32"))


@pytest.mark.parametrize("type_", ["u16", "s16", "u32"])
def test_mul_wide(type_):
    check_integers(f"mul.wide.{type_}", lambda a, b: a * b, values(type_), values(type_))


@pytest.mark.parametrize("type_", TYPES)
def test_mad(type_):
    bits, v = int(type_[1:]), values(type_)
    u = [x % (1 << bits) for x in v]
    check_integers(f"mad.lo.{type_}", lambda a, b, c: a * b + c, u, u, u)
    check_integers(f"mad.hi.{type_}", lambda a, b, c: ((a * b) >> bits) + c, v, v, v)
    check_integers(f"sad.{type_}", lambda a, b, c: c + abs(a - b), v, v, v)
    if bits < 64:
        wide = values(f"{type_[0]}{2 * bits}")
        check_integers(f"mad.wide.{type_}", lambda a, b, c: a * b + c, v, v, wide)


def test_mad_hi_adds_after_the_half_is_taken():
    # field problem P04
    assert call("mad.hi.u32", [1], [1], [1])[0] == 1
    assert call("mad.hi.u32", [0xFFFFFFFF], [2], [0xFFFFFFFF])[0] == 0
    v = values("s32")
    check_integers("mad.hi.sat.s32", lambda a, b, c: clamp(((a * b) >> 32) + c, "s32"), v, v, v)


@pytest.mark.parametrize("type_", ["u32", "s32"])
def test_mad24(type_):
    v = values(type_)

    def low24(x):
        return signed(x, 24) if type_ == "s32" else x % (1 << 24)

    check_integers(f"mad24.lo.{type_}", lambda a, b, c: low24(a) * low24(b) + c, v, v, v)
    check_integers(f"mad24.hi.{type_}", lambda a, b, c: (low24(a) * low24(b) >> 16) + c, v, v, v)


def test_division_truncates_and_survives_its_edges():
    # field problem F14
    pairs = [(-6, 5), (6, -5), (-7, 3), (-(2**31), -1)]
    a, b = zip(*pairs, strict=True)
    assert list(call("rem.s32", a, b)) == [-1, 1, -1, 0]
    assert list(call("div.s32", a, b)) == [-1, -1, -2, -(2**31)]
    assert list(call("rem.s64", [-(2**63)], [-1])) == [0]
    assert list(call("div.u32", [7], [0])) == [0xFFFFFFFF]  # as an H200 gives


@pytest.mark.parametrize("type_", ["s16", "s32", "s64"])
def test_abs_neg(type_):
    check_integers(f"abs.{type_}", abs, values(type_))
    check_integers(f"neg.{type_}", lambda a: -a, values(type_))


@pytest.mark.parametrize("type_", ["u16x2", "s16x2"])
def test_packed_integers(type_):
    words = [0, 0x00010001, 0x7FFF8000, 0x8000FFFF, 0x12345678, 0xFFFF0001, 0x80007FFF]

    def each(function):
        def reference(a, b):
            parts = [function(*(fix(x >> s & 0xFFFF) for x in (a, b))) % 65536 for s in (0, 16)]
            return parts[0] | parts[1] << 16

        return reference

    def fix(x):
        return signed(x, 16) if type_ == "s16x2" else x

    check_integers(f"add.{type_}", each(lambda a, b: a + b), words, words)
    check_integers(f"min.{type_}", each(min), words, words)
    check_integers(f"max.{type_}", each(max), words, words)
    if type_ == "s16x2":
        check_integers("min.relu.s16x2", each(lambda a, b: max(0, min(a, b))), words, words)


CARRY = [
    ("add.cc", lambda a, b: a + b),
    ("addc.cc", lambda a, b, k: a + b + k),
    ("sub.cc", lambda a, b: a - b),
    ("subc.cc", lambda a, b, k: a - b - k),
]


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize(("name", "total"), CARRY)
def test_carry_chain(name, total, bits):
    v, flags = (
        integers(bits, False),
        [[False, True]] if "c." in name and name != "sub.cc" and name != "add.cc" else [],
    )
    check_integers(f"{name}.u{bits}", lambda *x: (total(*x), total(*x) >> bits != 0), v, v, *flags)
    if flags:
        check_integers(f"{name.removesuffix('.cc')}.u{bits}", total, v, v, *flags)


@pytest.mark.parametrize("type_", ["u32", "s32", "u64", "s64"])
@pytest.mark.parametrize("part", ["lo", "hi"])
def test_mad_carry(part, type_):
    bits, v = int(type_[1:]), integers(int(type_[1:]), False)

    def total(a, b, c, k=0):
        product = signed(a, bits) * signed(b, bits) if type_[0] == "s" else a * b
        half = product >> bits if part == "hi" else product
        return half % (1 << bits) + c + k

    flags = [False, True]
    check_integers(f"mad.{part}.cc.{type_}", lambda *x: (total(*x), total(*x) >> bits != 0), v, v, v)
    check_integers(f"madc.{part}.cc.{type_}", lambda *x: (total(*x), total(*x) >> bits != 0), v, v, v, flags)
    check_integers(f"madc.{part}.{type_}", total, v, v, v, flags)


@pytest.mark.parametrize("kinds", ["u32.u32", "u32.s32", "s32.u32", "s32.s32"])
def test_dot_products(kinds):
    first, second = kinds.split(".")

    def part(x, i, bits, kind):
        x = x >> (i * bits) & ((1 << bits) - 1)
        return signed(x, bits) if kind == "s32" else x

    def four(a, b, c):
        return c + sum(part(a, i, 8, first) * part(b, i, 8, second) for i in range(4))

    def two(a, b, c, start):
        return c + sum(part(a, i, 16, first) * part(b, start + i, 8, second) for i in range(2))

    words = [0, 0x01020304, 0x80FF7F01, 0xFFFFFFFF, 0x7F7F7F7F, 0x80808080]
    check_integers(f"dp4a.{kinds}", four, words, words, words)
    check_integers(f"dp2a.lo.{kinds}", lambda a, b, c: two(a, b, c, 0), words, words, words)
    check_integers(f"dp2a.hi.{kinds}", lambda a, b, c: two(a, b, c, 2), words, words, words)


def test_video():
    a, b = 0x01FF8000, 0x02017FFF
    bytes_ = [(a >> s & 255, b >> s & 255) for s in (0, 8, 16, 24)]
    each = sum(abs(x - y) << 8 * i for i, (x, y) in enumerate(bytes_))
    assert call("vabsdiff4.u32.u32.u32", [a], [b], [77])[0] == each
    assert call("vabsdiff4.u32.u32.u32.add", [a], [b], [77])[0] == 77 + sum(abs(x - y) for x, y in bytes_)
    assert call("vadd2.s32.s32.s32.sat", [0x7FFF8000], [0x0001FFFF], [0])[0] == 0x7FFF8000
    assert call("vavrg4.u32.u32.u32", [0x01FF0203], [0x02010204], [0])[0] == 0x02800204


def test_common_forms_are_bare_ufuncs():
    bare = {"add.s32": np.add, "sub.u64": np.subtract, "mul.lo.s32": np.multiply, "and.b32": np.bitwise_and}
    bare |= {"xor.pred": np.bitwise_xor, "add.f32": np.add, "mul.rn.f64": np.multiply, "setp.lt.s32": np.less}
    for opcode, ufunc in bare.items():
        assert semantics(opcode).compute is ufunc, opcode
    assert semantics("add.s32") is semantics("add.s32")


@pytest.mark.parametrize(
    "opcode", ["add.foo.s32", "frob.b32", "mul.s32", "cvt.rn.f32.x7", "setp.maybe.s32", "add", "cvt"]
)
def test_what_is_not_known_is_named(opcode):
    with pytest.raises(UnsupportedPTXError, match=opcode.replace(".", r"\.")):
        semantics(opcode)
