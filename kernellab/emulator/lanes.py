"""Which lanes of which warps an instruction runs for, and how values reach them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

WARP = 32
Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


class Lanes:
    """A set of lanes: some warps of a batch, and in each of them some lanes.

    Parameters
    ----------
    rows : slice or numpy.ndarray of int
        The warps; a slice where they are consecutive, so that selecting them copies nothing.
    mask : numpy.ndarray of bool, shape (R, 32), or None
        The active lanes of each; None for all.
    height : int
        Warps in the batch.

    Attributes
    ----------
    is_full : bool
        Registers of all warps and lanes may be written: none is needed of those that are off.
    """

    __slots__ = ("count", "height", "is_full", "mask", "row_count", "rows")

    def __init__(self, rows: slice | npt.NDArray[np.intp], mask: Mask | None, height: int) -> None:
        self.rows = rows
        self.row_count = rows.stop - rows.start if isinstance(rows, slice) else rows.size
        self.height = height
        if mask is not None:
            self.count = int(np.count_nonzero(mask))
            if self.count == mask.size:
                mask = None
        else:
            self.count = self.row_count * WARP
        self.mask = mask
        self.is_full = mask is None and self.row_count == height

    @classmethod
    def of(cls, rows: npt.NDArray[np.intp], mask: Mask | None, height: int) -> Lanes:
        """Build from sorted row indexes, as a slice when they are consecutive."""
        if rows.size and int(rows[-1]) - int(rows[0]) + 1 == rows.size:
            return cls(slice(int(rows[0]), int(rows[-1]) + 1), mask, height)
        return cls(rows, mask, height)

    def row_indexes(self) -> npt.NDArray[np.intp]:
        """Return the warps as an index array."""
        if isinstance(self.rows, slice):
            return np.arange(self.rows.start, self.rows.stop)
        return self.rows

    def full_mask(self) -> Mask:
        """Return the mask as an array, also when it is all true."""
        return np.ones((self.row_count, WARP), np.bool_) if self.mask is None else self.mask

    def restricted(self, keep: Mask) -> Lanes:
        """Return the lanes of this set where `keep`, shape (R, 32), holds; the rows stay."""
        return Lanes(self.rows, keep.copy() if self.mask is None else keep & self.mask, self.height)

    def put(self, target: Array, value: Array) -> None:
        """Write `value`, shape (R, 32) or scalar, to these lanes of `target`, shape (height, 32)."""
        if self.mask is None:
            target[self.rows] = value
        elif isinstance(self.rows, slice):
            np.copyto(target[self.rows], value, where=self.mask, casting="unsafe")
        else:
            part = target[self.rows]
            np.copyto(part, value, where=self.mask, casting="unsafe")
            target[self.rows] = part

    def put_flat(self, target: Array, values: Array) -> None:
        """Write one value for each active lane, in row-major order."""
        if self.mask is None:
            target[self.rows] = values.reshape(self.row_count, WARP)
        elif isinstance(self.rows, slice):
            target[self.rows][self.mask] = values
        else:
            part = target[self.rows]
            part[self.mask] = values
            target[self.rows] = part

    def copy_bytes(self, source: Array, target: Array) -> None:
        """Copy the bytes of these lanes between ``.param`` variables, shape (height, 32, n)."""
        size = min(source.shape[2], target.shape[2])
        if self.mask is None:
            target[self.rows, :, :size] = source[self.rows, :, :size]
            return
        which, columns = np.nonzero(self.mask)
        rows = self.row_indexes()[which]
        target[rows, columns, :size] = source[rows, columns, :size]

    def flat(self, values: Array) -> Array:
        """Take the active lanes of `values`, shape (R, 32), in row-major order."""
        return values.reshape(-1) if self.mask is None else values[self.mask]

    def bits(self) -> npt.NDArray[np.uint32]:
        """Return the active lanes of each warp as a 32-bit mask, shape (R,)."""
        if self.mask is None:
            return np.full(self.row_count, 0xFFFFFFFF, np.uint32)
        return pack(self.mask)


def pack(mask: Mask) -> npt.NDArray[np.uint32]:
    """Pack booleans, shape (R, 32), into one 32-bit mask a warp, lane 0 in bit 0."""
    packed: npt.NDArray[np.uint32] = np.packbits(mask, axis=1, bitorder="little").view("<u4")[:, 0]
    return packed


def unpack(bits: Array) -> Mask:
    """Unpack 32-bit masks, shape (R,), into booleans, shape (R, 32)."""
    raw = np.ascontiguousarray(bits, "<u4").view(np.uint8).reshape(-1, 4)
    return np.unpackbits(raw, axis=1, bitorder="little").view(np.bool_)
