"""Verify: outputs against the reference: shape, dtype, then every value; NaN never passes by chance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from kernellab.errors import LabError, MismatchError, SpecError, UnavailableError
from kernellab.plan import Plan
from kernellab.problem import Array

POISON_FLOAT = 0xFF
POISON_OTHER = 0xA5

SKIPPED_DRIVER_ERRORS = (
    "INVALID_CONFIGURATION",
    "INVALID_VALUE",
    "LAUNCH_OUT_OF_RESOURCES",
    "NO_BINARY_FOR_GPU",
    "NOT_SUPPORTED",
    "OUT_OF_MEMORY",
)


@dataclass(frozen=True)
class Comparison:
    """One output beside its reference.

    Attributes
    ----------
    name : str
        The output.
    wrong : int
        How many elements are wrong; all of them if the shape or the dtype is.
    count : int
        How many there are.
    message : str
        What is wrong, in one sentence; empty if nothing is.
    max_ulp, rms_ulp : float
        Largest and root-mean-square error of the finite elements, in units in the last place of the reference
        (or of the magnitude given); NaN if they were not compared.
    """

    name: str
    wrong: int
    count: int
    message: str = ""
    max_ulp: float = 0.0
    rms_ulp: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """Whether a run gave the right answer.

    Attributes
    ----------
    who : str
        The kernel's id.
    comparisons : tuple of Comparison
        One an output.
    """

    who: str
    comparisons: tuple[Comparison, ...]

    @property
    def is_right(self) -> bool:
        """Whether every output is right."""
        return all(item.wrong == 0 for item in self.comparisons)

    @property
    def message(self) -> str:
        """What is wrong, or an empty string."""
        return "; ".join(f"{self.who}: {item.message}" for item in self.comparisons if item.wrong)

    @property
    def max_ulp(self) -> float:
        """Largest error over all outputs, in units in the last place."""
        return max((item.max_ulp for item in self.comparisons), default=0.0)

    def require(self) -> None:
        """Raise if an output is wrong.

        Raises
        ------
        MismatchError
            With the message.
        """
        if not self.is_right:
            raise MismatchError(self.message)


def poison_byte(dtype: Any) -> int:
    """Return the byte that fills outputs before a run: 0xFF, which is NaN, for floats; 0xA5 for the rest."""
    return POISON_FLOAT if is_float(np.dtype(dtype)) else POISON_OTHER


def poisoned(shape: tuple[int, ...], dtype: Any) -> Array:
    """Return a NumPy array that no kernel has written.

    Examples
    --------
    >>> poisoned((2,), "float32"), poisoned((2,), "uint8")
    (array([nan, nan], dtype=float32), array([165, 165], dtype=uint8))
    """
    array = np.empty(shape, dtype)
    poison(array)
    return array


def poison(array: Array) -> None:
    """Fill a C-contiguous NumPy array with poison, in place."""
    array.reshape(-1).view(np.uint8)[...] = poison_byte(array.dtype)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is a floating-point type, those of ml_dtypes included."""
    try:
        ml_dtypes.finfo(dtype)
    except ValueError:
        return False
    return dtype.kind != "c"


def verify(plan: Plan, outputs: Mapping[str, Any]) -> Verdict:
    """Compare the outputs of a run with the reference.

    Parameters
    ----------
    plan : Plan
        What ran; its inputs must be as they were before.
    outputs : mapping of str to numpy.ndarray
        What it wrote, by name.

    Returns
    -------
    Verdict
        A missing output counts as wrong.
    """
    expected, magnitude = plan.reference(), plan.magnitude()
    comparisons = []
    for name, spec in plan.outputs.items():
        if name not in outputs:
            comparisons.append(Comparison(name, max(spec.size, 1), spec.size, f"{name} is missing"))
            continue
        comparisons.append(
            compare(
                outputs[name],
                expected[name],
                name=name,
                dtype=spec.dtype,
                roundings=plan.roundings,
                magnitude=magnitude.get(name),
                is_bitwise=plan.kernel.problem.is_bitwise,
            )
        )
    return Verdict(plan.kernel.id, tuple(comparisons))


