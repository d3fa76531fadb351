"""Runs a batch to its end: splits of warps, where they join, barriers, and who waits for whom.

Warps at the same place run together as one fragment. A branch that splits warps makes two fragments. The one
that stands earlier in the program runs first, so the parts of a warp meet at the first block that both come
to; a called function's lanes meet when they return. A fragment that only spins hands over to the others; when
nobody can go on, the batch is stuck: other blocks may free it, else it is a deadlock.
"""

from __future__ import annotations

import time
from itertools import islice
from typing import Any

import numpy as np

from kernellab.emulator.barriers import Barriers
from kernellab.emulator.batch import Batch
from kernellab.emulator.clusters import ClusterBarrier
from kernellab.emulator.flow import EXIT, Block
from kernellab.emulator.frame import Frame
from kernellab.emulator.joins import Join, Rows
from kernellab.emulator.lanes import WARP, Lanes, Mask
from kernellab.emulator.rendezvous import Rendezvous
from kernellab.emulator.warpgroup_waits import WarpgroupWaits

QUANTUM = 512
"""Backward jumps after which a fragment lets the others run."""
FAIRNESS = 256
"""Fragments after which the one that waits longest has its turn, in kernels whose lanes may wait for others."""
CROWD = 16
"""Parts at one position that are merged before they get more."""

Position = tuple[Frame, int, "Join | None"]
Next = tuple[int, "Join | None", Lanes]
Parts = list[tuple[Rows, "Mask | None"]]


