"""Runs a batch to its end: splits of warps, where they join, barriers, and who waits for whom.

Warps at the same place run together as one fragment. A branch that splits warps makes two fragments that
meet again at the branch's immediate post-dominator: a `Join`. A fragment that only spins hands over to the
others; when nobody can go on, joins let go of the lanes they hold (a warp need not reconverge), and if that
does not help either, it is a deadlock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator.batch import Batch, Frame
from kernellab.emulator.flow import EXIT, Block
from kernellab.emulator.lanes import WARP, Lanes, Mask, pack
from kernellab.errors import ExecutionError

if TYPE_CHECKING:
    from kernellab.emulator.terminators import Terminator

Rows = npt.NDArray[np.intp]
QUANTUM = 512
"""Backward jumps after which a fragment lets the others run."""


class Join:
    """Where the splits of diverged warps meet, or where a called function returns to.

    Attributes
    ----------
    frame, block
        Where its lanes go on once they are together.
    parent : Join or None
        The join around it.
    is_return : bool
        True for the end of a call: lanes reach it by ``ret``.
    expected, arrived : numpy.ndarray of bool, shape (height, 32)
    """

    __slots__ = ("arrived", "block", "depth", "expected", "frame", "is_return", "on_return", "parent")

    def __init__(self, frame: Frame, block: int, parent: Join | None, height: int, is_return: bool) -> None:
        self.frame = frame
        self.block = block
        self.parent = parent
        self.depth: int = parent.depth + 1 if parent else 0
        self.is_return = is_return
        self.expected = np.zeros((height, WARP), np.bool_)
        self.arrived = np.zeros((height, WARP), np.bool_)
        self.on_return: Callable[[Lanes], None] | None = None


@dataclass(slots=True)
class Barrier:
    """One of a block's sixteen barriers, for all blocks of the batch."""

    arrived: Mask
    waiters: list[Waiter] = field(default_factory=list)
    threads: int = 0
    """Threads to wait for; 0 for all of the block."""


@dataclass(slots=True)
class Waiter:
    """Lanes that wait at a barrier or for other lanes of their warp."""

    frame: Frame
    block: Block
    stack: Join | None
    rows: Rows
    mask: Mask


Position = tuple[Frame, int, "Join | None"]
Next = tuple[int, "Join | None", Lanes]