def compare(
    actual: Any,
    expected: Any,
    *,
    name: str = "y",
    dtype: Any = None,
    roundings: int = 1,
    magnitude: Any = None,
    is_bitwise: bool = False,
) -> Comparison:
    """Compare one output with its reference.

    Parameters
    ----------
    actual, expected : array
        The output and the reference; the latter may be float64 whatever the output is.
    name : str
        For the message.
    dtype : dtype, optional
        What the output must have; by default that of the reference.
    roundings : int
        Units in the last place allowed; 0 demands equality.
    magnitude : array, optional
        What the error is in proportion to; by default the reference.
    is_bitwise : bool
        Whether every bit must agree, the sign of zero and the payload of NaN included.

    Returns
    -------
    Comparison
        NaN must stand exactly where the reference has it and infinities keep their sign; -0 equals 0 unless
        bitwise.

    Examples
    --------
    >>> compare(np.array([1.0, np.nan], "float32"), np.array([1.0, 2.0]), dtype="float32").message
    'y differs in 1 of 2 elements, first at [1]: expected 2.0, got nan'
    """
    actual, expected = np.asarray(actual), np.asarray(expected)
    wanted = np.dtype(dtype) if dtype is not None else expected.dtype
    if actual.shape != expected.shape:
        return _refused(name, actual, f"{name} has shape {actual.shape}, the reference has {expected.shape}")
    if actual.dtype != wanted:
        return _refused(name, actual, f"{name} has dtype {actual.dtype}, it must be {wanted}")
    with np.errstate(all="ignore"):
        rounded = expected.astype(wanted)
        bits = _bits(actual)
        same_bits = bits == _bits(rounded)
        unwritten = _is_poison(actual) & ~same_bits
        errors = np.zeros(actual.shape)
        if is_bitwise:
            right = same_bits
        elif is_float(wanted):
            right, errors = _close(actual, expected, rounded, roundings, magnitude)
        else:
            right = actual == rounded
    return _judge(name, actual, expected, right & ~unwritten, unwritten, errors)


def _refused(name: str, actual: Array, message: str) -> Comparison:
    return Comparison(name, max(actual.size, 1), actual.size, message, np.nan, np.nan)


def _bits(array: Array) -> Array:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)


def _is_poison(array: Array) -> Array:
    pattern = int.from_bytes(bytes([poison_byte(array.dtype)]) * array.dtype.itemsize, "little")
    poisoned_elements: Array = _bits(array) == pattern
    return poisoned_elements


def _close(
    actual: Array, expected: Array, rounded: Array, roundings: int, magnitude: Any
) -> tuple[Array, Array]:
    got, want, target = (item.astype(np.float64) for item in (actual, expected, rounded))
    finite = np.isfinite(got) & np.isfinite(target)
    scale = np.abs(want) if magnitude is None else np.maximum(np.abs(want), np.abs(magnitude))
    errors = np.where(finite, np.abs(got - want) / ulp(scale, actual.dtype), 0.0)
    exact = (got == target) | (np.isnan(got) & np.isnan(target))
    return exact | (finite & (errors <= roundings)), errors


def ulp(values: Array, dtype: Any) -> Array:
    """Return the distance between neighbouring numbers of a floating-point dtype around each value.

    Examples
    --------
    >>> float(ulp(np.array([1.0]), "float32")[0]) == 2.0**-23
    True
    """
    limits = ml_dtypes.finfo(np.dtype(dtype))
    sizes = np.clip(np.abs(np.asarray(values, np.float64)), float(limits.smallest_normal), float(limits.max))
    _, exponent = np.frexp(sizes)
    result: Array = np.ldexp(1.0, exponent - 1 - limits.nmant)
    return result


def _judge(
    name: str, actual: Array, expected: Array, right: Array, unwritten: Array, errors: Array
) -> Comparison:
    wrong = int(right.size - np.count_nonzero(right))
    max_ulp = float(errors.max(initial=0.0))
    rms_ulp = float(np.sqrt(np.mean(np.square(errors)))) if errors.size else 0.0
    if wrong == 0:
        return Comparison(name, 0, right.size, "", max_ulp, rms_ulp)
    first = np.unravel_index(int(np.argmin(right)), right.shape)
    place = ", ".join(str(int(index)) for index in first)
    message = (
        f"{name} differs in {wrong} of {right.size} elements, first at [{place}]: "
        f"expected {expected[first]}, got {actual[first]}"
    )
    if unwritten[first]:
        message += ", which nothing wrote there"
    elif max_ulp:
        message += f"; errors up to {max_ulp:.3g} ulp, RMS {rms_ulp:.3g} ulp"
    return Comparison(name, wrong, right.size, message, max_ulp, rms_ulp)


def is_invalid_configuration(error: BaseException) -> bool:
    """Whether an error means "skip this configuration" and not "this kernel is wrong".

    Parameters
    ----------
    error : BaseException
        What `bind`, a build or a launch raised: an error of kernellab, of CuPy, of Numba or of the driver.

    Returns
    -------
    bool
        True for a broken limit, a missing device or tool, memory that ran out, and a launch that the driver
        refuses; False for everything else, so that an unknown error is a failure.
    """
    if isinstance(error, SpecError | UnavailableError | MemoryError):
        return True
    if isinstance(error, LabError):
        return False
    words = f"{type(error).__name__} {error}".upper().replace(" ", "_")
    if "CUDA" not in words and "OUTOFMEMORY" not in words:
        return False
    return "OUTOFMEMORY" in words or any(name in words for name in SKIPPED_DRIVER_ERRORS)
