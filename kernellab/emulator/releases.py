"""Whether memory that a product reads is given back only after the product: a buffer released too early.

A warpgroup that arrives at an mbarrier tells whoever waits there which of its products have ended. A copy into
bytes that a later product of it read was allowed too early, whenever it really comes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator.in_flight import PIECE

if TYPE_CHECKING:
    from kernellab.emulator.batch import Batch
    from kernellab.emulator.mbarriers import MBarrier

Array = npt.NDArray[Any]
GROUP = 4
"""Warps of a warpgroup."""


class Releases:
    """What the warps of a batch know of the products of its warpgroups; reads are numbered from 1 on."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.reset()

    def reset(self) -> None:
        """Forget everything, for the next blocks."""
        self.serial = 0
        self.running: dict[int, set[int]] = {}
        self.known: dict[int, dict[int, int]] = {}
        self.reads: Array = np.zeros(0, np.int64)
        self.readers: Array = np.zeros(0, np.int64)
        self.numbers: Array = np.zeros(0, np.int64)

    def group_of(self, row: int) -> int:
        """Return the warpgroup of a warp."""
        batch = self.batch
        return int(batch.block_of_row[row]) << 8 | int(batch.warp_of_row[row]) // GROUP

    def read(self, number: int, row: int, starts: Array) -> int:
        """Note that a product reads pieces; return the number of the read."""
        if not self.serial:
            count = self.batch.shared.data.size // PIECE
            self.reads, self.readers, self.numbers = (np.zeros(count, np.int64) for _ in range(3))
        self.serial += 1
        group, pieces = self.group_of(row), starts // PIECE
        self.running.setdefault(group, set()).add(self.serial)
        self.reads[pieces], self.readers[pieces], self.numbers[pieces] = self.serial, group, number
        return self.serial

    def end(self, row: int, serial: int) -> None:
        """Note that a product has ended, and somebody of its warpgroup has waited for it."""
        self.running[self.group_of(row)].discard(serial)

    def arrive(self, barrier: MBarrier, rows: Iterable[int]) -> None:
        """Warps arrive: they pass on what they know."""
        for row in rows:
            group = self.group_of(row)
            if group in self.running:
                ended = min(self.running[group], default=self.serial + 1) - 1
                _learn(barrier.carried, {group: ended})
            _learn(barrier.carried, self.known.get(row, {}))

    def wait(self, barrier: MBarrier, rows: Iterable[int]) -> None:
        """Warps have waited: they learn what those knew who arrived."""
        if barrier.handed:
            for row in rows:
                _learn(self.known.setdefault(row, {}), barrier.handed)

    def forget(self, is_done: npt.NDArray[np.bool_]) -> None:
        """Blocks have met at a barrier of another kind: what their warps know is out of date."""
        for row in [row for row in self.known if is_done[self.batch.block_of_row[row]]]:
            del self.known[row]

    def write(self, number: int, row: int, column: int, starts: Array) -> None:
        """Complain of a copy into bytes whose last reader was not known to have ended."""
        known = self.known.get(row)
        if not known or not self.serial:
            return
        pieces = starts // PIECE
        for serial in np.unique(self.reads[pieces]).tolist():
            first = int(np.flatnonzero(self.reads[pieces] == serial)[0])
            group = int(self.readers[pieces[first]])
            if serial <= known.get(group, serial) or group == self.group_of(row):
                continue
            launch = self.batch.launch
            what = (
                f"released too early: this copy into byte {int(starts[first]) % self.batch.shared.pitch} of "
                f"shared memory was allowed by an arrival at an mbarrier before the wgmma at "
                f"{launch.where(int(self.numbers[pieces[first]]))} had ended; call wgmma.wait_group before "
                "the arrival"
            )
            self.batch.complain(number, "released too early", what, row, column)
            return


def _learn(target: dict[int, int], news: dict[int, int]) -> None:
    for group, serial in news.items():
        target[group] = max(serial, target.get(group, 0))
