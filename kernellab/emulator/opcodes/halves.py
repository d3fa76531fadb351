"""f16 and bf16 arithmetic, single and packed in pairs.

Operations go through float32 or float64, where they are exact or keep enough bits that one more rounding is
harmless.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernellab.emulator.opcodes import floats
from kernellab.emulator.opcodes.compare import PACKED
from kernellab.emulator.opcodes.floats import APPROXIMATE, signed_ordered
from kernellab.emulator.opcodes.integer import halves_of
from kernellab.emulator.opcodes.registry import (
    BFLOAT16,
    Compute,
    Modifiers,
    Semantics,
    binary,
    opcode,
    ternary,
    unary,
)
from kernellab.emulator.opcodes.rounding import (
    F16,
    F32,
    F64,
    finish,
    fma_bf16,
    fma_f16,
    narrow,
    odd_fma,
    odd_product,
)

HALVES = "f16 bf16 f16x2 bf16x2"


def element_of(m: Modifiers) -> np.dtype[Any]:
    """The dtype of one number."""
    dtype: np.dtype[Any] = PACKED.get(m.type, m.dtype)
    return dtype


def packed(m: Modifiers, single: Semantics) -> Semantics:
    """The same on both halves of a word, where the type says so."""
    if m.type not in PACKED:
        return single
    element, compute = PACKED[m.type], single.compute
    return Semantics(
        (m.dtype,) * len(single.sources),
        (m.dtype,),
        lambda *x: compute(*halves_of(*x, dtype=element)).view(m.dtype),
    )


def through_f32(ufunc: Compute, dtype: np.dtype[Any]) -> Compute:
    """A sum or product in float32, rounded again: harmless for f16 (24 bits are more than 2 * 11 + 1)."""
    if dtype == F16:
        return lambda a, b: ufunc(a.astype(F32), b.astype(F32)).astype(F16)
    return lambda a, b: narrow(ufunc(a.astype(F64), b.astype(F64)), BFLOAT16)


@opcode("add sub mul", HALVES)
def arithmetic(m: Modifiers) -> Semantics:
    """Sum, difference, product with one rounding."""
    dtype = element_of(m)
    m.has("rn")
    ufunc = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[m.name]
    return packed(
        m,
        binary(dtype, finish(m, through_f32(ufunc, dtype), dtype, odd_product if m.name == "mul" else None)),
    )


@opcode("add sub mul fma", "f32x2")
def pair_of_f32(m: Modifiers) -> Semantics:
    """Two float32 in 64 bits."""
    inner = Modifiers(m.name, [*m.left, "f32"], 1)
    single = (floats.fma if m.name == "fma" else floats.arithmetic)(inner)
    m.left = inner.left
    return packed(m, single)


@opcode("fma", HALVES)
def fma(m: Modifiers) -> Semantics:
    """Compute a * b + c with one rounding; .relu clamps to zero from below."""
    dtype = element_of(m)
    m.has("rn")
    return packed(m, ternary(dtype, finish(m, fma_f16 if dtype == F16 else fma_bf16, dtype, odd_fma)))


@opcode("abs neg", HALVES)
def abs_neg(m: Modifiers) -> Semantics:
    """The sign bit cleared or flipped."""
    dtype = element_of(m)
    mask, ufunc = (0x7FFF, np.bitwise_and) if m.name == "abs" else (0x8000, np.bitwise_xor)
    word = np.uint16(mask)
    compute = finish(m, lambda a: ufunc(a.view(np.uint16), word).view(dtype), dtype)
    return packed(m, unary(dtype, compute))


@opcode("min max", HALVES)
def min_max(m: Modifiers) -> Semantics:
    """Smaller or larger; -0 is below +0; a NaN is dropped, or with .NaN given."""
    return packed(m, signed_ordered(m, element_of(m)))


@opcode("ex2 tanh", HALVES)
def approximate(m: Modifiers) -> Semantics:
    """The number nearest to a float64 evaluation."""
    dtype, function = element_of(m), APPROXIMATE[m.name]
    m.has("approx")
    return packed(m, unary(dtype, finish(m, lambda a: narrow(function(a.astype(F64)), dtype), dtype)))
