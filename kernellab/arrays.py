"""ArraySpec: an array without its memory, and how to read one off any array."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from kernellab.errors import ArgumentError

MOST_WORK = 10_000
"""How far `share_memory` looks for an element of both, in NumPy's steps."""


@dataclass(frozen=True)
class ArraySpec:
    """An array without its memory: what `bind` needs to know, and what an output is to be.

    Attributes
    ----------
    shape : tuple of int
        Lengths of its axes.
    dtype : numpy.dtype
        Its elements.
    strides : tuple of int, optional
        Bytes; None is C-contiguous.
    pointer : int
        Address of element 0; 0 if there is none yet.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...] | None = None
    pointer: int = 0

    def __post_init__(self) -> None:
        # NumPy's small integers wrap when multiplied; Python's do not.
        object.__setattr__(self, "shape", tuple(int(length) for length in self.shape))
        if self.strides is not None:
            object.__setattr__(self, "strides", tuple(int(step) for step in self.strides))

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self.size * self.dtype.itemsize

    @property
    def is_contiguous(self) -> bool:
        """Whether elements follow each other in C order; axes of length 1 or less do not count."""
        if self.strides is None or self.size == 0:
            return True
        expected = self.dtype.itemsize
        for length, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if length > 1 and stride != expected:
                return False
            expected *= length
        return True

    @property
    def extent(self) -> tuple[int, int]:
        """First byte and one past the last byte that its elements reach."""
        if self.size == 0:
            return self.pointer, self.pointer
        if self.strides is None:
            return self.pointer, self.pointer + self.nbytes
        reach = [(length - 1) * stride for length, stride in zip(self.shape, self.strides, strict=True)]
        low = self.pointer + sum(step for step in reach if step < 0)
        return low, self.pointer + sum(step for step in reach if step > 0) + self.dtype.itemsize


def share_memory(one: ArraySpec, other: ArraySpec) -> bool:
    """Whether any byte belongs to elements of both; True where finding out would take too long.

    Examples
    --------
    >>> room = np.zeros((4, 6), np.int8)
    >>> share_memory(spec_of(room[:, :3]), spec_of(room[:, 3:])), share_memory(spec_of(room), spec_of(room[0]))
    (False, True)
    """
    (low, high), (first, last) = one.extent, other.extent
    if max(low, first) >= min(high, last):
        return False
    try:
        return np.shares_memory(_addresses(one), _addresses(other), max_work=MOST_WORK)  # type: ignore[arg-type]
    except RuntimeError:  # NumPy's TooHardError
        return True


def _addresses(spec: ArraySpec) -> np.ndarray[Any, Any]:
    """Return an array that lies where a spec says, on whatever device: its elements must not be touched."""
    interface = {
        "shape": spec.shape,
        "typestr": f"|V{spec.dtype.itemsize}",
        "strides": spec.strides,
        "data": (spec.pointer, True),
        "version": 3,
    }
    return np.asarray(SimpleNamespace(__array_interface__=interface))


def spec_of(array: Any, who: str = "array") -> ArraySpec:
    """Describe an array without touching its elements.

    Parameters
    ----------
    array : numpy.ndarray, ArraySpec, or anything with ``__cuda_array_interface__``
        The array.
    who : str
        Its name, for the message.

    Returns
    -------
    ArraySpec
        Shape, dtype, strides and address.

    Raises
    ------
    ArgumentError
        If it is none of these.
    """
    if isinstance(array, ArraySpec):
        return array
    if isinstance(array, np.ndarray):
        return ArraySpec(array.shape, array.dtype, array.strides, array.ctypes.data)
    interface = getattr(array, "__cuda_array_interface__", None)
    if interface is None:
        kind = type(array).__name__
        raise ArgumentError(f"{who} is a {kind}, it must be an array; make one with numpy.asarray")
    strides = interface.get("strides")
    shape = tuple(int(length) for length in interface["shape"])
    return ArraySpec(
        shape, np.dtype(interface["typestr"]), tuple(strides) if strides else None, interface["data"][0]
    )


def one_of(names: Sequence[str]) -> str:
    """Write names as a choice.

    Examples
    --------
    >>> one_of(["float32"]), one_of(["float32", "float16", "bfloat16"])
    ('float32', 'float32, float16 or bfloat16')
    """
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def cast_remedy(given: np.dtype[Any], wanted: Any) -> str:
    """Say how to get an array of another dtype: by a cast only where that keeps what the values mean.

    Examples
    --------
    >>> cast_remedy(np.dtype("f2"), "f4"), cast_remedy(np.dtype("c16"), "f4")
    ("convert it with .astype('float32')", 'pass an array of float32')
    >>> cast_remedy(np.dtype("f8"), "f4")
    "convert it with .astype('float32'), a list with numpy.asarray(x, 'float32')"
    """
    name = np.dtype(wanted).name
    is_plain = given.kind in "biuf" or (given.kind == "V" and given.type is not np.void)  # ml_dtypes' are V
    if not is_plain:
        return f"pass an array of {name}"
    may_be_list = given in (np.float64, np.int64, np.bool_)  # what NumPy makes of one
    return f"convert it with .astype('{name}')" + (f", a list with numpy.asarray(x, '{name}')" * may_be_list)
