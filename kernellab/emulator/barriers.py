"""The sixteen barriers of a block: who has arrived, who waits, who may pass."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator.batch import Batch
from kernellab.emulator.code import Binder
from kernellab.emulator.flow import Block
from kernellab.emulator.frame import Frame
from kernellab.emulator.joins import Join, Waiter
from kernellab.emulator.lanes import WARP, Lanes, Mask
from kernellab.emulator.memory import UNSIGNED
from kernellab.emulator.ptx import Immediate, Instruction, Register

if TYPE_CHECKING:
    from kernellab.emulator.schedule import Next, Scheduler

BOOL = np.dtype(np.bool_)
Array = npt.NDArray[Any]


@dataclass(slots=True)
class Barrier:
    """One barrier, for all blocks of the batch.

    Attributes
    ----------
    arrived : numpy.ndarray of bool, shape (height, 32)
    threads : numpy.ndarray of int64, shape (blocks,)
        Threads that a block waits for; 0 for all that live.
    waiters : list of Waiter
    """

    arrived: Mask
    threads: npt.NDArray[np.int64]
    waiters: list[Waiter] = field(default_factory=list)


class Barriers:
    """The barriers of a running batch."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.found: dict[int, Barrier] = {}

    def wait(self, number: int, threads: int, waiter: Waiter, blocks_on: bool = True) -> None:
        """Lanes arrive at a barrier; with `blocks_on` they wait there."""
        barrier = self.found.get(number)
        if barrier is None:
            live, batch = self.scheduler.live, self.scheduler.batch
            barrier = self.found[number] = Barrier(np.zeros_like(live), np.zeros(batch.blocks, np.int64))
        barrier.threads[self.scheduler.batch.block_of_row[waiter.rows]] = threads
        barrier.arrived[waiter.rows] |= waiter.mask
        if blocks_on:
            barrier.waiters.append(waiter)
        self._pass(barrier)

    def look_again(self) -> None:
        """Let blocks pass in which the last threads that were missing have ended."""
        for barrier in list(self.found.values()):
            self._pass(barrier)

    def _pass(self, barrier: Barrier) -> None:
        if not barrier.waiters:
            return
        batch = self.scheduler.batch
        arrived = barrier.arrived.reshape(batch.blocks, -1)
        live = self.scheduler.live.reshape(batch.blocks, -1)
        is_done: npt.NDArray[np.bool_] = np.asarray((arrived | ~live).all(axis=1) & arrived.any(axis=1))
        if barrier.threads.any():
            warps = barrier.arrived.any(axis=1).reshape(batch.blocks, -1).sum(axis=1)
            is_done = np.where(barrier.threads > 0, warps * WARP >= barrier.threads, is_done)
        if not is_done.any():
            return
        done_rows = is_done[batch.block_of_row]
        passing, staying = [], []
        for waiter in barrier.waiters:
            chosen = done_rows[waiter.rows]
            if chosen.all():
                passing.append(waiter)
                continue
            if chosen.any():
                passing.append(waiter.part(chosen))
            staying.append(waiter.part(~chosen))
        barrier.waiters = staying
        reached = barrier.arrived & done_rows[:, None]
        barrier.arrived[done_rows] = False
        self._cross(passing, reached, is_done)

    def _cross(self, passing: list[Waiter], reached: Mask, is_done: npt.NDArray[np.bool_]) -> None:
        batch = self.scheduler.batch
        batch.releases.forget(is_done)
        batch.landings.cross(passing, reached)
        if batch.races is not None:
            batch.races.block_barrier(is_done)
        if len(passing) > 1:
            self._check_together(passing)
        for waiter in passing:
            waiter.frame.code.terminators[waiter.block.index].finish(batch, waiter, reached)
            self.scheduler.enqueue(
                (waiter.frame, waiter.block.successors[-1], waiter.stack), waiter.rows, waiter.mask
            )

    def _check_together(self, passing: list[Waiter]) -> None:
        """Complain about warps whose lanes waited at different barrier instructions."""
        places: dict[tuple[int, int], int] = {}
        first = np.full(self.scheduler.batch.height, -1)
        for waiter in passing:
            place = places.setdefault((waiter.frame.code.first, waiter.block.index), len(places))
            if not places or not waiter.frame.code.terminators[waiter.block.index].is_aligned:
                continue
            before = first[waiter.rows]
            mixed = np.flatnonzero((before >= 0) & (before != place))
            if mixed.size:
                self._complain(waiter, int(mixed[0]), ~waiter.mask[mixed[0]])
            first[waiter.rows] = place

    def look_past(self, frame: Frame, block: Block, lanes: Lanes) -> None:
        """Complain about lanes that run on behind an aligned barrier at which the rest of their warp waits."""
        code = frame.code
        for barrier in self.found.values():
            for waiter in barrier.waiters:
                where = waiter.block
                if waiter.frame is not frame or block.rank <= where.rank or code.only_returns(block):
                    continue
                if not code.terminators[where.index].is_aligned or not code.reaches(where, block):
                    continue
                rows, positions, others = np.intersect1d(
                    waiter.rows, lanes.row_indexes(), assume_unique=True, return_indices=True
                )
                if rows.size:
                    self._complain(waiter, int(positions[0]), lanes.full_mask()[others[0]])

    @property
    def has_waiters(self) -> bool:
        """Whether any lanes wait."""
        return any(barrier.waiters for barrier in self.found.values())

    def complain_of_absent(self) -> None:
        """Complain about aligned barriers at which only a part of a warp waits, now that nobody can go on."""
        live = self.scheduler.live
        for barrier in self.found.values():
            for waiter in barrier.waiters:
                if not waiter.frame.code.terminators[waiter.block.index].is_aligned:
                    continue
                absent = live[waiter.rows] & ~barrier.arrived[waiter.rows]
                some = np.flatnonzero(absent.any(axis=1))
                if some.size:
                    self._complain(waiter, int(some[0]), absent[some[0]])

    def _complain(self, waiter: Waiter, position: int, absent: npt.NDArray[np.bool_]) -> None:
        batch = self.scheduler.batch
        terminator = waiter.frame.code.terminators[waiter.block.index]
        row = int(waiter.rows[position])
        missing = np.flatnonzero(absent & self.scheduler.live[row])
        what = (
            f"divergent barrier: threads {_ranges(batch.linear[row, missing])} of the warp are not there, "
            "the others wait; move the barrier out of the branch"
        )
        column = int(missing[0]) if missing.size else 0
        batch.complain(terminator.number, "divergent barrier", what, row, column, int(missing.size))


