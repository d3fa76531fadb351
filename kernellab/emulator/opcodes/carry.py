"""Carry chains: add.cc, addc, sub.cc, subc, mad.cc, madc.

The carry flag is one more bool source or result, the last. A subtraction's flag is its borrow.
"""

from __future__ import annotations

import numpy as np

from kernellab.emulator.opcodes.integer import high
from kernellab.emulator.opcodes.registry import Array, Compute, Modifiers, Semantics, opcode

CHAINED = "u32 s32 u64 s64 b32 b64"


def sum_carry(a: Array, b: Array, carry: Array | None) -> tuple[Array, Array]:
    """Add with a carry in: the sum and the carry out."""
    total = a + b
    out = total < a
    if carry is None:
        return total, out
    again = total + carry
    return again, out | (again < total)


def difference_borrow(a: Array, b: Array, borrow: Array | None) -> tuple[Array, Array]:
    """Subtract with a borrow in: the difference and the borrow out."""
    out = a < b
    total = a - b
    if borrow is None:
        return total, out
    return total - borrow, out | (total < borrow)


def chained(m: Modifiers, width: int, compute: Compute) -> Semantics:
    """Wrap ``compute(*sources, carry or None) -> (result, carry)`` as the opcode's name asks."""
    reads, writes = m.name.removesuffix(".cc") in ("addc", "subc", "madc"), m.name.endswith(".cc")

    def call(*operands: Array) -> tuple[Array, Array] | Array:
        result: tuple[Array, Array] = compute(*operands) if reads else compute(*operands, None)
        return result if writes else result[0]

    return Semantics((m.unsigned,) * width, (m.unsigned,), call, reads, writes)


@opcode("add.cc addc addc.cc", CHAINED)
def add(m: Modifiers) -> Semantics:
    """Sums of long integers, word by word."""
    return chained(m, 2, sum_carry)


@opcode("sub.cc subc subc.cc", CHAINED)
def sub(m: Modifiers) -> Semantics:
    """Differences of long integers, word by word."""
    return chained(m, 2, difference_borrow)


@opcode("mad.cc madc madc.cc", CHAINED)
def mad(m: Modifiers) -> Semantics:
    """Products of long integers, word by word: the half is taken first, then c and the carry are added."""
    part = m.need("lo hi")
    signed = np.dtype(f"i{m.dtype.itemsize}")
    unsigned = m.unsigned
    take = high(m.dtype)

    def product(a: Array, b: Array) -> Array:
        if part == "lo":
            return a * b
        upper: Array = (
            take(a, b) if m.dtype.kind == "u" else take(a.view(signed), b.view(signed)).view(unsigned)
        )
        return upper

    return chained(m, 3, lambda a, b, c, carry: sum_carry(product(a, b), c, carry))
