"""Logic, shifts, fields, counts and permutations against Python integers."""

from __future__ import annotations

import numpy as np
import pytest
from opcodes_exact import call, check_integers, integers

from kernellab.emulator.opcodes import semantics

WORD = integers(32, False)
AMOUNTS = [0, 1, 5, 15, 16, 31, 32, 33, 40, 63, 64, 65, 255, 256, 0x80000000, 0xFFFFFFFF]


def signed(value: int, bits: int) -> int:
    value %= 1 << bits
    return value - (1 << bits) if value >> (bits - 1) else value


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_logic(bits):
    v = integers(bits, False)
    check_integers(f"and.b{bits}", lambda a, b: a & b, v, v)
    check_integers(f"or.b{bits}", lambda a, b: a | b, v, v)
    check_integers(f"xor.b{bits}", lambda a, b: a ^ b, v, v)
    check_integers(f"not.b{bits}", lambda a: ~a, v)
    check_integers(f"cnot.b{bits}", lambda a: a == 0, v)


def test_logic_on_predicates():
    both = [False, True]
    check_integers("and.pred", lambda a, b: a and b, both, both)
    check_integers("or.pred", lambda a, b: a or b, both, both)
    check_integers("xor.pred", lambda a, b: a != b, both, both)
    check_integers("not.pred", lambda a: not a, both)


def by_table(table, a, b, c, bits=32):
    return sum((table >> (4 * (a >> i & 1) + 2 * (b >> i & 1) + (c >> i & 1)) & 1) << i for i in range(bits))


def test_lop3_has_every_table():
    # The constants that give their own table when combined: the ISA's recipe for immLut.
    for table in range(256):
        check_integers(
            "lop3.b32",
            lambda a, b, c, t: by_table(t, a, b, c),
            [0xF0F0AA00],
            [0xCCCC1234],
            [0xAAAA5678, 3],
            [table],
        )


def test_lop3_with_a_predicate():
    flags = [False, True]
    words = [0, 1, 0xFFFFFFFF]
    check_integers(
        "lop3.or.b32",
        lambda a, b, c, t, q: (by_table(t, a, b, c), by_table(t, a, b, c) != 0 or q),
        words,
        words,
        words,
        [0x80],
        flags,
    )


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_shifts_clamp(bits):
    # field problem P02
    u, s = integers(bits, False), integers(bits, True)
    check_integers(f"shl.b{bits}", lambda a, n: a << n if n < bits else 0, u, AMOUNTS)
    check_integers(f"shr.u{bits}", lambda a, n: a >> n if n < bits else 0, u, AMOUNTS)
    check_integers(f"shr.b{bits}", lambda a, n: a >> n if n < bits else 0, u, AMOUNTS)
    check_integers(f"shr.s{bits}", lambda a, n: a >> min(n, bits - 1), s, AMOUNTS)


def test_shift_by_an_immediate_clamps():
    a = np.array([[1, 0x80000000]], np.uint32)
    assert semantics("shl.b32").compute(a, np.uint32(32)).tolist() == [[0, 0]]
    assert semantics("shl.b32").compute(a, np.uint32(4)).tolist() == [[16, 0]]
    assert semantics("shr.u32").compute(a, np.uint32(99)).tolist() == [[0, 0]]
    assert semantics("shr.s32").compute(a.view(np.int32), np.uint32(99)).tolist() == [[0, -1]]
    assert semantics("shr.s32").compute(a.view(np.int32), np.uint32(99)).dtype == np.int32


def test_funnel_shifts():
    a, b = 0x11223344, 0xAABBCCDD
    for c, wrapped, left, right in [
        (8, 8, 0xBBCCDD11, 0xDD112233),
        (32, 0, a, b),
        (40, 8, a, b),
    ]:
        assert call("shf.l.clamp.b32", [a], [b], [c])[0] == left
        assert call("shf.r.clamp.b32", [a], [b], [c])[0] == right
        for direction in "lr":
            by_wrap = call(f"shf.{direction}.wrap.b32", [a], [b], [c])[0]
            assert by_wrap == call(f"shf.{direction}.clamp.b32", [a], [b], [wrapped])[0]


@pytest.mark.parametrize("form", ["l.clamp", "l.wrap", "r.clamp", "r.wrap"])
def test_funnel_shift_by_an_immediate_is_the_same(form):
    a, b = np.array([[0x11223344, 1]], np.uint32), np.array([[0xAABBCCDD, 2]], np.uint32)
    compute = semantics(f"shf.{form}.b32").compute
    for n in AMOUNTS:
        amounts = np.full_like(a, n)
        np.testing.assert_array_equal(compute(a, b, np.uint32(n)), compute(a, b, amounts), f"{form} by {n}")


