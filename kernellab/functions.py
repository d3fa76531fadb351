"""Functions with NumPy's names and meaning: NumPy in, NumPy out; CuPy in, CuPy out; each runs a kernel."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kernellab.api import apply
from kernellab.arrays import ArraySpec, cast_remedy
from kernellab.devices import cuda_arrays
from kernellab.devices import device as find_device
from kernellab.errors import ArgumentError, SpecError, speaking_as
from kernellab.intake import as_array, check_output, contiguous, flat, writable
from kernellab.kernel import Language
from kernellab.measurement import scope
from kernellab.problem import MOVED, dtype_named

if TYPE_CHECKING:
    from kernellab.devices.program import Device

COPY = "copy/float4"
TRANSPOSE = "transpose/vectorised"
RELU = "relu/branch_free"
MOVED_AS = {dtype_named(element).itemsize: dtype_named(element) for element in MOVED}
"""What elements of so many bytes are taken as by kernels that only move them."""


def copy(x: Any, *, out: Any = None, language: Language = "cuda-c", device: str | Device = "auto") -> Any:
    """Copy an array, as `numpy.copy` does.

    Parameters
    ----------
    x : array
        Of elements of 1, 2, 4, 8 or 16 bytes, whatever they mean: every bit is kept. Of any shape and
        strides.
    out : numpy.ndarray or cupy.ndarray, optional
        Where to put the copy.
    language, device
        As for `apply`.

    Returns
    -------
    numpy.ndarray or cupy.ndarray
        C-contiguous, of the same shape; or `out`.

    Examples
    --------
    >>> import numpy as np
    >>> import kernellab as kl
    >>> kl.copy(np.arange(6, dtype="float32")[::-2], device="emulator")
    array([5., 3., 1.], dtype=float32)
    """
    place = find_device(device)
    return _copy(as_given(x, "copy: x", place), "copy", out, language, place)


def _copy(array: Any, who: str, out: Any, language: Language, place: Device) -> Any:
    with scope(place, (array,), who):
        elements = as_moved(flat(array, f"{who}: x", place), f"{who}: x", place)
    return finish(COPY, who, (elements,), elements.shape, array, out, language, place)


def relu(x: Any, *, out: Any = None, language: Language = "cuda-c", device: str | Device = "auto") -> Any:
    """Return the larger of each element and 0; NaN stays NaN, as in ``numpy.maximum(x, 0)``.

    Parameters
    ----------
    x : array of float32
        Of any shape and strides.
    out : numpy.ndarray or cupy.ndarray, optional
        Where to put the result; it may be `x`.
    language, device
        As for `apply`.

    Returns
    -------
    numpy.ndarray or cupy.ndarray
        C-contiguous, of the same shape; or `out`.

    Examples
    --------
    >>> import numpy as np
    >>> import kernellab as kl
    >>> kl.relu(np.array([-1, 2, -np.inf, np.nan], dtype="float32"), device="emulator")
    array([ 0.,  2.,  0., nan], dtype=float32)
    """
    place = find_device(device)
    array = as_given(x, "relu: x", place)
    if array.dtype != np.float32:
        remedy = cast_remedy(array.dtype, "float32")
        raise ArgumentError(f"relu: x has dtype {array.dtype}, it must be float32; {remedy}")
    with scope(place, (array,), "relu"):
        elements = flat(array, "relu: x", place)
    return finish(RELU, "relu", (elements,), elements.shape, array, out, language, place)


def transpose(
    x: Any,
    axes: Sequence[int] | None = None,
    *,
    out: Any = None,
    language: Language = "cuda-c",
    device: str | Device = "auto",
) -> Any:
    """Turn rows into columns, as `numpy.transpose` does, into memory of its own.

    Parameters
    ----------
    x : array
        With at most two axes, of elements of 1, 2, 4 or 8 bytes, whatever they mean: every bit is kept. Of
        any strides.
    axes : sequence of int, optional
        A permutation of the axes; negative ones count from the end. By default they are reversed.
    out : numpy.ndarray or cupy.ndarray, optional
        Where to put the result.
    language, device
        As for `apply`.

    Returns
    -------
    numpy.ndarray or cupy.ndarray
        C-contiguous; or `out`.

    Raises
    ------
    SpecError
        For more than two axes, or `axes` that are no permutation.

    Examples
    --------
    >>> import numpy as np
    >>> import kernellab as kl
    >>> kl.transpose(np.arange(6, dtype="float32").reshape(2, 3), device="emulator")
    array([[0., 3.],
           [1., 4.],
           [2., 5.]], dtype=float32)
    """
    place = find_device(device)
    array = as_given(x, "transpose: x", place)
    if array.ndim > 2:
        raise SpecError(
            f"transpose: x has shape {array.shape}, it must have at most two axes; take numpy.transpose"
        )
    order = tuple(reversed(range(array.ndim))) if axes is None else _permutation(axes, array.ndim)
    if order == tuple(range(array.ndim)):
        return _copy(array, "transpose", out, language, place)
    if array.dtype.itemsize not in MOVED_AS:
        raise ArgumentError(
            f"transpose: x has dtype {array.dtype}, its elements must have 1, 2, 4 or 8 bytes; take "
            "numpy.transpose"
        )
    moved, turned = as_moved(array, "transpose: x", place), ArraySpec(array.shape[::-1], array.dtype)
    return finish(TRANSPOSE, "transpose", (moved,), turned.shape, turned, out, language, place)


def _permutation(axes: Any, ndim: int) -> tuple[int, ...]:
    try:
        given = tuple(axes)
    except TypeError:
        raise ArgumentError(
            f"transpose: axes is {axes!r}, it must be a sequence of integers; pass one"
        ) from None
    order = tuple(axis_of(item, ndim, "transpose") for item in given)
    if sorted(order) != list(range(ndim)):
        rule = f"it must name each of the {ndim} axes once"
        raise SpecError(f"transpose: axes is {given}, {rule}; correct it")
    return order


def axis_of(axis: Any, ndim: int, who: str) -> int:
    """Return an axis counted from the front; refuse one that is not there."""
    try:
        number = operator.index(axis)
    except TypeError:
        number = None
    if number is None or isinstance(axis, bool):
        raise ArgumentError(f"{who}: axis is {axis!r}, it must be an integer; pass one")
    if ndim == 0:
        raise SpecError(f"{who}: axis is {number}, an array of shape () has none; reshape it to (1,)")
    if not -ndim <= number < ndim:
        raise SpecError(f"{who}: axis is {number}, it must lie in [{-ndim}, {ndim}); correct it")
    return number % ndim


def as_given(x: Any, who: str, place: Device) -> Any:
    """Return what NumPy's functions take as an array.

    Raises
    ------
    ArgumentError, UnavailableError
        For what is none.
    """
    # Lists and numbers are taken as NumPy's functions take them; their dtype then decides.
    if isinstance(x, list | tuple | int | float | complex | np.generic):
        return as_made(x, who)
    return as_array(x, who, place)


def as_made(x: Any, who: str) -> Any:
    """Return the array that NumPy makes of anything.

    Raises
    ------
    ArgumentError
        If it makes none.
    """
    try:
        return np.asarray(x)
    except (ValueError, OverflowError) as error:
        kind = type(x).__name__
        rule = f"that NumPy makes no array of ({error})"
        raise ArgumentError(f"{who} is a {kind} {rule}; give rows of one length") from error


def as_moved(array: Any, who: str, place: Device) -> Any:
    """Return an array of the same bits as a kernel takes it that only moves them: itself, or a view.

    Elements of 16 bytes become two neighbours of 8: such an array must have one axis.

    Raises
    ------
    ArgumentError
        For elements of another size, and for Python objects.
    """
    nbytes = array.dtype.itemsize
    if array.dtype.hasobject or nbytes not in (*MOVED_AS, 16):
        rule = "its elements must be plain values of 1, 2, 4, 8 or 16 bytes"
        raise ArgumentError(
            f"{who} has dtype {array.dtype}, {rule}; view it as bytes or take NumPy's function"
        )
    if nbytes == 16:
        return contiguous(array, who, place)[0].view(MOVED_AS[8])
    return array if array.dtype == MOVED_AS[nbytes] else array.view(MOVED_AS[nbytes])


def finish(
    kernel: str,
    who: str,
    arrays: tuple[Any, ...],
    inner: tuple[int, ...],
    like: Any,
    out: Any,
    language: Language,
    place: Device,
) -> Any:
    """Run a kernel whose output has the shape `inner`; return the answer with the shape and dtype of `like`.

    It goes where the caller wants it: `out` itself comes back then.
    """

    def run(**options: Any) -> Any:
        with speaking_as(who):
            return apply(kernel, *arrays, language=language, device=place, **options)

    if out is None:
        return run().reshape(-1).view(like.dtype).reshape(like.shape)
    target = writable(out, who, place)
    check_output(target, who, like.dtype, like.shape)
    if cuda_arrays.is_cupy(target) and target.flags.c_contiguous:
        within = target.reshape(-1).view(arrays[0].dtype).reshape(inner)
        run(out=within)
        return out
    answer = run()
    with scope(place, (target,), who):
        cuda_arrays.assign(target, answer.reshape(-1).view(like.dtype).reshape(like.shape))
    return out
