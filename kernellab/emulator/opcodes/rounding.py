"""Exact rounding: fused multiply-add, directed modes, flushing, saturation, narrowing.

The rule behind all of it: a float64 that holds a result rounded *to odd* (the last bit is set whenever
something was cut off) can be rounded once more to float32, float16 or bfloat16, in any mode, as if from the
exact value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np

from kernellab.emulator.opcodes.registry import BFLOAT16, Array, Compute, Modifiers

F16, F32, F64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
MODES = "rn rz rm rp"
HUGE = 2.0**960
TINY = 2.0**-900


def smallest_normal(dtype: np.dtype[Any]) -> float:
    """The smallest normal number of a float dtype."""
    return float(ml_dtypes.finfo(dtype).smallest_normal)


def flush(x: Array) -> Array:
    """Subnormal numbers become zeros of their sign."""
    tiny = x.dtype.type(smallest_normal(x.dtype))
    return x * (np.abs(x) >= tiny).astype(x.dtype)


def least(x: Array) -> Any:
    """The smallest element, or a NaN if there is one: NumPy finds its place faster than its value."""
    return x.item(x.argmin())


def some(mask: Array) -> bool:
    """Whether any element is true."""
    return bool(mask.item(mask.argmax()))


def sizes_f32(x: Array) -> Array:
    """Unsigned integers in the order of the sizes of float32 numbers; zeros are the largest."""
    bits = x.view(np.uint32)
    return (bits + bits) - np.uint32(1)


#: `sizes_f32` of the smallest normal number.
EDGE = np.uint32(0x00FFFFFF)


def flush_f32(x: Array) -> Array:
    """`flush` for float32, which looks first whether there is anything to do."""
    if least(sizes_f32(x)) >= EDGE:
        return x
    return x * (np.abs(x) >= np.float32(2.0**-126)).astype(F32)


def saturated(x: Array) -> Array:
    """Clamp to [+0, 1]; a NaN becomes +0."""
    zero, one = x.dtype.type(0), x.dtype.type(1)
    return np.fmin(np.fmax(x + zero, zero), one)  # the sum drops the sign of -0, and quiets a signalling NaN


def relu(x: Array) -> Array:
    """Negative numbers become +0; a NaN stays."""
    zero = x.dtype.type(0)
    return np.maximum(x, zero) + zero


def flushed(compute: Compute, exact: Compute | None, dtype: np.dtype[Any]) -> Compute:
    """Flush sources and result, also a product that is below the normal range only before it is rounded."""
    squash = flush_f32 if dtype == F32 else flush
    tiny = smallest_normal(dtype)

    def call(*x: Array) -> Array:
        x = tuple(squash(v) for v in x)
        result = compute(*x)
        if dtype == F32 and least(sizes_f32(result)) > EDGE:
            return result
        if exact is not None:
            is_below = (np.abs(result) == dtype.type(tiny)) & (np.abs(exact(*x)) < tiny)
            result = np.where(is_below, result * dtype.type(0), result)
        return squash(result)

    return call


def finish(m: Modifiers, compute: Compute, dtype: np.dtype[Any], exact: Compute | None = None) -> Compute:
    """Take .ftz, .sat and .relu from the modifiers and wrap `compute` with what they ask.

    `exact` gives the value before rounding, as an odd float64, where it matters to .ftz.
    """
    if m.has("ftz"):
        compute = flushed(compute, exact, dtype)
    if m.has("sat"):
        return lambda *x: saturated(compute(*x))
    if m.has("relu"):
        return lambda *x: relu(compute(*x))
    return compute


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and its exact error (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded product and its exact error (Veltkamp, Dekker), away from both ends of the range."""
    split = 134217729.0
    p = a * b
    t = split * a
    a1 = t - (t - a)
    a0 = a - a1
    t = split * b
    b1 = t - (t - b)
    b0 = b - b1
    return p, a0 * b0 - (((p - a1 * b1) - a0 * b1) - a1 * b0)