class Scheduler:
    """The state of a running batch.

    Parameters
    ----------
    batch : Batch
    terminators : callable
        Gives the terminators of a code, by block.
    """

    def __init__(self, batch: Batch, entry: Frame) -> None:
        self.batch = batch
        self.entry = entry
        self.live: Mask = batch.initial.copy()
        self.runnable: dict[Position, list[tuple[Rows, Mask | None]]] = {}
        self.later: dict[Position, list[tuple[Rows, Mask | None]]] = {}
        self.spinning: list[tuple[int, Position, Rows, Mask | None]] = []
        self.joins: dict[tuple[Frame, int, Join | None, bool], Join] = {}
        self.barriers: dict[int, Barrier] = {}
        self.parked: list[Waiter] = []
        self.current: tuple[Frame, Block] | None = None

    # -- the main loop
    def run(self) -> None:
        """Run until every lane has left."""
        height = self.batch.height
        every = np.arange(height)
        self.enqueue((self.entry, 0, None), every, None if self.live.all() else self.live.copy())
        while True:
            if not self.runnable:
                self._next_round()
                if not self.runnable and not self._unstick():
                    return
            position = max(self.runnable, key=_urgency)
            rows, mask = _together(self.runnable.pop(position))
            self._fragment(*position, Lanes.of(rows, mask, height))

    def _next_round(self) -> None:
        self.runnable, self.later = self.later, {}
        version = self.batch.version
        still = []
        for seen, position, rows, mask in self.spinning:
            if seen != version:
                self.enqueue(position, rows, mask)
            else:
                still.append((seen, position, rows, mask))
        self.spinning = still

    def enqueue(self, position: Position, rows: Rows, mask: Mask | None) -> None:
        """Let lanes go on at a position."""
        self.runnable.setdefault(position, []).append((rows, mask))

    def _fragment(self, frame: Frame, index: int, stack: Join | None, lanes: Lanes) -> None:
        """Run one fragment until it ends, waits, joins or has had its turn."""
        batch = self.batch
        code, views = frame.code, frame.views
        blocks, all_steps, terminators = code.blocks, code.steps, code.terminators
        counts, first_block = batch.counts, code.first_block
        launch = batch.launch
        turns, snapshot = 0, None
        while True:
            if index == EXIT:
                self.leave(frame, stack, lanes)
                return
            if stack is not None and stack.block == index and stack.frame is frame and not stack.is_return:
                self.arrive(stack, lanes.row_indexes(), lanes.full_mask())
                return
            block = blocks[index]
            counts.block_warps[first_block + index] += lanes.row_count
            counts.block_lanes[first_block + index] += lanes.count
            batch.steps += block.stop - block.start + 1
            self.current = (frame, block)
            for step in all_steps[index]:
                step(views, lanes, batch)
            terminator: Terminator | None = terminators[index]
            if terminator is None:
                following = block.successors[0]
            else:
                found = terminator(self, frame, block, stack, lanes)
                if found is None:
                    return
                following, stack, lanes = found
            if following <= index and following != EXIT:  # a backward jump
                if batch.steps > launch.budget:
                    self._over_budget(frame, block, lanes)
                turns += 1
                if turns & (turns - 1) == 0 and turns >= 8:
                    snapshot = (following, self._state(frame, lanes))
                elif snapshot is not None and snapshot[0] == following:
                    if _same(snapshot[1], self._state(frame, lanes)):
                        where = ((frame, following, stack), lanes.row_indexes(), lanes.mask)
                        self.spinning.append((batch.version, *where))
                        return
                    snapshot = None
                if turns % QUANTUM == 0 and (self.runnable or self.later or self.spinning):
                    self.later.setdefault((frame, following, stack), []).append(
                        (lanes.row_indexes(), lanes.mask)
                    )
                    return
            index = following

    def _state(self, frame: Frame, lanes: Lanes) -> tuple[int, list[Any]]:
        rows = lanes.rows
        return self.batch.version, [register[rows].copy() for register in frame.registers.values()]

    # -- joins
    def join(self, frame: Frame, block: int, parent: Join | None, is_return: bool = False) -> Join:
        """Return the join at a block inside another join; made on first use."""
        key = (frame, block, parent, is_return)
        found = self.joins.get(key)
        if found is None:
            found = self.joins[key] = Join(frame, block, parent, self.batch.height, is_return)
        return found

    def arrive(self, join: Join, rows: Rows, mask: Mask) -> None:
        """Bring lanes to their join; those whose warp is complete go on."""
        join.arrived[rows] |= mask
        self._complete(join, rows)

    def _complete(self, join: Join, rows: Rows) -> None:
        arrived = join.arrived[rows]
        is_complete = (arrived == join.expected[rows]).all(axis=1) & arrived.any(axis=1)
        if is_complete.any():
            self._release(join, rows[is_complete])

    def _release(self, join: Join, rows: Rows) -> None:
        mask = join.arrived[rows]
        join.expected[rows] &= ~mask
        join.arrived[rows] = False
        if join.on_return is not None:
            join.on_return(Lanes.of(rows, mask, self.batch.height))
        self.enqueue((join.frame, join.block, join.parent), rows, mask)

    def leave(self, frame: Frame, stack: Join | None, lanes: Lanes) -> None:
        """Lanes reach the end of a function: they return to the caller, or end."""
        rows, mask = lanes.row_indexes(), lanes.full_mask()
        while stack is not None and not stack.is_return:
            self._forget(stack, rows, mask)
            stack = stack.parent
        if stack is not None:
            self.arrive(stack, rows, mask)
        else:
            self.end(None, lanes)

    def end(self, stack: Join | None, lanes: Lanes) -> None:
        """Lanes end: nobody waits for them any longer."""
        rows, mask = lanes.row_indexes(), lanes.full_mask()
        self.live[rows] &= ~mask
        while stack is not None:
            self._forget(stack, rows, mask)
            stack = stack.parent
        for number in list(self.barriers):
            self._pass_barrier(number)
        if self.parked:
            self._serve_parked()

    def _forget(self, join: Join, rows: Rows, mask: Mask) -> None:
        join.expected[rows] &= ~mask
        self._complete(join, rows)

    # -- barriers
    def wait(self, number: int, threads: int, waiter: Waiter, blocks_on: bool = True) -> None:
        """Lanes arrive at a barrier; with `blocks_on` they wait there."""
        barrier = self.barriers.get(number)
        if barrier is None:
            barrier = self.barriers[number] = Barrier(np.zeros_like(self.live))
        barrier.threads = threads
        barrier.arrived[waiter.rows] |= waiter.mask
        if blocks_on:
            barrier.waiters.append(waiter)
        self._pass_barrier(number)

    def _pass_barrier(self, number: int) -> None:
        barrier = self.barriers[number]
        if not barrier.waiters:
            return
        batch = self.batch
        arrived = barrier.arrived.reshape(batch.blocks, -1)
        live = self.live.reshape(batch.blocks, -1)
        if barrier.threads:
            warps = barrier.arrived.any(axis=1).reshape(batch.blocks, -1)
            is_done = warps.sum(axis=1) * WARP >= barrier.threads
        else:
            is_done = (arrived | ~live).all(axis=1) & arrived.any(axis=1)
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
                passing.append(_part(waiter, chosen))
            staying.append(_part(waiter, ~chosen))
        barrier.waiters = staying
        reached = barrier.arrived & done_rows[:, None]
        barrier.arrived[done_rows] = False
        self._cross(passing, reached, is_done)

    def _cross(self, passing: list[Waiter], reached: Mask, is_done: npt.NDArray[np.bool_]) -> None:
        if self.batch.races is not None:
            self.batch.races.block_barrier(is_done)
        for waiter in passing:
            terminator = waiter.frame.code.terminators[waiter.block.index]
            terminator.finish(self.batch, waiter, reached)
            self.enqueue(
                (waiter.frame, waiter.block.successors[-1], waiter.stack), waiter.rows, waiter.mask
            )

    # -- lanes that wait for lanes of their warp
    def park(self, waiter: Waiter) -> None:
        """Lanes wait until the members that they name are there too."""
        self.parked.append(waiter)
        self._serve_parked()

    def _serve_parked(self) -> None:
        """Go on with every warp whose waiting lanes are now complete."""
        by_place: dict[tuple[Frame, int], list[Waiter]] = {}
        for waiter in self.parked:
            by_place.setdefault((waiter.frame, waiter.block.index), []).append(waiter)
        there = np.zeros_like(self.live)
        for waiter in self.parked:
            there[waiter.rows] |= waiter.mask
        present = pack(there)
        self.parked = []
        ready: list[tuple[Waiter, Rows, Mask]] = []
        for (frame, _), waiters in by_place.items():
            terminator = frame.code.terminators[waiters[0].block.index]
            mask = np.zeros_like(self.live)
            for waiter in waiters:
                mask[waiter.rows] |= waiter.mask
            rows = np.flatnonzero(mask.any(axis=1))
            lanes = Lanes.of(rows, mask[rows], self.batch.height)
            can_go = terminator.complete(self, frame, lanes, present[rows])
            if can_go.any():
                go = np.zeros_like(self.live)
                go[rows] = can_go
                chosen = np.flatnonzero(go.any(axis=1))
                terminator.execute(self, frame, Lanes.of(chosen, go[chosen], self.batch.height))
                mask = mask & ~go
                for waiter in waiters:
                    moving = waiter.mask & go[waiter.rows]
                    keep = moving.any(axis=1)
                    if keep.any():
                        ready.append((waiter, waiter.rows[keep], moving[keep]))
                    waiting = waiter.mask & ~go[waiter.rows]
                    keep = waiting.any(axis=1)
                    if keep.any():
                        self.parked.append(
                            Waiter(waiter.frame, waiter.block, waiter.stack, waiter.rows[keep], waiting[keep])
                        )
            else:
                self.parked.extend(waiters)
        for waiter, rows, mask in ready:
            self.enqueue((waiter.frame, waiter.block.successors[-1], waiter.stack), rows, mask)

    # -- when nobody can go on
    def _unstick(self) -> bool:
        """Let joins go, or report a deadlock; False when all lanes have ended."""
        for join in sorted(self.joins.values(), key=lambda each: -each.depth):
            if join.is_return:
                continue
            rows = np.flatnonzero(join.arrived.any(axis=1))
            if rows.size:
                self._release(join, rows)
                return True
        if not self.live.any():
            return False
        self._deadlock()
        return False

    def _deadlock(self) -> None:
        launch = self.batch.launch
        waits = []
        for number, barrier in self.barriers.items():
            for waiter in barrier.waiters:
                waits.append((f"at barrier {number}", waiter.frame, waiter.block, waiter.mask))
        for waiter in self.parked:
            waits.append(("for lanes of their warp", waiter.frame, waiter.block, waiter.mask))
        for _, (frame, index, _), rows, mask in self.spinning:
            found = np.ones((rows.size, WARP), np.bool_) if mask is None else mask
            waits.append(("in a loop in which nothing changes", frame, frame.code.blocks[index], found))
        texts = []
        row, column = (int(v[0]) for v in np.nonzero(self.live))
        number = self.entry.code.first
        for what, frame, block, mask in waits:
            instruction = block.terminator or frame.code.function.body[block.start]
            number = frame.code.first + instruction.index
            texts.append(f"{int(mask.sum())} threads wait {what} at {launch.where(number)}")
        kind = "deadlock" if len(waits) != 1 or not self.spinning else "endless loop"
        self.batch.complain(number, kind, f"{kind}: " + "; ".join(dict.fromkeys(texts)), row, column)
        raise ExecutionError(launch.diagnostics[-1].message)

    def _over_budget(self, frame: Frame, block: Block, lanes: Lanes) -> None:
        launch = self.batch.launch
        instruction = block.terminator or frame.code.function.body[block.start]
        number = frame.code.first + instruction.index
        row = int(lanes.row_indexes()[0])
        column = int(np.flatnonzero(lanes.full_mask()[0])[0])
        what = (
            f"instruction budget: more than {launch.budget} instructions in one wave of blocks; an endless loop? "
            "If not, raise budget="
        )
        self.batch.complain(number, "instruction budget", what, row, column)
        raise ExecutionError(launch.diagnostics[-1].message)


