"""Which bytes of a batch's shared memory instructions name that take addresses, not values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator.access import addresses_of, bind_address, parts_of
from kernellab.emulator.code import Binder, Views
from kernellab.emulator.lanes import WARP, Lanes
from kernellab.emulator.ptx import Operand

if TYPE_CHECKING:
    from kernellab.emulator.batch import Batch

Array = npt.NDArray[Any]


class Address:
    """An address operand of an instruction.

    Parameters
    ----------
    space : str
        ``shared``, ``global`` or ``generic``.
    """

    def __init__(self, binder: Binder, operand: Operand, space: str, number: int) -> None:
        self.base, self.offset = bind_address(binder, operand)
        self.space = space
        self.number = number

    def of(self, views: Views, lanes: Lanes, batch: Batch, wanted: str) -> Array:
        """Return the address of each active lane, in the wanted space; fail if it points to another."""
        batch.current_number = self.number
        addresses = addresses_of(views, self.base, self.offset, lanes)
        parts = parts_of(self.space, addresses, lanes)
        for name, _, part in parts:
            if name != wanted:
                what = f"an address in {name} memory where one in {wanted} memory is needed"
                batch.fail(self.number, "out of bounds", what, part)
        _, where, part = parts[0]
        flat: Array = part.flat(where)
        return flat

    def places(
        self, views: Views, lanes: Lanes, batch: Batch, nbytes: int, align: int, what: str
    ) -> npt.NDArray[np.int64]:
        """Return the byte of the batch's shared memory where each active lane's `nbytes` begin.

        Fails if they are not all inside the block's memory, or begin at no multiple of `align`.
        """
        flat = self.of(views, lanes, batch, "shared")
        owners, local = batch.owners(lanes, flat)
        shared = batch.shared
        outside = (local < 0) | (local + nbytes > shared.size)
        if outside.any():
            message = f"{what} at byte {int(local[outside][0])} of shared memory, which has {shared.size}"
            batch.fail(self.number, "out of bounds", f"out of bounds: {message}", _first(lanes, outside))
        crooked = local % align != 0
        if crooked.any():
            message = f"{what} at byte {int(local[crooked][0])}, which is no multiple of {align}"
            batch.fail(self.number, "misaligned", f"misaligned: {message}", _first(lanes, crooked))
        found: npt.NDArray[np.int64] = owners * shared.pitch + local
        return found


def lane_positions(lanes: Lanes) -> tuple[Array, Array]:
    """Return the row and the column of each active lane, in row-major order."""
    rows, columns = np.nonzero(lanes.full_mask())
    return lanes.row_indexes()[rows], columns


def one_lane(lanes: Lanes, row: int, column: int) -> Lanes:
    """Return a single lane, for messages."""
    mask = np.zeros((1, WARP), np.bool_)
    mask[0, column] = True
    return Lanes(np.array([row]), mask, lanes.height)


def _first(lanes: Lanes, chosen: npt.NDArray[np.bool_]) -> Lanes:
    """Return the first of the active lanes that are chosen."""
    k = int(chosen.argmax())
    rows, columns = lane_positions(lanes)
    return one_lane(lanes, int(rows[k]), int(columns[k]))


def by_place(lanes: Lanes, places: Array) -> Iterator[tuple[int, Array, Lanes]]:
    """Yield each distinct place: the place, the positions of the lanes that name it, one of these lanes."""
    rows, columns = lane_positions(lanes)
    distinct, inverse = np.unique(places, return_inverse=True)
    for k, where in enumerate(distinct.tolist()):
        positions = np.flatnonzero(inverse == k)
        yield where, positions, one_lane(lanes, int(rows[positions[0]]), int(columns[positions[0]]))