def to_odd(s: Array, error: Array) -> Array:
    """Round to odd: where something was cut off and the last bit is even, step to the odd neighbour there."""
    bits = s.view(np.int64)
    step = np.where((error > 0) == (bits >= 0), np.int64(1), np.int64(-1))
    inexact = (error != 0) & ((bits & np.int64(1)) == 0) & np.isfinite(s)
    return (bits + step * inexact).view(F64)


def narrow(x: Array, dtype: np.dtype[Any]) -> Array:
    """Round float64 once to `dtype`, to nearest even. bfloat16 goes by way of an odd float32."""
    if dtype != BFLOAT16:
        return x.astype(dtype)
    s = x.astype(F32)
    bits = s.view(np.int32)
    back = s.astype(F64)
    step = np.where((x > back) == (bits >= 0), np.int32(1), np.int32(-1))
    inexact = (x != back) & ((bits & np.int32(1)) == 0) & np.isfinite(s)
    return (bits + step * inexact).view(F32).astype(BFLOAT16)


def directed(rounded: Array, below: Array, above: Array, mode: str) -> Array:
    """Turn a result rounded to nearest into .rz, .rm or .rp, knowing on which side the exact value lies."""
    if mode == "rn":
        return rounded
    dtype = rounded.dtype
    infinity = dtype.type(np.inf)
    if mode == "rz":
        down, up = below & (rounded > 0), above & (rounded < 0)
    else:
        down, up = below & (mode == "rm"), above & (mode == "rp")
    out = np.where(down, np.nextafter(rounded, -infinity), rounded)
    return np.where(up, np.nextafter(rounded, infinity), out).astype(dtype)


def fix_zero(result: Array, is_exact: Array, x: Array, y: Array) -> Array:
    """Rounding down, a sum that cancels exactly is -0, unless both terms are +0."""
    is_negative = is_exact & (result == 0) & (np.signbit(x) | np.signbit(y))
    return np.where(is_negative, -result.dtype.type(0), result)


def odd_product(a: Array, b: Array) -> Array:
    """The exact product of float32 or narrower."""
    return a.astype(F64) * b.astype(F64)


def odd_fma(a: Array, b: Array, c: Array) -> Array:
    """The exact a * b + c of float32 or narrower, rounded to an odd float64."""
    return to_odd(*two_sum(a.astype(F64) * b.astype(F64), c.astype(F64)))


def repaired(result: Array, hard: Array, p: Array, c: Array, s: Array) -> Array:
    """Round the sums s = p + c again where `hard` says that their own rounding may have mattered."""
    result, hard = np.array(result), np.reshape(hard, np.shape(s))
    p, c, s = (np.broadcast_to(v, result.shape)[hard] for v in (p, c, s))
    _, error = two_sum(p, c)
    result[hard] = narrow(to_odd(s, error), result.dtype)
    return result


#: The tail of a float64 beyond float32, moved to the top, where it is exactly a tie.
TIE = np.int64(-(1 << 63))


def fma_f32(a: Array, b: Array, c: Array) -> Array:
    """Compute a * b + c in float32 with one rounding.

    The product is exact in float64, and so almost always is what matters of the sum: only where its tail is
    exactly a tie, or the result is subnormal, is the error of the sum looked at.
    """
    p = a.astype(F64) * b.astype(F64)
    wide = c.astype(F64)
    s = p + wide
    result = s.astype(F32)
    tails = s.view(np.int64) << np.int64(35)
    sizes = sizes_f32(result)
    has_ties, is_normal = least(tails) == TIE, least(sizes) > EDGE
    if is_normal and not has_ties:
        return result
    return repaired(result, (tails == TIE) | (sizes <= EDGE), p, wide, s)


def fma_f16(a: Array, b: Array, c: Array) -> Array:
    """Compute a * b + c in float16: a sum that is too long for float64 is no tie of float16."""
    return (a.astype(F64) * b.astype(F64) + c.astype(F64)).astype(F16)


