"""Moves and conversions: mov, cvt, cvt.pack."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from kernellab.emulator.opcodes.compare import is_float
from kernellab.emulator.opcodes.registry import (
    BFLOAT16,
    DTYPES,
    Array,
    Compute,
    Modifiers,
    Semantics,
    opcode,
    unary,
)
from kernellab.emulator.opcodes.rounding import (
    F16,
    F32,
    F64,
    MODES,
    directed,
    flush,
    least,
    narrow,
    relu,
    saturated,
    to_odd,
    two_sum,
)

U32, U64, I64 = np.dtype(np.uint32), np.dtype(np.uint64), np.dtype(np.int64)
INTEGRAL: dict[str, Compute] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


@opcode("mov", "b16 b32 b64 u16 s16 u32 s32 u64 s64 f16 bf16 f32 f64 pred f16x2 bf16x2 b8 u8 s8")
def mov(m: Modifiers) -> Semantics:
    """A copy."""
    return unary(m.dtype, lambda a: a.copy())


def clamp_bounds(source: np.dtype[Any], result: np.dtype[Any]) -> tuple[int, int]:
    """The range that both integer dtypes hold."""
    a, b = np.iinfo(source), np.iinfo(result)
    return max(a.min, b.min), min(a.max, b.max)


def integer_to_integer(source: np.dtype[Any], result: np.dtype[Any], is_saturated: bool) -> Compute:
    """Wrap, extend by the source's sign, or clamp."""
    low, high = clamp_bounds(source, result)
    if not is_saturated or (low, high) == (np.iinfo(source).min, np.iinfo(source).max):
        return lambda a: a.astype(result)
    least, most = source.type(low), source.type(high)
    return lambda a: np.minimum(np.maximum(a, least), most).astype(result)


def float_to_integer(source: np.dtype[Any], result: np.dtype[Any], mode: str) -> Compute:
    """Round to an integer and clamp; a NaN gives 0, or the top bit alone where either side has 64 bits."""
    integral, limits = INTEGRAL[mode], np.iinfo(result)
    nan = (
        result.type(limits.min if limits.min else limits.max // 2 + 1)
        if 8 in (source.itemsize, result.itemsize)
        else None
    )
    middle = np.dtype(np.int32) if limits.max < 1 << 31 else I64
    top = np.float64(2.0) ** (limits.bits - (limits.min < 0))

    def compute(a: Array) -> Array:
        x = integral(a.astype(F64))
        if result.itemsize < 8:
            x = np.minimum(np.maximum(x, np.float64(limits.min)), np.float64(limits.max))
            has_nan = x.item(x.argmax()) != x.item(x.argmax())
            whole = (np.where(x == x, x, np.float64(0)) if has_nan else x).astype(middle).astype(result)
            if not has_nan:
                return whole
        else:
            size = np.abs(x) if limits.min else x
            if size.item(size.argmax()) < 2.0**63 and (limits.min or least(x) >= 0):
                return x.astype(I64).view(result)
            is_large = x >= top
            inside = np.where(is_large | (x < limits.min) | (x != x), np.float64(0), x)
            if limits.min:
                whole = np.where(x < limits.min, result.type(limits.min), inside.astype(result))
            else:
                half = np.float64(2.0**63)
                whole = np.where(
                    inside >= half,
                    (inside - half).astype(U64) + U64.type(1 << 63),
                    inside.astype(I64).astype(U64),
                )
            whole = np.where(is_large, result.type(limits.max), whole)
        return whole if nan is None else np.where(a == a, whole, nan)

    return compute


def integer_to_float(source: np.dtype[Any], result: np.dtype[Any], mode: str) -> Compute:
    """Round an integer once, in any mode, also to f16 and bf16."""
    if mode == "rn" and result in (F32, F64):
        return lambda a: a.astype(result)
    half = source.type(32) if source.itemsize == 8 else None

    def compute(a: Array) -> Array:
        if half is None:
            s, error = a.astype(F64), np.float64(0)
        else:
            upper = (a >> half) << half
            s, error = two_sum(upper.astype(F64), (a - upper).astype(F64))
        if result == F64:
            return directed(s, error < 0, error > 0, mode)
        return narrow_in_mode(to_odd(s, error), result, mode)

    return compute


def narrow_in_mode(x: Array, result: np.dtype[Any], mode: str) -> Array:
    """Round float64 to a narrower float in any mode."""
    rounded = narrow(x, result)
    if mode == "rn":
        return rounded
    back = rounded.astype(F64)
    return directed(rounded, x < back, x > back, mode)


def float_to_float(source: np.dtype[Any], result: np.dtype[Any], mode: str) -> Compute:
    """Widen exactly or round once; the integral modes keep the type and round to a whole number."""
    if mode in INTEGRAL:
        integral = INTEGRAL[mode]
        if source == result and source != BFLOAT16:
            return integral
        return lambda a: narrow(integral(a.astype(F64)), result)
    if source == result:
        return lambda a: a.copy()
    wider = {F16: 1, BFLOAT16: 1, F32: 2, F64: 3}
    if wider[source] < wider[result] or (
        mode in ("", "rn") and {source, result} != {F64, BFLOAT16} and source != F16
    ):
        return lambda a: a.astype(result)
    return lambda a: narrow_in_mode(a.astype(F64), result, mode or "rn")


def limit(x: Array) -> Array:
    """Keep a finite-only format finite: infinities become the largest number."""
    most = x.dtype.type(ml_dtypes.finfo(x.dtype).max)
    return np.where(np.isinf(x), np.copysign(most, x), x).astype(x.dtype)


@opcode("cvt")
def cvt(m: Modifiers) -> Semantics:
    """Convert between any two types of number."""
    if m.has("pack"):
        return cvt_pack(m)
    if any(t.endswith("x2") for t in m.types):
        return cvt_pair(m)
    if m.types[0] == "tf32":
        return cvt_tf32(m)
    result, source = DTYPES[m.types[0]], DTYPES[m.types[1]]
    mode = m.one_of(f"{MODES} rni rzi rmi rpi")
    if is_float(source):
        if is_float(result):
            compute = float_to_float(source, result, mode)
        else:
            compute = float_to_integer(source, result, mode or "rzi")
            m.has("sat")
    elif is_float(result):
        compute = integer_to_float(source, result, mode or "rn")
    else:
        compute = integer_to_integer(source, result, m.has("sat"))
    return Semantics((source,), (result,), finish_cvt(m, compute, source, result))


def finish_cvt(m: Modifiers, compute: Compute, source: np.dtype[Any], result: np.dtype[Any]) -> Compute:
    """Wrap with .ftz (on whichever side is f32), .sat, .satfinite and .relu."""
    is_flushed, is_saturated, is_limited, is_relu = (m.has(w) for w in ("ftz", "sat", "satfinite", "relu"))
    if not (is_flushed or is_saturated or is_limited or is_relu):
        return compute

    def wrapped(a: Array) -> Array:
        x = compute(flush(a) if is_flushed and source == F32 else a)
        if is_flushed and result == F32:
            x = flush(x)
        if is_saturated:
            x = saturated(x)
        if is_limited:
            x = limit(x)
        return relu(x) if is_relu else x

    return wrapped


def cvt_tf32(m: Modifiers) -> Semantics:
    """Keep 10 bits of a float32's mantissa: .rna takes ties away from zero, .rn to even, .rz cuts."""
    mode, is_relu, is_limited = m.one_of("rna rn rz"), m.has("relu"), m.has("satfinite")
    nan, largest = np.uint32(0x7FFFFFFF), np.uint32(0x7F7FE000)
    cut = np.uint32(0xFFFFE000)

    def compute(a: Array) -> Array:
        bits = a.view(U32)
        if mode == "rn":
            bits = bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))
        elif mode == "rna":
            bits = bits + np.uint32(0x1000)
        bits = np.where(a == a, bits & cut, (a.view(U32) if mode == "rna" else nan) & cut)
        if is_limited:
            bits = np.where(np.isinf(bits.view(F32)), largest | (bits & np.uint32(1 << 31)), bits)
        return relu(bits.view(F32)).view(U32) if is_relu else bits

    return Semantics((F32,), (U32,), compute)


