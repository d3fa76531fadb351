"""Reductions and running sums with NumPy's names and meaning; each runs a catalogued kernel.

Elements are float32, float16 or bfloat16, sums are accumulated in float32, and answers have NumPy's dtypes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kernellab.api import apply
from kernellab.arrays import cast_remedy, one_of
from kernellab.devices import cuda_arrays
from kernellab.devices import device as find_device
from kernellab.errors import ArgumentError, SpecError, speaking_as
from kernellab.functions import as_given, axis_of
from kernellab.intake import check_copy, check_output, flat, writable
from kernellab.kernel import Language
from kernellab.measurement import scope
from kernellab.problem import ELEMENTS, dtype_named

if TYPE_CHECKING:
    from kernellab.devices.program import Device

ROWS_OF_A_WARP = 4096
"""Bytes of a row up to which a warp takes it alone."""
FEW_ROWS, LONG_ROW = 32, 2**24
"""Up to how many rows, each of so many bytes or more, running sums take one row at a time."""


def sum(
    x: Any,
    axis: int | Sequence[int] | None = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    language: Language = "cuda-c",
    device: str | Device = "auto",
) -> Any:
    """Add up elements, as `numpy.sum` does; the same bits in every run on one kind of device.

    Parameters
    ----------
    x : array of float32, float16 or bfloat16
        Of any shape and strides.
    axis : int or sequence of int, optional
        Along which axes; by default all.
    dtype : dtype, optional
        That of the answer: by default that of `x`; float32 too for 16-bit elements. The accumulator is
        float32 in any case, and a 16-bit answer is rounded once.
    out : numpy.ndarray or cupy.ndarray, optional
        Where to put the answer.
    keepdims : bool
        Keep the axes that were added up, with length 1.
    language, device
        As for `apply`.

    Returns
    -------
    numpy scalar, numpy.ndarray or cupy.ndarray
        0 for no element.

    Raises
    ------
    ArgumentError, SpecError
        For another dtype, or an axis that `x` does not have.

    Examples
    --------
    >>> import numpy as np
    >>> import kernellab as kl
    >>> kl.sum(np.ones((2, 3), "float32"), axis=1, device="emulator")
    array([3., 3.], dtype=float32)
    """
    place = find_device(device)
    array = floats_of(x, "sum", place)
    array = _as_dtype(array, dtype, "sum", place)
    return _reduced("sum", array, _axes(axis, array.ndim, "sum"), keepdims, out, language, place)


def max(
    x: Any,
    axis: int | Sequence[int] | None = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    language: Language = "cuda-c",
    device: str | Device = "auto",
) -> Any:
    """Return the largest element, as `numpy.max` does: NaN where there is a NaN.

    Parameters
    ----------
    x : array of float32, float16 or bfloat16
        Of any shape and strides.
    axis : int or sequence of int, optional
        Along which axes; by default all.
    out : numpy.ndarray or cupy.ndarray, optional
        Where to put the answer.
    keepdims : bool
        Keep the axes that were searched, with length 1.
    language, device
        As for `apply`.

    Returns
    -------
    numpy scalar, numpy.ndarray or cupy.ndarray
        Of the dtype of `x`.

    Raises
    ------
    SpecError
        For no element, as NumPy; for an axis that `x` does not have.
    ArgumentError
        For another dtype.

    Examples
    --------
    >>> import numpy as np
    >>> import kernellab as kl
    >>> kl.max(np.array([[1, np.nan], [3, 4]], "float32"), axis=1, device="emulator")
    array([nan,  4.], dtype=float32)
    """
    place = find_device(device)
    array = floats_of(x, "max", place)
    return _reduced("max", array, _axes(axis, array.ndim, "max"), keepdims, out, language, place)


def argmax(
    x: Any,
    axis: int | None = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    language: Language = "cuda-c",
    device: str | Device = "auto",
) -> Any:
    """Return where the largest element is, as `numpy.argmax` does: the first of equals, or the first NaN.

    Parameters
    ----------
    x : array of float32, float16 or bfloat16
        Of any shape and strides.
    axis : int, optional
        Along which axis; by default the array is taken as flat.
    out : numpy.ndarray or cupy.ndarray of int64, optional
        Where to put the answer.
    keepdims : bool
        Keep the axis that was searched, with length 1.
    language, device
        As for `apply`.

    Returns
    -------
    numpy scalar, numpy.ndarray or cupy.ndarray of int64

    Raises
    ------
    SpecError
        For no element, as NumPy; for an axis that `x` does not have.
    ArgumentError
        For another dtype, or an axis that is no integer.

    Examples
    --------
    >>> import numpy as np
    >>> import kernellab as kl
    >>> int(kl.argmax(np.array([1, 5, 5], "float32"), device="emulator"))
    1
    """
    place = find_device(device)
    array = floats_of(x, "argmax", place)
    axes = None if axis is None else (axis_of(axis, array.ndim, "argmax"),)
    return _reduced("argmax", array, axes, keepdims, out, language, place)


def cumsum(
    x: Any,
    axis: int | None = None,
    dtype: Any = None,
    out: Any = None,
    *,
    exclusive: bool = False,
    deterministic: bool = True,
    language: Language = "cuda-c",
    device: str | Device = "auto",
) -> Any:
    """Return running sums, as `numpy.cumsum` does, or those of what comes before each element.

    Parameters
    ----------
    x : array of float32, float16 or bfloat16
        Of any shape and strides.
    axis : int, optional
        Along which axis; by default the array is taken as flat.
    dtype : dtype, optional
        That of the answer: by default that of `x`; float32 too for 16-bit elements. The accumulator is
        float32 in any case, and 16-bit answers are rounded once.
    out : numpy.ndarray or cupy.ndarray, optional
        Where to put the answer.
    exclusive : bool
        Leave each element out of its own sum.
    deterministic : bool
        The same bits in every run. If False, sums are added in the order in which blocks happen to finish.
    language, device
        As for `apply`.

    Returns
    -------
    numpy.ndarray or cupy.ndarray
        Of the shape of `x`, or flat. Every sum starts at 0, so a run of -0.0 at the front gives 0.0, as in `sum`;
        `numpy.cumsum` keeps -0.0 there.

    Raises
    ------
    ArgumentError, SpecError
        For another dtype, or an axis that `x` does not have.

    Examples
    --------
    >>> import numpy as np
    >>> import kernellab as kl
    >>> kl.cumsum(np.ones(4, "float32"), exclusive=True, device="emulator")
    array([0., 1., 2., 3.], dtype=float32)
    """
    place = find_device(device)
    array = floats_of(x, "cumsum", place)
    array = _as_dtype(array, dtype, "cumsum", place)
    rung = "cumsum/grouped" if deterministic else "cumsum/lookback"

    def running(line: Any, rung: str = rung) -> Any:
        with speaking_as("cumsum"):
            return apply(rung, line, exclusive=int(bool(exclusive)), language=language, device=place)

    along = 0 if axis is None else axis_of(axis, array.ndim, "cumsum")
    shape = (array.size,) if axis is None else array.shape
    target = _target(out, "cumsum", array.dtype, shape, place)
    if len(shape) == 1:
        return _given(running(flat(array, "cumsum: x", place).reshape(-1)), out, target, "cumsum", place)
    order = (*(k for k in range(array.ndim) if k != along), along)
    turned = array.transpose(order)
    rows = int(np.prod(turned.shape[:-1], dtype=np.int64))
    with scope(place, (array,), "cumsum"):
        lines = flat(turned, "cumsum: x", place).reshape(rows, array.shape[along])
        # Few long lines do better one after the other, each on the whole device.
        if rows <= FEW_ROWS and lines.nbytes >= rows * LONG_ROW:
            answer = turned.copy().reshape(lines.shape)
            for row in range(rows):
                answer[row] = running(lines[row])
        else:
            answer = running(lines, "row_cumsum/block")
        answer = answer.reshape(turned.shape).transpose(np.argsort(order).tolist())
    return _given(answer, out, target, "cumsum", place)


# -- how
def floats_of(x: Any, who: str, place: Device, also: tuple[str, ...] = ()) -> Any:
    """Return an array of one of the elements; refuse other dtypes, `also` names those that are taken too."""
    array = as_given(x, f"{who}: x", place)
    if not any(array.dtype == dtype_named(element) for element in ELEMENTS):
        known = one_of((*also, *ELEMENTS))
        remedy = cast_remedy(array.dtype, np.float32)
        raise ArgumentError(f"{who}: x has dtype {array.dtype}, it must be {known}; {remedy}")
    return array


def _as_dtype(array: Any, dtype: Any, who: str, place: Device) -> Any:
    """Return the array as float32 where the answer is to be."""
    rule = f"float32 or that of x, {array.dtype}"
    try:
        wanted = array.dtype if dtype is None else np.dtype(dtype)
    except (TypeError, ValueError):
        raise ArgumentError(f"{who}: dtype is {dtype!r}, it must be a dtype; pass {rule}") from None
    if wanted == array.dtype:
        return array
    if wanted != np.float32:
        raise ArgumentError(f"{who}: dtype is {wanted}, it must be {rule}; convert the answer")
    check_copy(array.size * wanted.itemsize, f"{who}: x is", place)
    return array.astype(np.float32)


def _axes(axis: Any, ndim: int, who: str) -> tuple[int, ...] | None:
    if axis is None:
        return None
    given = tuple(axis) if isinstance(axis, Sequence) else (axis,)
    axes = tuple(axis_of(item, ndim, who) for item in given)
    if len(set(axes)) != len(axes):
        raise SpecError(f"{who}: axis is {given}, it must name each axis once; correct it")
    return axes


def _reduced(
    problem: str,
    array: Any,
    axes: tuple[int, ...] | None,
    keepdims: bool,
    out: Any,
    language: Language,
    place: Device,
) -> Any:
    """Reduce over some axes, or over all where `axes` is None."""
    over = tuple(range(array.ndim)) if axes is None else axes
    kept = tuple(k for k in range(array.ndim) if k not in over)
    rows = int(np.prod([array.shape[k] for k in kept], dtype=np.int64))
    columns = int(np.prod([array.shape[k] for k in over], dtype=np.int64))
    shape = tuple(array.shape[k] for k in kept)
    if keepdims:
        shape = tuple(1 if k in over else array.shape[k] for k in range(array.ndim))
    if columns == 0 and rows and problem != "sum":
        rule = "there is no largest of no element, as in NumPy"
        raise SpecError(f"{problem}: x has shape {array.shape}, {rule}; give elements along the axis")
    kind = np.int64 if problem == "argmax" else array.dtype
    target = _target(out, problem, kind, shape, place)
    if not kept:
        line = flat(array, f"{problem}: x", place).reshape(-1)
        with speaking_as(problem):
            answer = apply(f"{problem}/vectorised", line, language=language, device=place)
    elif problem == "sum" and over == tuple(
        range(len(over))
    ):  # rows of what is kept are added up as they lie
        matrix = flat(array, f"{problem}: x", place).reshape(columns, rows)
        with speaking_as(problem):
            answer = apply("column_sum/split", matrix, language=language, device=place)
    else:
        matrix = flat(array.transpose((*kept, *over)), f"{problem}: x", place).reshape(rows, columns)
        rung = "warp" if columns * array.dtype.itemsize <= ROWS_OF_A_WARP else "split"
        with speaking_as(problem):
            answer = apply(f"row_{problem}/{rung}", matrix, language=language, device=place)
    return _given(answer.reshape(shape), out, target, problem, place)


def _target(out: Any, who: str, dtype: Any, shape: tuple[int, ...], place: Device) -> Any:
    """Return the caller's output, which has to be of that kind, before anything runs; None without one."""
    if out is None:
        return None
    target = writable(out, who, place)
    check_output(target, who, np.dtype(dtype), shape)
    return target


def _given(answer: Any, out: Any, target: Any, who: str, place: Device) -> Any:
    """Put an answer where the caller wants it; without axes NumPy's is a scalar."""
    if target is None:
        return answer[()] if isinstance(answer, np.ndarray) and answer.ndim == 0 else answer
    with scope(place, (target,), who):
        cuda_arrays.assign(target, answer)
    return out
