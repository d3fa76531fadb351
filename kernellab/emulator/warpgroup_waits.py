"""``wgmma.wait_group``: the four warps of a warpgroup meet there, as products need all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator.flow import Block
from kernellab.emulator.frame import Frame
from kernellab.emulator.joins import Join, Waiter
from kernellab.emulator.lanes import Lanes
from kernellab.emulator.releases import GROUP
from kernellab.emulator.warpgroups import check_aligned

if TYPE_CHECKING:
    from kernellab.emulator.schedule import Next, Scheduler

Array = npt.NDArray[Any]


class WarpgroupWaits:
    """The warps of a running batch that wait for the others of their warpgroup."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        batch = scheduler.batch
        per_block = -(-batch.warps_per_block // GROUP)
        self.group_of_row = batch.block_of_row * per_block + batch.warp_of_row // GROUP
        self.groups = batch.blocks * per_block
        self.waiters: list[Waiter] = []

    def present(self, rows: Array) -> npt.NDArray[np.bool_]:
        """Say which warpgroups have all their living warps among some warps."""
        missing = np.asarray(self.scheduler.live.any(axis=1))
        missing[rows] = False
        found = np.zeros(self.groups, np.bool_)
        found[self.group_of_row[rows]] = True
        found[self.group_of_row[missing]] = False
        return found

    def wait(self, waiter: Waiter) -> None:
        """Warps wait."""
        self.waiters.append(waiter)
        self.look_again()

    def look_again(self) -> None:
        """Let warpgroups go on that are complete at one place."""
        places: dict[tuple[int, int], list[Waiter]] = {}
        for waiter in self.waiters:
            places.setdefault((id(waiter.frame), waiter.block.index), []).append(waiter)
        self.waiters = []
        for together in places.values():
            may_go = self.present(np.concatenate([waiter.rows for waiter in together]))
            for waiter in together:
                goes = may_go[self.group_of_row[waiter.rows]]
                if not goes.all():
                    self.waiters.append(waiter.part(~goes))
                if goes.any():
                    self._release(waiter.part(goes))

    def _release(self, waiter: Waiter) -> None:
        lanes = Lanes.of(waiter.rows, waiter.mask, self.scheduler.batch.height)
        waiter.frame.code.terminators[waiter.block.index].finish(self.scheduler, lanes)
        position = (waiter.frame, waiter.block.successors[-1], waiter.stack)
        self.scheduler.enqueue(position, waiter.rows, waiter.mask)


class WarpgroupWait:
    """``wgmma.wait_group``."""

    is_aligned = True

    def __init__(self, number: int, allowed: int) -> None:
        self.number = number
        self.allowed = allowed

    def __call__(
        self, scheduler: Scheduler, frame: Frame, block: Block, stack: Join | None, lanes: Lanes
    ) -> Next | None:
        """Wait for the warpgroup, then for its products."""
        check_aligned(scheduler.batch, self.number, lanes)
        waits, rows = scheduler.warpgroup_waits, lanes.row_indexes()
        if waits.present(rows)[waits.group_of_row[rows]].all():
            self.finish(scheduler, lanes)
            return block.successors[-1], stack, lanes
        waits.wait(Waiter(frame, block, stack, rows, lanes.full_mask()))
        return None

    def finish(self, scheduler: Scheduler, lanes: Lanes) -> None:
        """The warpgroup is there: only the latest groups may still be on their way."""
        scheduler.batch.warpgroups.wait(lanes, self.allowed)