class Scheduler:
    """The state of a running batch.

    Parameters
    ----------
    batch : Batch
    entry : Frame
        The kernel's frame.
    """

    def __init__(self, batch: Batch, entry: Frame) -> None:
        self.batch = batch
        self.entry = entry
        self.live: Mask = batch.initial.copy()
        self.runnable: dict[Position, Parts] = {}
        self.later: dict[Position, Parts] = {}
        self.spinning: list[tuple[int, Position, Rows, Mask | None]] = []
        self.spun: set[Position] = set()
        self.joins: dict[tuple[Frame, int, Join | None], Join] = {}
        self.barriers = Barriers(self)
        self.rendezvous = Rendezvous(self)
        self.cluster_barrier = ClusterBarrier.of(self)
        self.warpgroup_waits = WarpgroupWaits(self)
        self.turn = 0
        self.may_wait = any(code.may_wait for code in batch.launch.codes.values())
        every = np.arange(batch.height)
        self.enqueue((entry, 0, None), every, None if self.live.all() else self.live.copy())

    # -- the main loop
    def run(self) -> bool:
        """Run until every lane has left, or none can go on: True when all have left."""
        height = self.batch.height
        self.batch.started = time.process_time()
        while True:
            self.turn += 1
            if not self.runnable or self.turn % FAIRNESS == 0:
                self._next_round()
                if not self.runnable:
                    if self._unstick():
                        continue
                    return not self.live.any()
            position = self._choose()
            rows, mask = self._merge(position, self.runnable.pop(position))
            lanes = Lanes.of(rows, mask, height)
            if lanes.mask is not None and rows.size == height and not (self.live & ~lanes.mask).any():
                lanes.is_full = True  # nobody needs the registers of the lanes that are off
            self._fragment(*position, lanes)

    def _choose(self) -> Position:
        """Return what runs next: the innermost, then the earliest in the program; at times the oldest."""
        if len(self.runnable) == 1 or (self.may_wait and self.turn % FAIRNESS == 0):
            return next(iter(self.runnable))
        return max(self.runnable, key=_urgency)

    def _next_round(self) -> None:
        """Give those that had their turn another one, and wake who spins if memory has changed."""
        later, self.later = self.later, {}
        for position, parts in later.items():
            self.runnable.setdefault(position, []).extend(parts)
        if not self.spinning:
            return
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
        parts = self.runnable.setdefault(position, [])
        parts.append((rows, mask))
        if len(parts) >= CROWD:
            parts[:] = [self._merge(position, parts)]

    def go(self, frame: Frame, index: int, stack: Join | None, lanes: Lanes) -> None:
        """Let part of a fragment go on at a block, or leave."""
        if index == EXIT:
            self.leave(frame, stack, lanes)
        else:
            self.enqueue((frame, index, stack), lanes.row_indexes(), lanes.mask)

    def _merge(self, position: Position, parts: Parts) -> tuple[Rows, Mask | None]:
        """Merge what waits at a position; count the parts of warps that meet there."""
        rows, mask = _together(parts)
        if len(parts) > 1:
            meeting = sum(part[0].size for part in parts) - rows.size
            self.batch.counts.splits[position[0].code.first_block + position[1]] += meeting
        return rows, mask

    def _must_wait(self, frame: Frame, index: int, stack: Join | None) -> bool:
        """Say whether others have to run before a fragment goes on at a block, or to meet it there."""
        here = _urgency((frame, index, stack))
        return any(_urgency(position) >= here for position in self.runnable)

    def _fragment(self, frame: Frame, index: int, stack: Join | None, lanes: Lanes) -> None:
        """Run one fragment until it ends, waits, joins or has had its turn."""
        batch = self.batch
        code, views = frame.code, frame.views
        blocks, all_steps, terminators = code.blocks, code.steps, code.terminators
        block_warps, block_lanes, first_block = (
            batch.counts.block_warps,
            batch.counts.block_lanes,
            code.first_block,
        )
        turns = 7 if (frame, index, stack) in self.spun else 0
        snapshot: tuple[int, Any] | None = None
        while True:
            if index == EXIT:
                self.leave(frame, stack, lanes)
                return
            block = blocks[index]
            if self.barriers.found and self.barriers.has_waiters:
                self.barriers.look_past(frame, block, lanes)
            block_warps[first_block + index] += lanes.row_count
            block_lanes[first_block + index] += lanes.count
            batch.steps += block.stop - block.start + 1
            for step in all_steps[index]:
                step(views, lanes, batch)
            terminator = terminators[index]
            if terminator is None:
                following = block.successors[0]
            else:
                found = terminator(self, frame, block, stack, lanes)
                if found is None:
                    if self.turn % FAIRNESS == 0:
                        batch.check_budget(frame, block, lanes)
                    return
                following, stack, lanes = found
            if following <= index and following != EXIT:  # a backward jump
                turns += 1
                if turns % FAIRNESS == 0:
                    batch.check_budget(frame, block, lanes)
                if turns & (turns - 1) == 0 and turns >= 8:
                    snapshot = (following, self._state(frame, lanes))
                elif snapshot is not None and snapshot[0] == following:
                    if _same(snapshot[1], self._state(frame, lanes)):
                        where = ((frame, following, stack), lanes.row_indexes(), lanes.mask)
                        self.spinning.append((batch.version, *where))
                        self.spun.add(where[0])
                        return
                    snapshot = None
                if self.may_wait and turns % QUANTUM == 0 and (self.runnable or self.later or self.spinning):
                    parts = self.later.setdefault((frame, following, stack), [])
                    parts.append((lanes.row_indexes(), lanes.mask))
                    return
            if self.runnable and following != EXIT and self._must_wait(frame, following, stack):
                self.enqueue((frame, following, stack), lanes.row_indexes(), lanes.mask)
                return
            index = following

    def _state(self, frame: Frame, lanes: Lanes) -> tuple[int, list[Any]]:
        rows = lanes.rows
        return self.batch.version, [register[rows].copy() for register in frame.registers.values()]

    # -- calls
    def join(self, frame: Frame, block: int, parent: Join | None, returns: tuple[str, ...]) -> Join:
        """Return where the lanes of a call meet; made on first use."""
        key = (frame, block, parent)
        found = self.joins.get(key)
        if found is None:
            found = self.joins[key] = Join(frame, block, parent, self.batch.height, returns)
        return found

    def _complete(self, join: Join, rows: Rows) -> None:
        arrived = join.arrived[rows]
        is_complete = (arrived == join.expected[rows]).all(axis=1) & arrived.any(axis=1)
        if is_complete.any():
            self._release(join, rows[is_complete])

    def _release(self, join: Join, rows: Rows) -> None:
        mask = join.arrived[rows]
        join.expected[rows] &= ~mask
        join.arrived[rows] = False
        self.enqueue((join.frame, join.block, join.parent), rows, mask)

    def leave(self, frame: Frame, stack: Join | None, lanes: Lanes) -> None:
        """Lanes reach the end of a function: they return to the caller, or end."""
        if stack is None:
            self.end(None, lanes)
            return
        rows = lanes.row_indexes()
        for name, result in zip(stack.returns, frame.code.function.returns, strict=False):
            lanes.copy_bytes(frame.parameters[result.name], stack.frame.parameters[name])
        stack.arrived[rows] |= lanes.full_mask()
        self._complete(stack, rows)

    def end(self, stack: Join | None, lanes: Lanes) -> None:
        """Lanes end: nobody waits for them any longer."""
        rows, mask = lanes.row_indexes(), lanes.full_mask()
        self.live[rows] &= ~mask
        while stack is not None:
            self._forget(stack, rows, mask)
            stack = stack.parent
        self.barriers.look_again()
        if self.cluster_barrier.waiters:
            self.cluster_barrier.look_again()
        if self.warpgroup_waits.waiters:
            self.warpgroup_waits.look_again()
        if self.rendezvous.parked:
            self.rendezvous.serve()

    def _forget(self, join: Join, rows: Rows, mask: Mask) -> None:
        join.expected[rows] &= ~mask
        self._complete(join, rows)

    # -- when nobody can go on
    def _unstick(self) -> bool:
        """Let go of lanes that wait for others which do not come; False when there are none."""
        if not self.live.any():
            return False
        if self.batch.mbarriers.land_all():
            self._next_round()
            return True
        if not self.spinning:
            self.barriers.complain_of_absent()
            if self.rendezvous.force():
                return True
        holding = [join for join in self.joins.values() if join.arrived.any()]
        if holding:
            join = max(holding, key=lambda each: each.depth)
            self._release(join, np.flatnonzero(join.arrived.any(axis=1)))
            return True
        return self.rendezvous.force()

    def deadlock(self) -> None:
        """Raise, naming who waits where."""
        launch = self.batch.launch
        waits: list[tuple[str, Frame, Block, int]] = []
        for number, barrier in sorted(self.barriers.found.items()):
            for waiter in barrier.waiters:
                waits.append((f"at barrier {number}", waiter.frame, waiter.block, int(waiter.mask.sum())))
        for text, waiters in (
            ("at the barrier of the cluster", self.cluster_barrier.waiters),
            ("for the other warps of their warpgroup", self.warpgroup_waits.waiters),
        ):
            waits += [(text, each.frame, each.block, int(each.mask.sum())) for each in waiters]
        for _, (frame, index, _), rows, mask in self.spinning:
            count = rows.size * WARP if mask is None else int(mask.sum())
            waits.append(("in a loop in which nothing changes", frame, frame.code.blocks[index], count))
        totals: dict[str, int] = {}
        number = self.entry.code.first
        for what, frame, block, count in waits:
            instruction = block.terminator or frame.code.function.body[block.start]
            number = frame.code.first + instruction.index
            text = f"{what} at {launch.where(number)}"
            totals[text] = totals.get(text, 0) + count
        kind = (
            "endless loop"
            if self.spinning and not any(b.waiters for b in self.barriers.found.values())
            else "deadlock"
        )
        what = f"{kind}: " + "; ".join(f"{count} threads wait {text}" for text, count in totals.items())
        what = "; ".join([what, *islice(self.batch.mbarriers.waiting(), 4)])
        row, column = np.argwhere(self.live)[0]
        self.batch.complain(number, kind, what, int(row), int(column))
        self.batch.raise_last()


def _urgency(position: Position) -> tuple[int, int, int]:
    frame, index, stack = position
    return (stack.depth + 1 if stack is not None else 0, frame.depth, -frame.code.blocks[index].rank)


def _same(first: tuple[int, list[Any]], second: tuple[int, list[Any]]) -> bool:
    return first[0] == second[0] and all(
        np.array_equal(a, b) for a, b in zip(first[1], second[1], strict=True)
    )


def _together(parts: Parts) -> tuple[Rows, Mask | None]:
    """Merge what waits at one position: other warps side by side, splits of one warp into one."""
    if len(parts) == 1:
        return parts[0]
    rows = np.concatenate([part[0] for part in parts])
    masks = None
    if any(part[1] is not None for part in parts):
        masks = np.concatenate([np.ones((r.size, WARP), np.bool_) if m is None else m for r, m in parts])
    unique, inverse = np.unique(rows, return_inverse=True)
    if unique.size == rows.size:
        order = np.argsort(rows)
        return rows[order], None if masks is None else masks[order]
    assert masks is not None
    merged = np.zeros((unique.size, WARP), np.bool_)
    np.logical_or.at(merged, inverse.reshape(-1), masks)
    return unique, merged
