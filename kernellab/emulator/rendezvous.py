"""Lanes that wait for other lanes of their warp, at ``.sync`` operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernellab.emulator.joins import Waiter
from kernellab.emulator.lanes import Lanes, Mask, pack

if TYPE_CHECKING:
    from kernellab.emulator.schedule import Scheduler


class Rendezvous:
    """The parked lanes of a running batch."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.parked: list[Waiter] = []

    def park(self, waiter: Waiter) -> None:
        """Lanes wait until the members that they name are there too."""
        self.parked.append(waiter)
        self.serve()

    def serve(self) -> None:
        """Go on with every warp whose waiting lanes are now complete."""
        there = np.zeros_like(self.scheduler.live)
        for waiter in self.parked:
            there[waiter.rows] |= waiter.mask
        present = pack(there)
        for waiters in self._by_place():
            frame = waiters[0].frame
            lanes = self._lanes(waiters)
            terminator = frame.code.terminators[waiters[0].block.index]
            can_go = terminator.complete(self.scheduler, frame, lanes, present[lanes.rows])
            if can_go.any():
                go = np.zeros_like(self.scheduler.live)
                go[lanes.rows] = can_go
                self._go(waiters, go)

    def force(self) -> bool:
        """Let the lanes of one place go on without the members that do not come; False if none waits."""
        if not self.parked:
            return False
        waiters = self._by_place()[0]
        lanes = self._lanes(waiters)
        terminator = waiters[0].frame.code.terminators[waiters[0].block.index]
        terminator.complain_of_missing(self.scheduler, waiters[0].frame, lanes)
        go = np.zeros_like(self.scheduler.live)
        go[lanes.rows] = lanes.full_mask()
        self._go(waiters, go)
        return True

    def _by_place(self) -> list[list[Waiter]]:
        places: dict[tuple[int, int], list[Waiter]] = {}
        for waiter in self.parked:
            places.setdefault((id(waiter.frame), waiter.block.index), []).append(waiter)
        return list(places.values())

    def _lanes(self, waiters: list[Waiter]) -> Lanes:
        mask = np.zeros_like(self.scheduler.live)
        for waiter in waiters:
            mask[waiter.rows] |= waiter.mask
        rows = np.flatnonzero(mask.any(axis=1))
        return Lanes.of(rows, mask[rows], self.scheduler.batch.height)

    def _go(self, waiters: list[Waiter], go: Mask) -> None:
        scheduler = self.scheduler
        frame, block = waiters[0].frame, waiters[0].block
        rows = np.flatnonzero(go.any(axis=1))
        frame.code.terminators[block.index].execute(
            scheduler, frame, Lanes.of(rows, go[rows], scheduler.batch.height)
        )
        self.parked = [each for each in self.parked if not any(each is waiter for waiter in waiters)]
        for waiter in waiters:
            moving = waiter.only(go[waiter.rows])
            waiting = waiter.only(~go[waiter.rows])
            if waiting is not None:
                self.parked.append(waiting)
            if moving is not None:
                scheduler.enqueue((frame, block.successors[-1], waiter.stack), moving.rows, moving.mask)
