"""Tiles that a tensor map cuts out of an array: their elements in global memory, their bytes in shared memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator.counting_rows import SECTOR
from kernellab.emulator.in_flight import PIECE
from kernellab.emulator.lanes import Lanes
from kernellab.emulator.memory import UNSIGNED, Allocation
from kernellab.tensor_map import Tiling, decode, swizzled

if TYPE_CHECKING:
    from kernellab.emulator.batch import Batch

Array = npt.NDArray[Any]
Combine = Callable[[Array, Array], Array]
ALIGNMENT = 128
"""Bytes, of a tile in shared memory."""


@dataclass(frozen=True, slots=True)
class Tile:
    """One tile.

    Attributes
    ----------
    tiling : Tiling
    allocation : Allocation
        Where the array is.
    window : numpy.ndarray
        View of its elements that are in the array; outermost axis first.
    inside : tuple of slice
        Where these stand in the tile.
    """

    tiling: Tiling
    allocation: Allocation
    window: Array
    inside: tuple[slice, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of its elements that are in the array."""
        return self.window.nbytes

    def load(self) -> Array:
        """Return its elements, zeros where it is beyond the array."""
        found = np.zeros(self.tiling.tile[::-1], self.window.dtype)
        found[self.inside] = self.window
        return found

    def starts(self, place: int, pitch: int) -> npt.NDArray[np.int64]:
        """Return where its pieces of 16 bytes stand in the batch's shared memory, for a tile at `place`."""
        block, local = divmod(place, pitch)
        pieces = local + np.arange(0, self.tiling.nbytes, PIECE)
        found: npt.NDArray[np.int64] = block * pitch + swizzled(pieces, self.tiling.swizzle)
        return found

    def storing(
        self, shared: Array, starts: npt.NDArray[np.int64], combine: Combine | None
    ) -> Callable[[], None]:
        """Return what copies its bytes from shared to global memory, or combines them with what is there."""

        def copy() -> None:
            raw = shared[starts[:, None] + np.arange(PIECE)].reshape(-1)
            if combine is None:
                self.window[...] = raw.view(self.window.dtype).reshape(self.tiling.tile[::-1])[self.inside]
                return
            values = raw.view(self.tiling.dtype).reshape(self.tiling.tile[::-1])[self.inside]
            there = self.window.view(self.tiling.dtype)
            there[...] = combine(there, values)

        return copy

    def sectors(self) -> int:
        """Return the sectors of global memory that its rows touch."""
        if not self.window.size:
            return 0
        *outer, inner = self.window.strides
        first = np.zeros((1,) * len(outer), np.int64)
        for axis, stride in enumerate(outer):
            steps = np.arange(self.window.shape[axis]) * stride
            first = first + steps.reshape([-1 if k == axis else 1 for k in range(len(outer))])
        base = self.allocation.base + self.window.ctypes.data - self.allocation.data.ctypes.data
        low = (base + first) // SECTOR
        high = (base + first + (self.window.shape[-1] - 1) * inner + self.window.itemsize - 1) // SECTOR
        return int((high - low + 1).sum())

    def check_writable(self, batch: Batch, number: int, lane: Lanes) -> None:
        """Fail if it may not be written."""
        if not self.allocation.is_writable:
            what = f"read-only global store: {self.allocation.name} is read-only"
            batch.fail(number, "read-only", what, lane)


def global_bytes(
    batch: Batch, number: int, address: int, nbytes: int, operation: str, lane: Lanes
) -> npt.NDArray[np.uint8]:
    """Return bytes of global memory as a view; fail if they are not all in one array."""
    memory = batch.launch.memory
    allocation = memory.find(address)
    if address % PIECE:
        what = f"misaligned global {operation}: address {address:#x} is no multiple of {PIECE}"
        batch.fail(number, "misaligned", what, lane)
    if allocation is None or address + nbytes > allocation.stop:
        last = address if allocation is None or address >= allocation.stop else allocation.stop
        where = memory.name_of(last)
        batch.fail(number, "out of bounds", f"out of bounds global {operation}: {where}", lane)
    assert allocation is not None
    if operation == "store" and not allocation.is_writable:
        what = f"read-only global store: {allocation.name} is read-only"
        batch.fail(number, "read-only", what, lane)
    start = address - allocation.base
    return allocation.data[start : start + nbytes]


def tile_of(batch: Batch, number: int, raw: bytes, coordinates: tuple[int, ...], lane: Lanes) -> Tile:
    """Cut a tile; `raw` holds the tensor map, `coordinates` the tile's first element, innermost first."""
    tiling = decode(raw)
    if tiling is None:
        what = "these 128 bytes are no tensor map of the emulator; pass a kernellab.TensorMap"
        batch.fail(number, "tensor map", what, lane)
        raise AssertionError
    if len(coordinates) != len(tiling.box):
        what = f"the tensor map has {len(tiling.box)} axes, the instruction {len(coordinates)}"
        batch.fail(number, "tensor map", what, lane)
    allocation = batch.launch.memory.find(tiling.address)
    assert allocation is not None
    dtype = UNSIGNED[tiling.dtype.itemsize]
    whole = np.ndarray(
        tiling.lengths[::-1], dtype, allocation.data, tiling.address - allocation.base, tiling.strides[::-1]
    )
    window, inside = [], []
    for first, length, count, step in zip(
        coordinates, tiling.lengths, tiling.tile, tiling.steps, strict=True
    ):
        low = max(0, -(first // step)) if first < 0 else 0
        high = max(low, min(count, math.ceil((length - first) / step)))
        start = first + low * step
        window.append(slice(start, start + (high - low) * step, step) if high > low else slice(0, 0))
        inside.append(slice(low, high))
    return Tile(tiling, allocation, whole[tuple(window[::-1])], tuple(inside[::-1]))