def fma_bf16(a: Array, b: Array, c: Array) -> Array:
    """Compute a * b + c in bfloat16 with one rounding."""
    return narrow(odd_fma(a, b, c), BFLOAT16)


def _fma_exact(a: float, b: float, c: float) -> float:
    """One fused multiply-add over finite floats by exact arithmetic."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c if a == 0 or b == 0 else 0.0
    try:
        size = abs(exact.numerator) / exact.denominator
    except OverflowError:
        size = math.inf
    return size if exact > 0 else -size


def fma_f64(a: Array, b: Array, c: Array) -> Array:
    """Compute a * b + c in float64 with one rounding.

    With the exact errors of product and sum, a * b + c = s + (e + low). Adding the rounded t = e + low to s
    is right unless s + t is exactly a tie, which the error of t breaks. Lanes near the ends of the range,
    where the errors are not exact, go through exact arithmetic one by one.
    """
    p, low = two_product(a, b)
    s, e = two_sum(p, c)
    t, rest = two_sum(e, low)
    result = s + t
    left = t - (result - s)
    ties = (left != 0) & (rest != 0) & ((result + (left + left)) - result == left + left)
    if some(ties):
        odd = np.where(ties, to_odd(t, rest), t)
        result = s + odd
    if some(result == 0):
        result = np.where(result == 0, p + c, result)
    size = np.abs(p)
    sizes = (np.abs(a), np.abs(b), np.abs(c), size)
    if least(size) > TINY and all(v.item(v.argmax()) < HUGE for v in sizes):
        return result
    largest = np.maximum(np.maximum(sizes[0], sizes[1]), np.maximum(sizes[2], size))
    easy = (largest < HUGE) & ((size > TINY) | (a == 0) | (b == 0))
    finite = np.isfinite(a) & np.isfinite(b)
    result = np.where(easy, result, np.where(finite & np.isinf(c), c, p + c))
    return by_lane(result, ~easy & finite & np.isfinite(c), _fma_exact, a, b, c)


def by_lane(result: Array, lanes: Array, function: Callable[..., float], *operands: Array) -> Array:
    """Replace the result of a few lanes by a Python function of their operands."""
    result = np.array(result)
    operands = tuple(np.broadcast_to(x, result.shape) for x in operands)
    for i in zip(*np.nonzero(np.atleast_1d(lanes)), strict=True):
        at = i if result.ndim else ()
        result[at] = function(*(float(x[at]) for x in operands))
    return result


EXACT: dict[str, Callable[..., Fraction]] = {
    "add": lambda a, b: Fraction(a) + Fraction(b),
    "sub": lambda a, b: Fraction(a) - Fraction(b),
    "mul": lambda a, b: Fraction(a) * Fraction(b),
    "div": lambda a, b: Fraction(a) / Fraction(b),
    "rcp": lambda a: 1 / Fraction(a),
    "fma": lambda a, b, c: Fraction(a) * Fraction(b) + Fraction(c),
}


def exact_side(name: str, rounded: Array, *operands: Array) -> tuple[Array, Array]:
    """Where the exact result is below, and above, a rounded one: by exact arithmetic, lane by lane."""

    def side(result: float, *values: float) -> int:
        if not all(map(np.isfinite, values)) or np.isnan(result):
            return 0
        if name in ("div", "rcp") and values[-1] == 0:
            return 0
        if np.isinf(result):
            return -1 if result > 0 else 1
        exact = Fraction(values[0]) if name == "sqrt" else EXACT[name](*values)
        found = Fraction(result) ** 2 if name == "sqrt" else Fraction(result)
        return (exact > found) - (exact < found)

    sides = np.asarray(np.frompyfunc(side, len(operands) + 1, 1)(rounded, *operands)).astype(np.int8)
    return sides < 0, sides > 0
