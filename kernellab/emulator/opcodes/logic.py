"""Logic and shifts: and, or, xor, not, lop3, shl, shr, shf.

Shift amounts at or above the width clamp, as the hardware does: NumPy would leave them to the host's shift.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from kernellab.emulator.opcodes.registry import (
    BOOL,
    Array,
    Compute,
    Modifiers,
    Semantics,
    binary,
    opcode,
    unary,
)

U8, U32, U64 = np.dtype(np.uint8), np.dtype(np.uint32), np.dtype(np.uint64)
WORDS = "b16 b32 b64"
ALL = "u16 s16 b16 u32 s32 b32 u64 s64 b64"
LOGIC = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


@opcode("and or xor", f"{ALL} pred")
def logic(m: Modifiers) -> Semantics:
    """Bitwise, and on predicates."""
    return binary(m.dtype if m.type == "pred" else m.unsigned, LOGIC[m.name])


@opcode("not", f"{ALL} pred")
def invert(m: Modifiers) -> Semantics:
    """All bits flipped; a predicate negated."""
    return unary(BOOL, np.logical_not) if m.type == "pred" else unary(m.unsigned, np.bitwise_not)


@opcode("cnot", WORDS)
def cnot(m: Modifiers) -> Semantics:
    """1 where the word is zero, else 0."""
    return unary(m.dtype, lambda a: (a == 0).astype(m.dtype))


def pair(table: int) -> Callable[[Array, Array], Array | np.uint32]:
    """A function of two words from its 4-bit truth table (bit 2b + c)."""
    forms: tuple[Callable[[Array, Array], Array | np.uint32], ...] = (
        lambda b, c: np.uint32(0),
        lambda b, c: ~(b | c),
        lambda b, c: ~b & c,
        lambda b, c: ~b,
        lambda b, c: b & ~c,
        lambda b, c: ~c,
        lambda b, c: b ^ c,
        lambda b, c: ~(b & c),
        lambda b, c: b & c,
        lambda b, c: ~(b ^ c),
        lambda b, c: c,
        lambda b, c: ~b | c,
        lambda b, c: b,
        lambda b, c: b | ~c,
        lambda b, c: b | c,
        lambda b, c: np.uint32(0xFFFFFFFF),
    )
    return forms[table]


@lru_cache(maxsize=256)
def lut(table: int) -> Compute:
    """A function of three words from its 8-bit truth table (bit 4a + 2b + c)."""
    zero, one = pair(table & 15), pair(table >> 4)
    if table & 15 == table >> 4:
        return lambda a, b, c: zero(b, c) | (a & np.uint32(0))
    if table & 15 == (table >> 4) ^ 15:
        return lambda a, b, c: a ^ zero(b, c)
    if table & 15 == 0:
        return lambda a, b, c: a & one(b, c)
    return lambda a, b, c: zero(b, c) ^ (a & (zero(b, c) ^ one(b, c)))


@opcode("lop3", "b32")
def lop3(m: Modifiers) -> Semantics:
    """Any function of three words by its truth table; .BoolOp also gives (d != 0) op q as a predicate."""
    join = m.one_of("and or xor")
    words = (U32, U32, U32, U8)
    if not join:
        return Semantics(words, (U32,), lambda a, b, c, table: lut(int(table.flat[0]))(a, b, c))

    def compute(a: Array, b: Array, c: Array, table: Array, q: Array) -> tuple[Array, Array]:
        d = lut(int(table.flat[0]))(a, b, c)
        return d, LOGIC[join](d != 0, q)

    return Semantics((*words, BOOL), (U32, BOOL), compute)


@opcode("shl", ALL)
def shl(m: Modifiers) -> Semantics:
    """Shift left; an amount at or above the width gives 0."""
    dtype, width = m.unsigned, np.uint32(8 * m.dtype.itemsize)

    def compute(a: Array, b: Array) -> Array:
        if b.item(b.argmax()) < width:
            return np.left_shift(a, b.astype(dtype))
        return np.left_shift(a, np.minimum(b, width - np.uint32(1)).astype(dtype)) * (b < width).astype(dtype)

    return Semantics((dtype, U32), (dtype,), compute)


@opcode("shr", ALL)
def shr(m: Modifiers) -> Semantics:
    """Shift right; an amount at or above the width gives 0, or the sign where the type is signed."""
    dtype, width, last = m.dtype, np.uint32(8 * m.dtype.itemsize), np.uint32(8 * m.dtype.itemsize - 1)

    def compute(a: Array, b: Array) -> Array:
        if b.item(b.argmax()) < width:
            return np.right_shift(a, b.astype(dtype))
        shifted = np.right_shift(a, np.minimum(b, last).astype(dtype))
        return shifted if dtype.kind == "i" else shifted * (b < width).astype(dtype)

    return Semantics((dtype, U32), (dtype,), compute)


def funnel(a: Array, b: Array, n: int, is_left: bool) -> Array:
    """`shf` by an amount known beforehand, from 0 to 32."""
    up = n if is_left else 32 - n
    if up in (0, 32):
        return (a if up else b).copy()
    return (b << np.uint32(up)) | (a >> np.uint32(32 - up))


@opcode("shf", "b32")
def shf(m: Modifiers) -> Semantics:
    """Funnel shift of b:a (b is the upper word); .l keeps the upper word, .r the lower one."""
    is_left, is_clamped = m.need("l r") == "l", m.need("clamp wrap") == "clamp"
    half = np.uint64(32)

    def compute(a: Array, b: Array, c: Array) -> Array:
        if c.ndim == 0:
            return funnel(a, b, min(int(c), 32) if is_clamped else int(c) & 31, is_left)
        n = np.minimum(c, np.uint32(32)) if is_clamped else c & np.uint32(31)
        both = (b.astype(U64) << half) | a
        return ((both << n.astype(U64)) >> half if is_left else both >> n.astype(U64)).astype(U32)

    return Semantics((U32, U32, U32), (U32,), compute)