@pytest.mark.parametrize("bits", [32, 64])
def test_counts(bits):
    v = [*integers(bits, False), *(1 << i for i in range(bits)), *((1 << i) - 1 for i in range(bits))]
    check_integers(f"popc.b{bits}", lambda a: a.bit_count(), v)
    check_integers(f"clz.b{bits}", lambda a: bits - a.bit_length(), v)
    check_integers(f"brev.b{bits}", lambda a: int(f"{a:0{bits}b}"[::-1], 2), v)
    check_integers(f"bfind.u{bits}", lambda a: a.bit_length() - 1, v)
    check_integers(f"bfind.shiftamt.u{bits}", lambda a: bits - a.bit_length() if a else -1, v)
    s = [signed(x, bits) for x in v]
    check_integers(f"bfind.s{bits}", lambda a: (~a if a < 0 else a).bit_length() - 1, s)


def test_fns():
    def reference(mask, base, offset):
        bits = [i for i in range(32) if mask >> i & 1]
        if offset == 0:
            return base if mask >> base & 1 else -1
        found = [i for i in bits if i >= base] if offset > 0 else [i for i in bits[::-1] if i <= base]
        return found[abs(offset) - 1] if len(found) >= abs(offset) else -1

    check_integers("fns.b32", reference, WORD, [0, 3, 16, 31], [-3, -1, 0, 1, 2, 32])


@pytest.mark.parametrize("bits", [32, 64])
def test_fields(bits):
    def read(
        n,
    ):  # the 32-bit forms read 8 bits of position and length; the 64-bit ones clamp (seen on an H200)
        return n & 255 if bits == 32 else n

    def unsigned_field(a, at, n):
        return (a >> read(at)) & ((1 << read(n)) - 1) if read(at) < bits else 0

    def signed_field(a, at, n):
        at, n = read(at), min(read(n), bits)
        return signed(a >> min(at, bits), n) if n else 0

    def insert(a, b, at, n):
        at, n = read(at), read(n)
        mask = (((1 << min(n, 64)) - 1) << at) % (1 << bits) if at < bits else 0
        return (b & ~mask) | ((a << at) & mask) if at < bits else b

    u = integers(bits, False)
    check_integers(f"bfe.u{bits}", unsigned_field, u, AMOUNTS[:-2], AMOUNTS[:-2])
    check_integers(f"bfe.s{bits}", signed_field, integers(bits, True), AMOUNTS[:-2], AMOUNTS[:-2])
    check_integers(f"bfi.b{bits}", insert, u[::2], u[1::2], AMOUNTS[:-2], AMOUNTS[:-2])


def test_szext_bmsk():
    check_integers("szext.clamp.u32", lambda a, n: a % (1 << min(n, 32)), WORD, AMOUNTS)
    check_integers("szext.wrap.u32", lambda a, n: a % (1 << (n & 31)), WORD, AMOUNTS)
    s = integers(32, True)
    check_integers("szext.clamp.s32", lambda a, n: signed(a, min(n, 32)) if n else 0, s, AMOUNTS)

    def mask(at, n):
        return ((1 << min(n, 32)) - 1) << min(at, 32)

    check_integers("bmsk.clamp.b32", mask, AMOUNTS, AMOUNTS)
    check_integers("bmsk.wrap.b32", lambda at, n: mask(at & 31, n & 31), AMOUNTS, AMOUNTS)


def byte_of(a, b, selector):
    both = (b << 32 | a).to_bytes(8, "little")
    byte = both[selector & 7]
    return (255 if byte & 128 else 0) if selector & 8 else byte


def test_prmt():
    def reference(a, b, c):
        return sum(byte_of(a, b, c >> 4 * i & 15) << 8 * i for i in range(4))

    selectors = [0x3210, 0x5410, 0x7632, 0x0123, 0xFEDC, 0x89AB, 0x4444, 0xFFFF7654]
    words = [0x11FF8044, 0xA1B2C3D4], [0x55667788, 0x80F00F01]
    check_integers("prmt.b32", reference, *words, selectors)
    a, b = (np.array([w], np.uint32) for w in words)
    for c in selectors:
        immediate = semantics("prmt.b32").compute(a, b, np.uint32(c))
        assert immediate.tolist() == [[reference(x, y, c) for x, y in zip(*words, strict=True)]], hex(c)


@pytest.mark.parametrize(
    ("mode", "rows"),
    [
        ("f4e", ["3210", "4321", "5432", "6543"]),
        ("b4e", ["5670", "6701", "7012", "0123"]),
        ("rc8", ["0000", "1111", "2222", "3333"]),
        ("ecl", ["3210", "3211", "3222", "3333"]),
        ("ecr", ["0000", "1110", "2210", "3210"]),
        ("rc16", ["1010", "3232", "1010", "3232"]),
    ],
)
def test_prmt_modes(mode, rows):
    a, b = 0x33221100, 0x77665544
    for c, row in enumerate(rows):
        expected = sum(byte_of(a, b, int(digit)) << 8 * (3 - i) for i, digit in enumerate(row))
        assert call(f"prmt.b32.{mode}", [a, a], [b, b], [c, c + 4])[0] == expected