class BlockBarrier:
    """``bar.sync``, ``bar.arrive`` and ``bar.red``."""

    def __init__(self, binder: Binder, instruction: Instruction, number: int, parts: list[str]) -> None:
        self.number = number
        self.is_aligned = parts[0] == "bar" or "aligned" in parts
        self.is_arrive = "arrive" in parts
        self.reduction = next((part for part in parts if part in ("popc", "and", "or")), "")
        operands = list(instruction.operands)
        self.target: int | None = None
        self.predicate: int | None = None
        self.is_negated = False
        if "red" in parts:
            self.target = binder.target(operands.pop(0), BOOL if self.reduction != "popc" else UNSIGNED[4])
            last = operands.pop()
            self.is_negated = isinstance(last, Register) and last.is_negated
            self.predicate = binder.source(Register(last.name) if isinstance(last, Register) else last, BOOL)
        identity = operands[0] if operands else Immediate(0)
        self.identity = binder.source(identity, UNSIGNED[4])
        self.threads = binder.source(operands[1], UNSIGNED[4]) if len(operands) > 1 else None

    def __call__(
        self, scheduler: Scheduler, frame: Frame, block: Block, stack: Join | None, lanes: Lanes
    ) -> Next | None:
        """Arrive, and wait unless it is ``bar.arrive``."""
        threads = 0
        if self.threads is not None:
            threads = int(_first(frame.views[self.threads], lanes))
        identities = np.broadcast_to(frame.views[self.identity], (lanes.height, WARP))[lanes.rows]
        flat = lanes.flat(identities)
        for identity in [flat[0]] if (flat == flat[0]).all() else np.unique(flat):
            chosen = identities == identity if lanes.mask is None else lanes.mask & (identities == identity)
            some = chosen.any(axis=1)
            waiter = Waiter(frame, block, stack, lanes.row_indexes()[some], chosen[some])
            scheduler.barriers.wait(int(identity), threads, waiter, blocks_on=not self.is_arrive)
        if self.is_arrive:
            return block.successors[-1], stack, lanes
        return None

    def finish(self, batch: Batch, waiter: Waiter, reached: Mask) -> None:
        """Give every thread the result of ``bar.red``."""
        if self.target is None:
            return
        assert self.predicate is not None
        views = waiter.frame.views
        votes = np.broadcast_to(views[self.predicate] != self.is_negated, reached.shape)
        by_block = (votes & reached).reshape(batch.blocks, -1)
        there = reached.reshape(batch.blocks, -1)
        if self.reduction == "popc":
            result: Array = by_block.sum(axis=1, dtype=np.uint32)
        else:
            result = np.logical_or.reduce(by_block, axis=1)
            if self.reduction == "and":
                result = np.logical_and.reduce(by_block == there, axis=1)
        value = np.broadcast_to(result[batch.block_of_row][waiter.rows][:, None], waiter.mask.shape)
        Lanes.of(waiter.rows, waiter.mask, batch.height).put(views[self.target], value)


def _first(value: Any, lanes: Lanes) -> Any:
    if not isinstance(value, np.ndarray) or value.ndim == 0:
        return value
    return lanes.flat(value[lanes.rows])[0]


def _ranges(numbers: npt.NDArray[np.int64]) -> str:
    """Write sorted numbers as ranges: 3-7, 12."""
    parts = []
    for run in np.split(numbers, np.flatnonzero(np.diff(numbers) != 1) + 1):
        parts.append(f"{run[0]}-{run[-1]}" if run.size > 1 else "".join(map(str, run)))
    return ", ".join(parts)
