"""Histograms with NumPy's names and meaning; each runs a catalogued kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from kernellab.api import apply
from kernellab.api_reduce import floats_of
from kernellab.devices import device as find_device
from kernellab.errors import ArgumentError, SpecError, speaking_as
from kernellab.functions import as_given
from kernellab.kernel import Language
from kernellab.measurement import scope

if TYPE_CHECKING:
    from kernellab.devices.program import Device

BINS_IN_SHARED = 1024
"""Up to how many bins a block keeps copies of its counts in shared memory."""


def histogram(
    x: Any,
    bins: int | Sequence[float] | Any = 10,
    range: tuple[float, float] | None = None,
    density: bool = False,
    weights: Any = None,
    *,
    language: Language = "cuda-c",
    device: str | Device = "auto",
) -> tuple[Any, Any]:
    """Count elements in bins, as `numpy.histogram` does: the last bin is closed, outsiders are ignored.

    Parameters
    ----------
    x : array of uint8, float32, float16 or bfloat16
        Of any shape and strides. NaN lies in no bin.
    bins : int or sequence of float
        How many bins of equal width, or the edges of any, in order.
    range : (float, float), optional
        The outer edges; by default the smallest and the largest element.
    density : bool
        Return densities in place of counts.
    weights : None
        Elements are counted and not weighted: the order of atomic additions of floats is nobody's, and the
        sum would differ from run to run.
    language, device
        As for `apply`.

    Returns
    -------
    counts : numpy.ndarray or cupy.ndarray
        int64, or float64 densities.
    edges : numpy.ndarray or cupy.ndarray
        As NumPy gives them, one more than bins.

    Raises
    ------
    ArgumentError
        For another dtype, bins by name such as ``"auto"``, or weights.
    SpecError
        For weights of another shape than `x`.
    ValueError
        NumPy's own, for bins or a range that it refuses.

    Examples
    --------
    >>> import numpy as np
    >>> import kernellab as kl
    >>> kl.histogram(np.array([0, 1, 2, 3, 4, 4], "float32"), bins=4, range=(0, 4), device="emulator")[0]
    array([1, 1, 1, 3])
    """
    place = find_device(device)
    array = as_given(x, "histogram: x", place)
    if weights is not None:
        _refuse_weights(np.shape(weights), array.shape)
    array = array.reshape(-1)
    if isinstance(bins, str):
        rule = "it must be a number or edges"
        raise ArgumentError(f"histogram: bins is {bins!r}, {rule}; take numpy.histogram_bin_edges for edges")
    if array.dtype == np.uint8:
        counts, edges = _of_bytes(array, bins, range, language, place)
    else:
        array = floats_of(array, "histogram", place, also=("uint8",))
        counts, edges = _of_floats(array, bins, range, language, place)
    if density:
        widths = np.diff(edges)
        widths = widths if isinstance(counts, np.ndarray) else _on_device(widths, place)
        counts = counts / widths / counts.sum()
    if not isinstance(counts, np.ndarray):
        edges = _on_device(edges, place)
    return counts, edges


def _refuse_weights(given: tuple[int, ...], wanted: tuple[int, ...]) -> NoReturn:
    if given != wanted:
        rule = f"they must have the shape of x, {wanted}"
        raise SpecError(f"histogram: weights have shape {given}, {rule}; give one weight for each element")
    raise ArgumentError(
        "histogram: weights are given, it only counts; take numpy.histogram, or cupy.histogram for CuPy arrays"
    )


def _on_device(array: Any, place: Device) -> Any:
    return place.cupy.asarray(array)  # type: ignore[attr-defined]


def _of_bytes(
    array: Any, bins: Any, range: tuple[float, float] | None, language: Language, place: Device
) -> tuple[Any, Any]:
    """Count bytes by value; bins that are not bytes are then put together from the 256 counts."""
    with speaking_as("histogram"):
        each = apply("histogram/lanes", array, language=language, device=place)
    if isinstance(bins, int) and bins == 256 and range is not None and tuple(range) == (0, 256):
        return each, np.linspace(0, 256, 257)
    host = each if isinstance(each, np.ndarray) else each.get()
    values = np.flatnonzero(host).astype(np.uint8)
    counted, edges = np.histogram(values, bins, range, weights=host[values])
    counts = counted.astype(np.int64)
    return (counts if isinstance(each, np.ndarray) else _on_device(counts, place)), edges


def _of_floats(
    array: Any, bins: Any, range: tuple[float, float] | None, language: Language, place: Device
) -> tuple[Any, Any]:
    """Count floats between edges, which NumPy makes; they are rounded inwards where they are not float32."""
    if range is None and not isinstance(bins, Sequence | np.ndarray):
        with scope(place, (array,), "histogram"):
            limits = [float(array.min()), float(array.max())] if array.size else []
    else:
        limits = []
    sample = np.array(limits, np.float16 if array.dtype == np.float16 else np.float32)
    with np.errstate(over="ignore"):
        edges = np.histogram_bin_edges(sample, bins, range)
        borders = edges.astype(np.float32)
    if not edges.size:  # NumPy counts nothing then
        return np.zeros(0, np.int64), edges
    borders = np.where(borders < edges, np.nextafter(borders, np.float32(np.inf)), borders)
    top = borders[-1]
    if top > edges[-1]:
        top = np.nextafter(top, np.float32(-np.inf))
    rung = "shared" if edges.size - 1 <= BINS_IN_SHARED else "global"
    lower = np.ascontiguousarray(borders[:-1], dtype=np.float32)
    if not isinstance(array, np.ndarray):
        lower = _on_device(lower, place)
    values = array if array.dtype == np.float32 else array.astype(np.float32)
    with speaking_as("histogram"):
        counts = apply(
            f"float_histogram/{rung}", values, lower, top=float(top), language=language, device=place
        )
    return counts, edges
