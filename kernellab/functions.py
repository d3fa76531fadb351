"""Functions with NumPy's names and meaning: NumPy in, NumPy out; CuPy in, CuPy out; each runs a kernel."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kernellab.api import apply
from kernellab.arrays import cast_remedy
from kernellab.devices import cuda_arrays
from kernellab.devices import device as find_device
from kernellab.errors import ArgumentError, SpecError
from kernellab.intake import as_array, check_output, flat, writable
from kernellab.kernel import Language
from kernellab.measurement import scope

if TYPE_CHECKING:
    from kernellab.devices.program import Device

COPY = "copy/float4"
TAKE = "copy/take"
TRANSPOSE = "transpose/padded"
RELU = "relu/branch_free"
TAKE_MODES = ("raise", "wrap", "clip")


def copy(x: Any, *, out: Any = None, language: Language = "cuda-c", device: str | Device = "auto") -> Any:
    """Copy an array, as `numpy.copy` does.

    Parameters
    ----------
    x : array of float32
        Of any shape and strides.
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
    return _each(COPY, "copy", x, out, language, device)


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
    return _each(RELU, "relu", x, out, language, device)


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
    x : array of float32
        With at most two axes, of any strides.
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
    array = _array(x, "transpose: x", find_device(device))
    if array.ndim > 2:
        raise SpecError(
            f"transpose: x has shape {array.shape}, it must have at most two axes; take numpy.transpose"
        )
    order = tuple(reversed(range(array.ndim))) if axes is None else _permutation(axes, array.ndim)
    if order == tuple(range(array.ndim)):
        return _each(COPY, "transpose", array, out, language, device)
    _check(array, "transpose: x", "float32")
    return _finish(TRANSPOSE, "transpose", (array,), array.shape[::-1], out, language, device)


def take(
    x: Any,
    indices: Any,
    axis: int | None = None,
    out: Any = None,
    mode: str = "raise",
    *,
    language: Language = "cuda-c",
    device: str | Device = "auto",
) -> Any:
    """Take elements by index, as `numpy.take` does.

    Parameters
    ----------
    x : array of float32
        Of any strides.
    indices : array-like of int
        Of any shape; negative ones count from the end. Integers narrower than int64 are widened. Those on a
        GPU are looked at there in mode ``"raise"``, which waits for them.
    axis : int, optional
        Which axis to take along; by default the array is taken as flat.
    out : numpy.ndarray or cupy.ndarray, optional
        Where to put the result.
    mode : {"raise", "wrap", "clip"}
        What becomes of an index beyond the end.
    language, device
        As for `apply`.

    Returns
    -------
    numpy.ndarray or cupy.ndarray
        C-contiguous; or `out`.

    Raises
    ------
    SpecError
        For an index beyond the end, an axis that `x` does not have, or an unknown mode.
    ArgumentError
        For indices that are no integers.

    Examples
    --------
    >>> import numpy as np
    >>> import kernellab as kl
    >>> kl.take(np.arange(5, dtype="float32"), [0, -1, 2], device="emulator")
    array([0., 4., 2.], dtype=float32)
    """
    place = find_device(device)
    array = _array(x, "take: x", place)
    _check(array, "take: x", "float32")
    if mode not in TAKE_MODES:
        raise SpecError(f"take: mode is {mode!r}, it must be one of {', '.join(TAKE_MODES)}; correct it")
    along = None if axis is None else _axis(axis, array.ndim, "take")
    length = array.size if along is None else array.shape[along]
    with scope(place, (array,), "take"):
        places = _indices(indices, length, mode, place)
        if along is None:
            shape, wanted = places.shape, places
        else:
            shape = (*array.shape[:along], *places.shape, *array.shape[along + 1 :])
            wanted = _flat_index(array.shape, along, places, place)
        array = flat(array, "take: x", place)
    return _finish(TAKE, "take", (array, wanted.reshape(-1)), shape, out, language, device)