PAIRS = {
    "f16x2": F16,
    "bf16x2": BFLOAT16,
    "e4m3x2": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2x2": np.dtype(ml_dtypes.float8_e5m2),
}


def join(high: Array, low: Array, packed: np.dtype[Any]) -> Array:
    """Put two halves into one word."""
    bits = np.dtype(f"u{high.dtype.itemsize}")
    shift = packed.type(8 * bits.itemsize)
    return (high.view(bits).astype(packed) << shift) | low.view(bits)


def to_eight_bits(x: Array, dtype: np.dtype[Any]) -> Array:
    """Round to an 8-bit float, with overflow and infinities at the largest number."""
    most = np.float64(ml_dtypes.finfo(dtype).max)
    wide = x.astype(F64)
    clamped = np.where(wide == wide, np.minimum(np.maximum(wide, -most), most), wide)
    bits = clamped.astype(F32).astype(dtype).view(np.uint8)
    return np.where(wide == wide, bits, np.uint8(0x7F)).view(dtype)


def cvt_pair(m: Modifiers) -> Semantics:
    """Two numbers at once: two f32 to a pair (a is the upper half), and 8-bit pairs from and to f16x2."""
    kind, source = m.types[0], m.types[1]
    packed, element = DTYPES[kind], PAIRS[kind]
    mode, is_limited, is_relu = m.one_of("rn rz", "rn"), m.has("satfinite"), m.has("relu")

    def half(x: Array) -> Array:
        if element.itemsize == 1:
            return to_eight_bits(relu(x) if is_relu else x, element)
        y = float_to_float(x.dtype, element, mode)(x)
        y = limit(y) if is_limited else y
        return relu(y) if is_relu else y

    if source == "f32":
        return Semantics((F32, F32), (packed,), lambda a, b: join(half(a), half(b), packed))
    before = PAIRS[source]
    bits = np.dtype(f"u{before.itemsize}")
    shift = DTYPES[source].type(8 * before.itemsize)

    def compute(a: Array) -> Array:
        high, low = (np.asarray(v.astype(bits)).view(before) for v in (a >> shift, a))
        return join(half(high.astype(F32)), half(low.astype(F32)), packed)

    return Semantics((DTYPES[source],), (packed,), compute)


def cvt_pack(m: Modifiers) -> Semantics:
    """Clamp a and b to a narrower type and pack them; with .b32, above them the lower part of c."""
    m.has("sat")
    part = m.one_of("u4 s4 u2 s2") or m.types[0]
    bits = int(part[1:])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if part[0] == "s" else (0, (1 << bits) - 1)
    least, most, mask, size = np.int32(low), np.int32(high), np.uint32((1 << bits) - 1), np.uint32(bits)
    signed = np.dtype(np.int32)

    def clamp(x: Array) -> Array:
        return np.minimum(np.maximum(x, least), most).view(U32) & mask

    def pack(a: Array, b: Array) -> Array:
        return (clamp(a) << size) | clamp(b)

    if m.types[-1] != "b32":
        return Semantics((signed, signed), (U32,), pack)
    above = np.uint32(2) * size
    return Semantics((signed, signed, U32), (U32,), lambda a, b, c: pack(a, b) | (c << above))
