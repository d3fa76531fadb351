"""f32 and f64 arithmetic: exact where PTX says .rn/.rz/.rm/.rp, correctly rounded where it says .approx."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernellab.emulator.opcodes.registry import (
    Array,
    Compute,
    Modifiers,
    Semantics,
    binary,
    opcode,
    ternary,
    unary,
)
from kernellab.emulator.opcodes.rounding import (
    F32,
    F64,
    MODES,
    directed,
    exact_side,
    finish,
    fix_zero,
    fma_f32,
    fma_f64,
    odd_fma,
    odd_product,
    some,
    two_sum,
)

FLOATS = "f32 f64"
NEAREST: dict[str, Compute] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "rcp": np.reciprocal,
    "sqrt": np.sqrt,
}


def side_f32(name: str, rounded: Array, *operands: Array) -> tuple[Array, Array]:
    """Where the exact float32 result is below, and above, the rounded one."""
    r, *x = (v.astype(F64) for v in (rounded, *operands))
    if name in ("add", "sub"):
        s, error = two_sum(x[0], x[1] if name == "add" else -x[1])
    elif name == "fma":
        s, error = two_sum(x[0] * x[1], x[2])
    elif name == "mul":
        s, error = x[0] * x[1], np.float64(0)
    elif name == "sqrt":
        return x[0] < r * r, x[0] > r * r
    else:
        a, b = (np.float64(1), x[0]) if name == "rcp" else x
        s, r = np.copysign(a, a * b), r * np.abs(b)
        is_finite = np.isfinite(s) & (b != 0)
        return is_finite & (s < r), is_finite & (s > r)
    is_finite = np.isfinite(s)
    return is_finite & ((s < r) | ((s == r) & (error < 0))), is_finite & ((s > r) | ((s == r) & (error > 0)))


def with_mode(name: str, nearest: Compute, mode: str, dtype: np.dtype[Any]) -> Compute:
    """Build another rounding mode from the result to nearest and the side the exact one lies on."""
    if mode == "rn":
        return nearest
    side = side_f32 if dtype == F32 else exact_side

    def compute(*x: Array) -> Array:
        rounded = nearest(*x)
        below, above = side(name, rounded, *x)
        result = directed(rounded, below, above, mode)
        if mode != "rm" or name not in ("add", "sub", "fma"):
            return result
        terms = (x[0].astype(F64) * x[1], x[2]) if name == "fma" else (x[0], x[1] if name == "add" else -x[1])
        return fix_zero(result, ~(below | above), *terms)

    return compute


@opcode("add sub mul", FLOATS)
def arithmetic(m: Modifiers) -> Semantics:
    """Sum, difference, product, in any rounding mode."""
    compute = with_mode(m.name, NEAREST[m.name], m.one_of(MODES, "rn"), m.dtype)
    return binary(m.dtype, finish(m, compute, m.dtype, odd_product if m.name == "mul" else None))


@opcode("fma mad", FLOATS)
def fma(m: Modifiers) -> Semantics:
    """Compute a * b + c with one rounding; mad with a float type is the same."""
    compute = with_mode("fma", fma_f32 if m.type == "f32" else fma_f64, m.one_of(MODES, "rn"), m.dtype)
    return ternary(m.dtype, finish(m, compute, m.dtype, odd_fma))


def divide_approx(a: Array, b: Array) -> Array:
    """Multiply a by a reciprocal that is flushed: 0 where |b| is above 2**126."""
    size = np.abs(b)
    return np.divide(
        a, np.where((size > np.float32(2.0**126)) & np.isfinite(b), np.copysign(np.float32(np.inf), b), b)
    )


@opcode("div", FLOATS)
def div(m: Modifiers) -> Semantics:
    """.rn and friends are exact; .full and .approx are the correctly rounded quotient."""
    if m.has("approx"):
        return binary(F32, finish(m, divide_approx, {"f32": F32}[m.type]))
    mode = "rn" if m.has("full") else m.one_of(MODES, "rn")
    return binary(m.dtype, finish(m, with_mode("div", np.divide, mode, m.dtype), m.dtype))


def upper_word(compute: Compute) -> Compute:
    """The gross f64 approximations: the lower 32 bits of source and result are zero."""
    mask = np.uint64(0xFFFFFFFF00000000)
    return lambda a: (compute((a.view(np.uint64) & mask).view(F64)).view(np.uint64) & mask).view(F64)


@opcode("rcp sqrt", FLOATS)
def rcp_sqrt(m: Modifiers) -> Semantics:
    """Reciprocal and square root."""
    nearest = NEAREST[m.name]
    if m.has("approx"):
        compute = upper_word(nearest) if m.type == "f64" else nearest
        return unary(m.dtype, finish(m, compute, m.dtype))
    return unary(m.dtype, finish(m, with_mode(m.name, nearest, m.one_of(MODES, "rn"), m.dtype), m.dtype))


APPROXIMATE: dict[str, Compute] = {
    "sin": np.sin,
    "cos": np.cos,
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
    "rsqrt": lambda a: 1 / np.sqrt(a),
}


@opcode("sin cos lg2 ex2 tanh rsqrt", FLOATS)
def approximate(m: Modifiers) -> Semantics:
    """The float32 nearest to a float64 evaluation; the hardware is within 2 ulp of it."""
    function = APPROXIMATE[m.name]
    m.has("approx")
    if m.type == "f64":
        compute = {"rsqrt": function}[m.name]
        return unary(F64, finish(m, upper_word(compute) if "ftz" in m.left else compute, F64))
    return unary(F32, finish(m, lambda a: function(a.astype(F64)).astype(F32), F32))


@opcode("abs neg", FLOATS)
def abs_neg(m: Modifiers) -> Semantics:
    """The sign bit cleared or flipped."""
    return unary(m.dtype, finish(m, np.absolute if m.name == "abs" else np.negative, m.dtype))


@opcode("copysign", FLOATS)
def copysign(m: Modifiers) -> Semantics:
    """The sign of a with the size of b."""
    return binary(m.dtype, lambda a, b: np.copysign(b, a))


def ordered(name: str, propagates: bool) -> Compute:
    """Min or max with -0 below +0; drops a NaN, or with .NaN gives it."""
    ufunc = {
        ("min", False): np.fmin,
        ("max", False): np.fmax,
        ("min", True): np.minimum,
        ("max", True): np.maximum,
    }[name, propagates]
    merge = np.bitwise_or if name == "min" else np.bitwise_and

    def compute(a: Array, b: Array) -> Array:
        result = ufunc(a, b)
        bits = np.dtype(f"u{result.dtype.itemsize}")
        x, y = a.view(bits), b.view(bits)
        zeros = (x | y) == bits.type(
            1 << (8 * bits.itemsize - 1)
        )  # both are zeros, and one at least is negative
        return np.where(zeros, merge(x, y).view(result.dtype), result) if some(zeros) else result

    return compute


@opcode("min max", FLOATS)
def min_max(m: Modifiers) -> Semantics:
    """Smaller or larger; .xorsign.abs compares sizes and takes the product of the signs."""
    return signed_ordered(m, m.dtype)


def signed_ordered(m: Modifiers, dtype: np.dtype[Any]) -> Semantics:
    """Build min or max with .NaN, .xorsign and .abs."""
    compute = ordered(m.name, m.has("NaN"))
    has_sign, has_abs = m.has("xorsign"), m.has("abs")
    if not has_abs:
        return binary(dtype, finish(m, compute, dtype))
    bits = np.dtype(f"u{dtype.itemsize}")
    top = bits.type(1 << (8 * dtype.itemsize - 1)) * bits.type(has_sign)

    def by_size(a: Array, b: Array) -> Array:
        size = compute(np.abs(a), np.abs(b))
        return (size.view(bits) ^ ((a.view(bits) ^ b.view(bits)) & top)).view(dtype)

    return binary(dtype, finish(m, by_size, dtype))
