"""Which warps know that a bulk copy has landed: those that waited for it, and those that met one that knows.

A phase of an mbarrier that one warp saw complete tells the others nothing. What a warp knows is, for each
mbarrier, how many phases have ended; it passes that on where it arrives at an mbarrier, and at barriers and
fences. A copy has landed for a warp that knows the end of its phase. Nothing is noted before the first bulk copy
of a batch has landed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator.in_flight import PIECE, Flight, touched
from kernellab.emulator.lanes import Lanes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kernellab.emulator.batch import Batch
    from kernellab.emulator.joins import Waiter
    from kernellab.emulator.mbarriers import MBarrier

Array = npt.NDArray[Any]
_NOTHING = -1


class Landings:
    """The bulk copies that have landed in the shared memory of a batch.

    Attributes
    ----------
    is_used : bool
        A copy has landed.
    known : numpy.ndarray of int32, shape (height, n)
        How many phases of each mbarrier of its cluster, by slot, a warp knows to have ended.
    landed : numpy.ndarray of int32, shape (height, n)
        What it would know if it knew of every copy that has landed.
    fenced : numpy.ndarray of int32, shape (clusters, n)
        What the warps knew that have executed a fence.
    slots, phases, numbers : numpy.ndarray of int32
        What landed last in each piece of shared memory: the slot of its mbarrier, the phase, the instruction.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.reset()

    def reset(self) -> None:
        """Forget everything, for the next blocks."""
        self.is_used = False

    # -- what is there
    def _begin(self) -> None:
        batch = self.batch
        clusters, pieces = batch.blocks // batch.launch.cluster_size, batch.shared.data.size // PIECE
        self.known, self.landed, self.fenced = (
            np.zeros((count, 0), np.int32) for count in (batch.height, batch.height, clusters)
        )
        self.slots, self.numbers = (np.zeros(pieces, np.int32) for _ in range(2))
        self.phases = np.full(pieces, _NOTHING, np.int32)
        self.slots_of_cluster = [0] * clusters
        self.is_used = True

    def land(self, barrier: MBarrier, phase: int, flight: Flight) -> None:
        """A warp has seen the phase end on which a copy completed."""
        batch = self.batch
        if ".bulk" not in batch.launch.position(flight.number)[1].opcode:
            return
        if not self.is_used:
            self._begin()
        pieces, size = flight.starts // PIECE, batch.launch.cluster_size
        cluster = int(flight.starts[0]) // (batch.shared.pitch * size)
        if barrier.slot is None:
            barrier.slot = self.slots_of_cluster[cluster]
            self.slots_of_cluster[cluster] += 1
            if barrier.slot == self.known.shape[1]:
                wider = ((0, 0), (0, barrier.slot + 4))
                self.known, self.landed, self.fenced = (
                    np.pad(each, wider) for each in (self.known, self.landed, self.fenced)
                )
        warps = batch.warps_per_block * size
        self.landed[cluster * warps : (cluster + 1) * warps, barrier.slot] = phase + 1
        self.slots[pieces], self.phases[pieces], self.numbers[pieces] = barrier.slot, phase, flight.number

    # -- who knows
    def wait(self, barrier: MBarrier, rows: Iterable[int]) -> None:
        """Warps have seen a phase end: they know of it, and what those knew who arrived in it."""
        if not self.is_used:
            return
        chosen = list(rows)
        if barrier.slot is not None:
            self.known[chosen, barrier.slot] = barrier.phase
        self._learn(chosen, barrier.told)

    def arrive(self, barrier: MBarrier, rows: Iterable[int]) -> None:
        """Warps arrive at an mbarrier: those who wait there will know what they know."""
        if self.is_used:
            news = self.known[list(rows)].max(axis=0)
            news[: barrier.telling.size] = np.maximum(news[: barrier.telling.size], barrier.telling)
            barrier.telling = news

    def cross(self, passing: list[Waiter], reached: npt.NDArray[np.bool_]) -> None:
        """Warps have waited at a barrier of their block, at which lanes, of shape (height, 32), had arrived."""
        if self.is_used:
            told = self.known * reached.any(axis=1, keepdims=True)
            news = told.reshape(self.batch.blocks, -1, told.shape[1]).max(axis=1)
            for waiter in passing:
                self._learn(waiter.rows, news[self.batch.block_of_row[waiter.rows]])

    def cross_cluster(self, is_done: npt.NDArray[np.bool_]) -> None:
        """Clusters have met at their barrier."""
        if self.is_used:
            by_cluster = self.known.reshape(is_done.size, -1, self.known.shape[1])
            by_cluster[is_done] = by_cluster[is_done].max(axis=1, keepdims=True)

    def fence(self, lanes: Lanes) -> None:
        """Warps execute a fence: each knows what those knew who have executed one before.

        Which memory they exchange between their fences is not looked at.
        """
        if self.is_used:
            rows = lanes.row_indexes()
            clusters = self.batch.block_of_row[rows] // self.batch.launch.cluster_size
            np.maximum.at(self.fenced, clusters, self.known[rows])
            self._learn(rows, self.fenced[clusters])

    def _learn(self, rows: Any, news: Array) -> None:
        width = news.shape[-1]  # there may be more mbarriers by now
        self.known[rows, :width] = np.maximum(self.known[rows, :width], news)

    # -- who touches what has landed
    def _lacks(self, rows: Any) -> bool:
        """Say whether some warps do not know of all that has landed."""
        return bool((self.known[rows] < self.landed[rows]).any())

    def touch(self, number: int, lanes: Lanes, flat: Array, nbytes: int, operation: str) -> None:
        """Check an access to shared memory; `flat` holds the address of each active lane."""
        if self._lacks(lanes.rows):
            self.check(number, *touched(self.batch, lanes, flat, nbytes), operation)

    def check(self, number: int, rows: Array, columns: Array, starts: Array, operation: str) -> None:
        """Complain of warps that touch what has not landed for them; the arrays are broadcast."""
        if not self.is_used or not self._lacks(rows):
            return
        pieces = starts // PIECE
        is_early = self.known[rows, self.slots[pieces]] <= self.phases[pieces]
        if not is_early.any():
            return
        rows, columns, starts = (
            np.broadcast_to(each, is_early.shape)[is_early] for each in (rows, columns, starts)
        )
        launch, byte = self.batch.launch, int(starts[0])
        what = (
            f"in flight: this {operation} touches byte {byte % self.batch.shared.pitch} of shared memory, which "
            f"the asynchronous instruction at {launch.where(int(self.numbers[byte // PIECE]))} may still be to "
            "write, as far as this warp knows: others have waited for it, this warp has not; wait for it first"
        )
        self.batch.complain(number, "in flight", what, int(rows[0]), int(columns[0]), rows.size)
