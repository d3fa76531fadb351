"""What a tensor core computes: D = A B + C.

Products are exact. They and C are summed in float64, in the order of BLAS, and rounded once to the type of D,
to nearest. Sums of 8- and 16-bit floats are then exact as long as their exponents span fewer than about 30
bits, so the order hardly ever shows. Hardware keeps fewer bits and truncates them: it differs, in a bound that
grows with K. The low 13 bits of tf32 are ignored. Integers wrap, or saturate where the instruction says so.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from kernellab.errors import UnsupportedPTXError

Array = npt.NDArray[Any]
TF32_BITS = np.uint32(0xFFFFE000)
_EIGHT_BITS = {
    name: np.arange(256, dtype=np.uint8).view(dtype).astype(np.float64)
    for name, dtype in {
        "s8": np.int8, "u8": np.uint8, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2
    }.items()
}  # fmt: skip
_DIRECT: dict[str, Any] = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s32": np.int32}


def decode(bits: Array, kind: str) -> Array:
    """Return the values of elements of a PTX type as float64, which holds all of them exactly."""
    if kind in _EIGHT_BITS:
        values: Array = _EIGHT_BITS[kind][bits]
        return values
    if kind == "bf16":
        bits, kind = bits.astype(np.uint32) << np.uint32(16), "f32"
    elif kind == "tf32":
        bits, kind = bits & TF32_BITS, "f32"
    if kind not in _DIRECT:
        raise UnsupportedPTXError(f"matrices of type .{kind} are not known to the emulator")
    found: Array = bits.view(_DIRECT[kind]).astype(np.float64)
    return found


def encode(values: Array, kind: str, is_saturated: bool = False) -> Array:
    """Return the bits of values rounded to a PTX type; whole numbers wrap unless `is_saturated`."""
    if kind == "s32":
        whole = values.astype(np.int64)
        if is_saturated:
            whole = whole.clip(-(1 << 31), (1 << 31) - 1)
        return whole.astype(np.int32).view(np.uint32)
    found = values.astype(_DIRECT[kind])
    bits: Array = found.view(f"u{found.itemsize}")
    return bits


def multiply(
    a: Array, b: Array, c: Array, kinds: tuple[str, str, str, str], is_saturated: bool = False
) -> Array:
    """Compute A B + C of each warp.

    Parameters
    ----------
    a, b, c : numpy.ndarray of unsigned integers, shapes (R, m, k), (R, k, n), (R, m, n)
        The bits of the matrices.
    kinds : tuple of str
        PTX types of D, A, B and C.
    is_saturated : bool
        Integers stop at the ends of their range.

    Returns
    -------
    numpy.ndarray of unsigned integers, shape (R, m, n)
        The bits of D.

    Examples
    --------
    >>> one = np.float16([[[1.5]]]).view("u2")
    >>> multiply(one, one, np.zeros((1, 1, 1), "u4"), ("f32", "f16", "f16", "f32")).view("f4")
    array([[[2.25]]], dtype=float32)
    """
    total = decode(a, kinds[1]) @ decode(b, kinds[2])
    total += decode(c, kinds[3])
    return encode(total, kinds[0], is_saturated)
