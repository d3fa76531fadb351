"""Races in shared memory: two threads touch a byte, one writes, and no barrier lies between.

Lockstep execution hides races, so each byte remembers who touched it last and in which epoch: of the block
(it ends at every barrier of the block) and of the warp (it ends at ``__syncwarp``). A wait for an mbarrier
also ends the epoch of the warps that waited.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator.lanes import WARP, Lanes

if TYPE_CHECKING:
    from kernellab.emulator.batch import Batch

Array = npt.NDArray[Any]
_NOBODY, _SEVERAL = -1, -2


class _Touch:
    """Per byte: the last thread, and the epochs of its block and its warp at that time."""

    def __init__(self, nbytes: int) -> None:
        self.thread = np.full(nbytes, _NOBODY, np.int32)
        self.block_epoch = np.zeros(nbytes, np.int32)
        self.warp_epoch = np.zeros(nbytes, np.int32)


class Races:
    """The race detector of a batch."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.pitch = batch.shared.pitch
        self.reset()

    def reset(self) -> None:
        """Forget everything, for the next blocks."""
        nbytes = self.batch.blocks * self.pitch
        self.writer, self.reader, self.updater = (_Touch(nbytes) for _ in range(3))
        self.newest_epoch = 0
        self.block_epoch = np.zeros(self.batch.height, np.int32)
        self.warp_epoch = np.zeros((self.batch.height, WARP), np.int32)

    def block_barrier(self, is_done: npt.NDArray[np.bool_]) -> None:
        """Blocks have passed a barrier."""
        rows = is_done[self.batch.block_of_row]
        self.waited(rows)
        self.warp_epoch[rows] += 1

    def waited(self, rows: Array) -> None:
        """Warps have waited for what others did: they get an epoch that nobody has had."""
        self.newest_epoch += 1
        self.block_epoch[rows] = self.newest_epoch

    def warp_barrier(self, lanes: Lanes) -> None:
        """Lanes have passed a barrier of their warp: they all get an epoch newer than any of theirs."""
        epochs = self.warp_epoch[lanes.rows]
        mask = lanes.full_mask()
        newest = np.where(mask, epochs, 0).max(axis=1, keepdims=True) + 1
        lanes.put(self.warp_epoch, np.broadcast_to(newest, mask.shape))

    def access(self, lanes: Lanes, flat: npt.NDArray[np.int64], nbytes: int, operation: str) -> None:
        """Check and remember one access to shared memory."""
        batch = self.batch
        in_bounds = (flat >= 0) & (flat + nbytes <= batch.shared.size)
        rows, columns = np.nonzero(lanes.full_mask())
        rows = lanes.row_indexes()[rows]
        rows, columns, flat = rows[in_bounds], columns[in_bounds], flat[in_bounds]
        if not flat.size:
            return
        start = batch.block_of_row[rows] * self.pitch + flat
        me = (rows * WARP + columns).astype(np.int32)
        block_epoch, warp_epoch = self.block_epoch[rows], self.warp_epoch[rows, columns]
        against = {
            "load": (self.writer, self.updater),
            "store": (self.writer, self.reader, self.updater),
            "atomic": (self.writer, self.reader),
        }[operation]
        is_race = np.zeros(flat.size, np.bool_)
        for k in range(nbytes):
            for touch in against:
                is_race |= self._conflicts(touch, start + k, me, block_epoch, warp_epoch)
        if operation == "store":
            is_race |= self._same_instruction(start, nbytes, me)
        if is_race.any():
            self._complain(rows, columns, flat, is_race, operation)
        touch = {"load": self.reader, "store": self.writer, "atomic": self.updater}[operation]
        for k in range(nbytes):
            self._remember(touch, start + k, me, block_epoch, warp_epoch, operation == "load")

    def _conflicts(
        self, touch: _Touch, index: Array, me: Array, block_epoch: Array, warp_epoch: Array
    ) -> npt.NDArray[np.bool_]:
        who = touch.thread[index]
        is_other = (who != _NOBODY) & (who != me) & (touch.block_epoch[index] == block_epoch)
        is_same_warp = (who >= 0) & (who // WARP == me // WARP)
        found: npt.NDArray[np.bool_] = is_other & ~(is_same_warp & (touch.warp_epoch[index] < warp_epoch))
        return found

    @staticmethod
    def _same_instruction(start: Array, nbytes: int, me: Array) -> npt.NDArray[np.bool_]:
        """Two lanes that write one byte with one instruction."""
        order = np.argsort(start, kind="stable")
        close = np.diff(start[order]) < nbytes
        found = np.zeros(start.size, np.bool_)
        found[order[1:]] = close
        return found

    @staticmethod
    def _remember(
        touch: _Touch, index: Array, me: Array, block_epoch: Array, warp_epoch: Array, is_load: bool
    ) -> None:
        if is_load:
            who = touch.thread[index]
            is_fresh = (who == _NOBODY) | (touch.block_epoch[index] != block_epoch) | (who == me)
            # several readers: remember that, unless all of them are of the epoch before
            touch.thread[index] = np.where(is_fresh, me, _SEVERAL)
            order = np.argsort(index, kind="stable")
            repeated = np.flatnonzero(np.diff(index[order]) == 0)
            touch.thread[index[order[repeated]]] = _SEVERAL
        else:
            touch.thread[index] = me
        touch.block_epoch[index] = block_epoch
        touch.warp_epoch[index] = warp_epoch

    def _complain(
        self, rows: Array, columns: Array, flat: Array, is_race: npt.NDArray[np.bool_], operation: str
    ) -> None:
        first = int(np.flatnonzero(is_race)[0])
        number = self.batch.current_number
        byte = int(flat[first])
        what = (
            f"race: this {operation} and another thread's access to byte {byte} of shared memory have no "
            "barrier between them"
        )
        self.batch.complain(
            number, "race", what, int(rows[first]), int(columns[first]), int(is_race.sum()), is_error=False
        )