def _urgency(position: Position) -> tuple[int, int]:
    frame, _, stack = position
    return (stack.depth + 1 if stack is not None else 0, frame.depth)


def _part(waiter: Waiter, chosen: npt.NDArray[np.bool_]) -> Waiter:
    return Waiter(waiter.frame, waiter.block, waiter.stack, waiter.rows[chosen], waiter.mask[chosen])


def _same(first: tuple[int, list[Any]], second: tuple[int, list[Any]]) -> bool:
    return first[0] == second[0] and all(
        np.array_equal(a, b) for a, b in zip(first[1], second[1], strict=True)
    )


def _together(parts: list[tuple[Rows, Mask | None]]) -> tuple[Rows, Mask | None]:
    """Merge what waits at one position: other warps side by side, splits of one warp into one."""
    if len(parts) == 1:
        return parts[0]
    rows = np.concatenate([part[0] for part in parts])
    masks = None
    if any(part[1] is not None for part in parts):
        masks = np.concatenate(
            [np.ones((r.size, WARP), np.bool_) if m is None else m for r, m in parts]
        )
    unique, inverse = np.unique(rows, return_inverse=True)
    if unique.size == rows.size:
        order = np.argsort(rows)
        return rows[order], None if masks is None else masks[order]
    assert masks is not None
    merged = np.zeros((unique.size, WARP), np.bool_)
    np.logical_or.at(merged, inverse.reshape(-1), masks)
    return unique, merged
