"""Take, with NumPy's name and meaning; it runs a catalogued kernel."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from kernellab.arrays import ArraySpec
from kernellab.devices import cuda_arrays
from kernellab.devices import device as find_device
from kernellab.errors import ArgumentError, SpecError
from kernellab.functions import as_given, as_made, as_moved, axis_of, finish
from kernellab.intake import as_array, flat
from kernellab.kernel import Language
from kernellab.measurement import scope

if TYPE_CHECKING:
    from kernellab.devices.program import Device

TAKE = "take/unrolled"
TAKE_ROWS = "take_rows/vectorised"
MODES = ("raise", "wrap", "clip")


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
    x : array
        Of elements of 1, 2, 4, 8 or 16 bytes, whatever they mean. Of any strides.
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
    array = as_given(x, "take: x", place)
    if mode not in MODES:
        raise SpecError(f"take: mode is {mode!r}, it must be one of {', '.join(MODES)}; correct it")
    before, length, after = _around(array, axis)
    with scope(place, (array,), "take"):
        places = _indices(indices, length, mode, place)
        answer = ArraySpec((*before, *places.shape, *after), array.dtype)
        index = _rows(math.prod(before), length, places, place)
        table = as_moved(flat(array, "take: x", place), "take: x", place)
        columns = math.prod(after) * max(1, array.dtype.itemsize // 8)
        if columns == 1:
            return finish(TAKE, "take", (table, index), index.shape, answer, out, language, place)
        table = table.reshape(math.prod(before) * length, columns)
    inner = (index.size, columns)
    return finish(TAKE_ROWS, "take", (table, index), inner, answer, out, language, place)


def _around(array: Any, axis: int | None) -> tuple[tuple[int, ...], int, tuple[int, ...]]:
    """Return the axes before the one along which elements are taken, its length, and the axes after it."""
    if axis is None:
        return (), array.size, ()
    along = axis_of(axis, array.ndim, "take")
    return array.shape[:along], array.shape[along], array.shape[along + 1 :]


def _indices(indices: Any, length: int, mode: str, place: Device) -> Any:
    """Return indices as int64, those that point outside refused or brought inside."""
    is_on_gpu = cuda_arrays.is_on_gpu(indices)
    places = as_array(indices, "take: indices", place) if is_on_gpu else as_made(indices, "take: indices")
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


def _rows(outer: int, length: int, places: Any, place: Device) -> Any:
    """Return which rows are taken, where `outer` tables of so many rows each lie one after the other."""
    if outer == 1:
        return places.reshape(-1)
    library: Any = np if isinstance(places, np.ndarray) else place.cupy  # type: ignore[attr-defined]
    wrapped = library.where(places < 0, places + length, places).reshape(1, -1)
    return (library.arange(outer, dtype=np.int64).reshape(-1, 1) * length + wrapped).reshape(-1)
