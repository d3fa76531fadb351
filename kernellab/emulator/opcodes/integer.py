"""Integer arithmetic: add, sub, mul, mad, div, rem, min, max, and their relatives.

Operations that do not depend on the sign (add, sub, mul.lo) are read as unsigned, so that they are bare
ufuncs on the register itself. Nothing here warns: the hardware wraps, and so do these.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernellab.emulator.opcodes.registry import (
    DTYPES,
    Array,
    Compute,
    Modifiers,
    Semantics,
    binary,
    opcode,
    ternary,
    unary,
)

INTEGERS = "u16 s16 u32 s32 u64 s64"
I64 = np.dtype(np.int64)
U64 = np.dtype(np.uint64)
I32 = np.dtype(np.int32)


def saturate(wide: Array, dtype: np.dtype[Any]) -> Array:
    """Clamp wider integers to the range of `dtype`."""
    limits = np.iinfo(dtype)
    low, high = wide.dtype.type(limits.min), wide.dtype.type(limits.max)
    return np.minimum(np.maximum(wide, low), high).astype(dtype)


@opcode("add sub", INTEGERS)
def add_sub(m: Modifiers) -> Semantics:
    """Wrap; .sat.s32 clamps."""
    ufunc = np.add if m.name == "add" else np.subtract
    if not m.has("sat"):
        return binary(m.unsigned, ufunc)
    return binary({"s32": I32}[m.type], lambda a, b: saturate(ufunc(a.astype(I64), b), I32))


@opcode("add sub min max", "u16x2 s16x2")
def packed_integer(m: Modifiers) -> Semantics:
    """Two 16-bit integers in 32 bits; .sat clamps a sum, .relu clamps to zero from below."""
    half = np.dtype(np.uint16 if m.type == "u16x2" else np.int16)
    ufunc = {"add": np.add, "sub": np.subtract, "min": np.minimum, "max": np.maximum}[m.name]
    is_saturated, is_relu = m.has("sat"), m.has("relu")

    def compute(a: Array, b: Array) -> Array:
        x, y = halves_of(a, b, dtype=half)
        z = saturate(ufunc(x.astype(I32), y), half) if is_saturated else ufunc(x, y)
        return (np.maximum(z, half.type(0)) if is_relu else z).view(np.uint32)

    return binary(m.dtype, compute)


def halves_of(*packed: Array, dtype: np.dtype[Any]) -> tuple[Array, ...]:
    """View packed words as pairs along the last axis; scalars are spread to the others' shape first."""
    shape = np.broadcast_shapes((1,), *(np.shape(p) for p in packed))
    return tuple(np.ascontiguousarray(np.broadcast_to(p, shape)).view(dtype) for p in packed)


def high_u64(a: Array, b: Array) -> Array:
    """The upper 64 bits of an unsigned 64 x 64 bit product, by 32-bit halves."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    middle = a1 * b0 + ((a0 * b0) >> half)
    other = a0 * b1 + (middle & low)
    return a1 * b1 + (middle >> half) + (other >> half)


def high_s64(a: Array, b: Array) -> Array:
    """The upper 64 bits of a signed product: the unsigned one, less each factor if the other is negative."""
    x, y, sign = a.view(U64), b.view(U64), np.int64(63)
    return (high_u64(x, y) - ((a >> sign).view(U64) & y) - ((b >> sign).view(U64) & x)).view(I64)


def high(dtype: np.dtype[Any]) -> Compute:
    """Build the upper half of a product of `dtype`."""
    if dtype.itemsize == 8:
        return high_u64 if dtype.kind == "u" else high_s64
    wide = np.dtype(f"{dtype.kind}{2 * dtype.itemsize}")
    shift = wide.type(8 * dtype.itemsize)
    return lambda a, b: ((a.astype(wide) * b.astype(wide)) >> shift).astype(dtype)


@opcode("mul", INTEGERS)
def mul(m: Modifiers) -> Semantics:
    """.lo wraps, .hi is the upper half, .wide doubles the width."""
    part = m.need("lo hi wide")
    if part == "lo":
        return binary(m.unsigned, np.multiply)
    if part == "hi":
        return binary(m.dtype, high(m.dtype))
    wide = DTYPES[f"{m.dtype.kind.replace('i', 's')}{16 * m.dtype.itemsize}"]
    return Semantics((m.dtype, m.dtype), (wide,), lambda a, b: a.astype(wide) * b.astype(wide))


@opcode("mad", INTEGERS)
def mad(m: Modifiers) -> Semantics:
    """A product's part plus c: c is added after the half is taken; .hi.sat.s32 clamps that sum."""
    part, is_saturated = m.need("lo hi wide"), m.has("sat")
    if part == "lo":
        return ternary(m.unsigned, lambda a, b, c: a * b + c)
    if part == "hi":
        take = high(m.dtype)
        if is_saturated:
            return ternary(I32, lambda a, b, c: saturate(take(a, b).astype(I64) + c, I32))
        return ternary(m.dtype, lambda a, b, c: take(a, b) + c)
    wide = DTYPES[f"{m.dtype.kind.replace('i', 's')}{16 * m.dtype.itemsize}"]
    return Semantics((m.dtype, m.dtype, wide), (wide,), lambda a, b, c: a.astype(wide) * b.astype(wide) + c)


