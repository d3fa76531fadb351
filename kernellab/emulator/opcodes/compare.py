"""Comparison and selection: setp, set, selp, slct, testp."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kernellab.emulator.opcodes.integer import halves_of
from kernellab.emulator.opcodes.logic import LOGIC
from kernellab.emulator.opcodes.registry import (
    BFLOAT16,
    BOOL,
    DTYPES,
    Array,
    Compute,
    Modifiers,
    Semantics,
    opcode,
)
from kernellab.emulator.opcodes.rounding import flush

ORDER: dict[str, Compute] = {
    "eq": np.equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
INTEGER: dict[str, Compute] = {
    **ORDER,
    "ne": np.not_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}
#: For floats: `ne` is false with a NaN; the forms that end in u are true with one.
FLOAT: dict[str, Compute] = {
    **ORDER,
    "ne": lambda a, b: (a < b) | (a > b),
    "neu": np.not_equal,
    "equ": lambda a, b: ~((a < b) | (a > b)),
    "ltu": lambda a, b: ~(a >= b),
    "leu": lambda a, b: ~(a > b),
    "gtu": lambda a, b: ~(a <= b),
    "geu": lambda a, b: ~(a < b),
    "num": lambda a, b: (a == a) & (b == b),
    "nan": lambda a, b: (a != a) | (b != b),
}
COMPARISONS = "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan"
PACKED = {"f16x2": np.dtype(np.float16), "bf16x2": BFLOAT16, "f32x2": np.dtype(np.float32)}
NUMBERS = "b16 b32 b64 u16 u32 u64 s16 s32 s64 f16 bf16 f32 f64 f16x2 bf16x2"


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is floating, bfloat16 too."""
    return dtype.kind == "f" or dtype == BFLOAT16


def comparison(m: Modifiers, dtype: np.dtype[Any]) -> Compute:
    """Take the comparison (and .ftz) from the modifiers; a ufunc where one suffices."""
    name = m.need(COMPARISONS)
    if not is_float(dtype):
        return INTEGER[name]
    test = FLOAT[name]
    if m.has("ftz"):
        return lambda a, b: test(flush(a), flush(b))
    return test


@opcode("setp", NUMBERS)
def setp(m: Modifiers) -> Semantics:
    """Give p = (a cmp b) [op c] and, where named, q = !(a cmp b) [op c]; packed: low half, high half."""
    join = m.one_of("and or xor")
    combine = LOGIC[join] if join else None
    element = PACKED.get(m.type, m.dtype)
    test = comparison(m, element)
    count = 2 if m.type in PACKED else m.destinations
    sources = (m.dtype, m.dtype, BOOL) if join else (m.dtype, m.dtype)
    if count == 1 and combine is None:
        return Semantics(sources, (BOOL,), test)

    def outcomes(a: Array, b: Array) -> tuple[Array, Array]:
        if m.type in PACKED:
            both = test(*halves_of(a, b, dtype=element))
            return both[..., 0::2], both[..., 1::2]
        p = test(a, b)
        return p, ~p

    def compute(a: Array, b: Array, c: Array = None) -> tuple[Array, ...] | Array:
        found = outcomes(a, b)[:count]
        if combine is not None:
            found = tuple(combine(p, c) for p in found)
        return found if count == 2 else found[0]

    return Semantics(sources, (BOOL,) * count, compute)


@opcode("set", NUMBERS)
def set_(m: Modifiers) -> Semantics:
    """Like setp, but writes all ones (integers) or 1.0 (floats) where it holds."""
    join = m.one_of("and or xor")
    result, source = DTYPES[m.types[0]], m.dtype
    element = PACKED.get(m.type, source)
    test = comparison(m, element)
    sources = (source, source, BOOL) if join else (source, source)
    bits = np.dtype(f"u{element.itemsize if m.type in PACKED else result.itemsize}")
    number = PACKED.get(m.types[0], result)
    one = bits.type(np.ones(1, number).view(bits)[0]) if is_float(number) else bits.type(np.iinfo(bits).max)

    def compute(a: Array, b: Array, c: Array = None) -> Array:
        found = test(*halves_of(a, b, dtype=element)) if m.type in PACKED else test(a, b)
        if join:
            found = LOGIC[join](found, np.repeat(c, 2, axis=-1) if m.type in PACKED else c)
        return (found.astype(bits) * one).view(result)

    return Semantics(sources, (result,), compute)


@opcode("selp", "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64")
def selp(m: Modifiers) -> Semantics:
    """Choose a where the predicate holds, else b."""
    bits = m.unsigned

    def compute(a: Array, b: Array, p: Array) -> Array:
        x, y = a.view(bits), b.view(bits)
        return (y ^ ((x ^ y) * p)).view(m.dtype)

    return Semantics((m.dtype, m.dtype, BOOL), (m.dtype,), compute)


@opcode("slct", "s32 f32")
def slct(m: Modifiers) -> Semantics:
    """Choose a where c >= 0 (a zero of either sign counts, a NaN does not), else b."""
    dtype, last, is_flushed = DTYPES[m.types[0]], m.dtype, m.has("ftz")

    def compute(a: Array, b: Array, c: Array) -> Array:
        return np.where((flush(c) if is_flushed else c) >= last.type(0), a, b)

    return Semantics((dtype, dtype, last), (dtype,), compute)


TESTS: dict[str, Callable[[Array], Array]] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "notanumber": np.isnan,
    "number": lambda a: a == a,
    "normal": lambda a: np.isfinite(a) & ((np.abs(a) >= np.finfo(a.dtype).tiny) | (a == 0)),
    "subnormal": lambda a: (a != 0) & (np.abs(a) < np.finfo(a.dtype).tiny),
}


@opcode("testp", "f32 f64")
def testp(m: Modifiers) -> Semantics:
    """Ask a float for its class; zeros are normal numbers here."""
    return Semantics((m.dtype,), (BOOL,), TESTS[m.one_of(" ".join(TESTS))])
