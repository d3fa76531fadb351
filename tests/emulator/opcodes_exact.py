"""Exact references for the opcode tests: Python integers and fractions, nothing else."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import ml_dtypes
import numpy as np

from kernellab.emulator.opcodes import semantics

FORMATS = {  # bits of the significand, exponent of the smallest subnormal, largest exponent
    "f16": (11, -24, 15),
    "bf16": (8, -133, 127),
    "f32": (24, -149, 127),
    "f64": (53, -1074, 1023),
}
DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}


def integers(bits: int, signed: bool) -> list[int]:
    top = 1 << (bits - 1)
    values = {
        0,
        1,
        2,
        3,
        5,
        7,
        31,
        32,
        33,
        100,
        top - 1,
        top,
        top + 1,
        2 * top - 2,
        2 * top - 1,
        0x5A5A5A5A % top,
    }
    return sorted(v - 2 * top if signed and v >= top else v for v in values)


def round_exact(value: Fraction, format: str, mode: str = "rn") -> float:
    """Round an exact value into a format, with the format's subnormals and overflow."""
    precision, least, largest = FORMATS[format]
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    ulp = Fraction(2) ** max(exponent - precision + 1, least)
    steps, rest = divmod(size, ulp)
    away = {
        "rn": rest > ulp / 2 or (rest == ulp / 2 and steps % 2 == 1),
        "rz": False,
        "rm": rest > 0 and value < 0,
        "rp": rest > 0 and value > 0,
    }[mode]
    rounded = (steps + away) * ulp
    limit = (2 - Fraction(2) ** (1 - precision)) * Fraction(2) ** largest
    if rounded > limit:
        toward_zero = mode == "rz" or (mode == "rm" and value > 0) or (mode == "rp" and value < 0)
        found = float(limit) if toward_zero else math.inf
    else:
        found = float(rounded)
    return found if value > 0 else -found


def bits_of(values, dtype):
    array = np.asarray(values).astype(dtype) if np.asarray(values).dtype != dtype else np.asarray(values)
    return array if dtype == np.bool_ else np.ascontiguousarray(array).view(f"u{dtype.itemsize}")


def wrapped(value: int, dtype: np.dtype) -> int:
    """Reduce an integer to what a dtype of integers holds."""
    bits = 8 * dtype.itemsize
    value %= 1 << bits
    return value - (1 << bits) if dtype.kind == "i" and value >> (bits - 1) else value


def call(opcode: str, *columns, destinations: int = 1):
    """Run an opcode over columns of values in its own dtypes; every result is checked for its dtype."""
    found = semantics(opcode, destinations)
    dtypes = [*found.sources, *([np.dtype(bool)] if found.reads_carry else [])]
    arrays = [np.array(c, d).reshape(-1, 1) for c, d in zip(columns, dtypes, strict=True)]
    with np.errstate(all="ignore"):
        results = found.compute(*arrays)
        scalar = found.compute(*(a[0, 0] for a in arrays))
    results = results if isinstance(results, tuple) else (results,)
    scalar = scalar if isinstance(scalar, tuple) else (scalar,)
    expected = [*found.results, *([np.dtype(bool)] if found.writes_carry else [])]
    assert [r.dtype for r in results] == expected
    assert [np.asarray(r).dtype for r in scalar] == expected
    for array, one in zip(results, scalar, strict=True):
        assert np.ravel(array)[:1].tobytes() == np.ravel(one).tobytes(), "a scalar call differs from an array"
    flat = [np.ravel(r) for r in results]
    return flat[0] if len(flat) == 1 else flat


def check_integers(opcode: str, reference, *choices, destinations: int = 1, limit: int = 4096) -> None:
    """Compare an opcode with a function of Python integers over all combinations of its operands' choices."""
    rows = list(itertools.product(*choices))
    rows = rows[:: max(1, len(rows) // limit)]
    results = call(opcode, *zip(*rows, strict=True), destinations=destinations)
    results = results if isinstance(results, list) else [results]
    for i, row in enumerate(rows):
        expected = reference(*row)
        expected = expected if isinstance(expected, tuple) else (expected,)
        for result, value in zip(results, expected, strict=True):
            want = bool(value) if result.dtype == bool else wrapped(int(value), result.dtype)
            assert result[i] == want, f"{opcode}{row}: {result[i]:#x}, not {want:#x}"