def product24(part: str, dtype: np.dtype[Any]) -> Compute:
    """The low 32 bits, or bits 16 to 47, of the product of two 24-bit values."""
    wide, eight, shift = np.dtype(f"{dtype.kind}8"), dtype.type(8), 16 if part == "hi" else 0

    def product(a: Array, b: Array) -> Array:
        x, y = (((v << eight) >> eight).astype(wide) for v in (a, b))
        return ((x * y) >> wide.type(shift)).astype(dtype)

    return product


@opcode("mul24 mad24", "u32 s32")
def mul24(m: Modifiers) -> Semantics:
    """Products of 24-bit values."""
    part, is_saturated = m.need("lo hi"), m.has("sat")
    product = product24(part, m.dtype)
    if m.name == "mul24":
        return binary(m.dtype, product)
    if is_saturated:
        return ternary(I32, lambda a, b, c: saturate(product(a, b).astype(I64) + c, I32))
    return ternary(m.dtype, lambda a, b, c: product(a, b) + c)


@opcode("sad", INTEGERS)
def sad(m: Modifiers) -> Semantics:
    """Give c + |a - b|."""
    return ternary(m.dtype, lambda a, b, c: c + (np.maximum(a, b) - np.minimum(a, b)))


def magnitude(x: Array, unsigned: np.dtype[Any]) -> Array:
    """|x| as an unsigned number, right for the most negative one too."""
    return np.abs(x).view(unsigned)


def quotient(a: Array, b: Array) -> Array:
    """Unsigned a / b; all ones where b is zero, as the hardware gives."""
    return np.floor_divide(a, b) | -(b == 0).astype(b.dtype)


def remainder(a: Array, b: Array) -> Array:
    """Unsigned a % b; all ones where b is zero, as the hardware gives."""
    return np.remainder(a, b) | -(b == 0).astype(b.dtype)


@opcode("div", INTEGERS)
def div(m: Modifiers) -> Semantics:
    """Truncating division; the most negative number over -1 wraps to itself."""
    if m.dtype.kind == "u":
        return binary(m.dtype, quotient)
    dtype, unsigned, top = m.dtype, m.unsigned, m.dtype.type(8 * m.dtype.itemsize - 1)

    def compute(a: Array, b: Array) -> Array:
        size = np.floor_divide(magnitude(a, unsigned), magnitude(b, unsigned)).view(dtype)
        flip = (a ^ b) >> top
        return ((size ^ flip) - flip) | -(b == 0).astype(dtype)

    return binary(dtype, compute)


@opcode("rem", INTEGERS)
def rem(m: Modifiers) -> Semantics:
    """Remainder with the sign of a, as in C; 0 for the most negative number over -1."""
    if m.dtype.kind == "u":
        return binary(m.dtype, remainder)
    dtype, unsigned, top = m.dtype, m.unsigned, m.dtype.type(8 * m.dtype.itemsize - 1)

    def compute(a: Array, b: Array) -> Array:
        size = np.remainder(magnitude(a, unsigned), magnitude(b, unsigned)).view(dtype)
        flip = a >> top
        return ((size ^ flip) - flip) | -(b == 0).astype(dtype)

    return binary(dtype, compute)


@opcode("abs neg", "s16 s32 s64")
def abs_neg(m: Modifiers) -> Semantics:
    """Both leave the most negative number as it is."""
    return unary(m.dtype, np.absolute if m.name == "abs" else np.negative)


@opcode("min max", INTEGERS)
def min_max(m: Modifiers) -> Semantics:
    """Smaller or larger; .relu clamps to zero from below."""
    ufunc, zero = (np.minimum if m.name == "min" else np.maximum), m.dtype.type(0)
    if m.has("relu"):
        return binary(m.dtype, lambda a, b: np.maximum(ufunc(a, b), zero))
    return binary(m.dtype, ufunc)


def part_of(x: Array, place: int, bits: int, kind: str) -> Array:
    """The `place`-th part of `bits` bits of a 32-bit word, extended to 32 bits by its kind, as uint32."""
    up = x << np.uint32(32 - bits * (place + 1))
    down = 32 - bits
    return (up.view(np.int32) >> np.int32(down)).view(np.uint32) if kind == "i" else up >> np.uint32(down)


@opcode("dp4a dp2a", "u32 s32")
def dot(m: Modifiers) -> Semantics:
    """Four products of bytes, or two of a 16-bit value and a byte (.lo or .hi pair of b), added to c."""
    kind_a, kind_b = (DTYPES[t].kind for t in m.types)
    result = np.dtype("i4" if "i" in (kind_a, kind_b) else "u4")
    count, bits = (4, 8) if m.name == "dp4a" else (2, 16)
    first = 2 if m.name == "dp2a" and m.need("lo hi") == "hi" else 0

    def compute(a: Array, b: Array, c: Array) -> Array:
        total = c
        for i in range(count):
            total = total + part_of(a, i, bits, kind_a) * part_of(b, first + i, 8, kind_b)
        return total.view(result)

    return Semantics((DTYPES["b32"],) * 3, (result,), compute)