def _indices(indices: Any, length: int, mode: str, place: Device) -> Any:
    """Return indices as int64, those that point outside refused or brought inside."""
    is_on_gpu = cuda_arrays.is_on_gpu(indices)
    places = as_array(indices, "take: indices", place) if is_on_gpu else np.asarray(indices)
    if places.size == 0 and not is_on_gpu and not isinstance(indices, np.ndarray):
        places = places.astype(np.int64)
    if not np.can_cast(places.dtype, np.int64, "safe"):
        raise ArgumentError(
            f"take: indices have dtype {places.dtype}, they must be integers that fit int64; convert them"
        )
    places = places.astype(np.int64, copy=False)
    if not places.size:
        return places
    if length == 0:
        raise SpecError(
            f"take: there are {places.size} indices into 0 elements, there must be none; give elements"
        )
    if mode != "raise":
        return places % length if mode == "wrap" else places.clip(0, length - 1)
    low, high = int(places.min()), int(places.max())
    if low < -length or high >= length:
        worst = low if low < -length else high
        raise SpecError(
            f"take: an index is {worst}, it must lie in [{-length}, {length}); correct it or pass mode"
        )
    return places


def _flat_index(shape: tuple[int, ...], axis: int, places: Any, place: Device) -> Any:
    """Return where each element of the answer stands in the flat array."""
    library: Any = np if isinstance(places, np.ndarray) else place.cupy  # type: ignore[attr-defined]
    inner = int(np.prod(shape[axis + 1 :], dtype=np.int64))
    outer = int(np.prod(shape[:axis], dtype=np.int64))
    wrapped = library.where(places < 0, places + shape[axis], places).reshape(1, -1, 1)
    starts = library.arange(outer, dtype=np.int64).reshape(-1, 1, 1) * (shape[axis] * inner)
    return starts + wrapped * inner + library.arange(inner, dtype=np.int64).reshape(1, 1, -1)


def _axis(axis: Any, ndim: int, who: str) -> int:
    try:
        number = operator.index(axis)
    except TypeError:
        raise ArgumentError(f"{who}: axis is {axis!r}, it must be an integer; pass one") from None
    if not -ndim <= number < ndim:
        raise SpecError(f"{who}: axis is {number}, it must lie in [{-ndim}, {ndim}); correct it")
    return number % ndim


def _permutation(axes: Any, ndim: int) -> tuple[int, ...]:
    try:
        given = tuple(axes)
    except TypeError:
        raise ArgumentError(
            f"transpose: axes is {axes!r}, it must be a sequence of integers; pass one"
        ) from None
    order = tuple(_axis(item, ndim, "transpose") for item in given)
    if sorted(order) != list(range(ndim)):
        rule = f"it must name each of the {ndim} axes once"
        raise SpecError(f"transpose: axes is {given}, {rule}; correct it")
    return order


def _array(x: Any, who: str, place: Device) -> Any:
    # Lists and numbers are taken as NumPy's functions take them; their dtype then decides.
    if isinstance(x, list | tuple | int | float | complex | np.generic):
        return np.asarray(x)
    return as_array(x, who, place)


def _check(array: Any, who: str, dtype: str) -> None:
    if array.dtype != np.dtype(dtype):
        remedy = cast_remedy(array.dtype, dtype)
        raise ArgumentError(f"{who} has dtype {array.dtype}, it must be {dtype}; {remedy}")


def _each(kernel: str, who: str, x: Any, out: Any, language: Language, device: str | Device) -> Any:
    """Apply a kernel of flat arrays to every element."""
    place = find_device(device)
    array = _array(x, f"{who}: x", place)
    _check(array, f"{who}: x", "float32")
    with scope(place, (array,), who):
        elements = flat(array, f"{who}: x", place)
    return _finish(kernel, who, (elements,), array.shape, out, language, device)


def _finish(
    kernel: str,
    who: str,
    arrays: tuple[Any, ...],
    shape: tuple[int, ...],
    out: Any,
    language: Language,
    device: str | Device,
) -> Any:
    """Run a kernel, give its answer a shape, and put it where the caller wants it."""
    if out is None:
        return apply(kernel, *arrays, language=language, device=device).reshape(shape)
    place = find_device(device)
    target = writable(out, who, place)
    check_output(target, who, np.dtype(np.float32), shape)
    if cuda_arrays.is_cupy(target) and target.flags.c_contiguous:
        inner = target if kernel == TRANSPOSE else target.reshape(-1)
        apply(kernel, *arrays, out=inner, language=language, device=device)
        return out
    answer = apply(kernel, *arrays, language=language, device=device).reshape(shape)
    with scope(place, (target,), who):
        cuda_arrays.assign(target, answer)
    return out
