"""Branches and returns: how a fragment of warps splits, and where its parts go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from kernellab.emulator.code import Binder
from kernellab.emulator.flow import Block
from kernellab.emulator.frame import Frame
from kernellab.emulator.joins import Join
from kernellab.emulator.lanes import WARP, Lanes, Mask
from kernellab.emulator.ptx import Instruction, Register

if TYPE_CHECKING:
    from kernellab.emulator.schedule import Next, Scheduler

BOOL = np.dtype(np.bool_)
Terminator = Callable[["Scheduler", Frame, Block, "Join | None", Lanes], "Next | None"]


def split(lanes: Lanes, keep: Mask) -> tuple[Lanes | None, Lanes | None]:
    """Divide lanes by a condition, shape (R, 32); warps without lanes are dropped, an empty side is None."""
    keep = keep.copy() if lanes.mask is None else keep & lanes.mask  # never a view of a register
    count = int(np.count_nonzero(keep))
    if count == 0:
        return None, lanes
    if count == lanes.count:
        return lanes, None
    rest = ~keep if lanes.mask is None else lanes.mask & ~keep
    return _compact(lanes, keep), _compact(lanes, rest)


def _compact(lanes: Lanes, mask: Mask) -> Lanes:
    some = mask.any(axis=1)
    if some.all():
        return Lanes(lanes.rows, mask, lanes.height)
    return Lanes.of(lanes.row_indexes()[some], mask[some], lanes.height)


def diverge(scheduler: Scheduler, frame: Frame, stack: Join | None, parts: list[tuple[int, Lanes]]) -> None:
    """Send parts of a fragment to different blocks; they meet where they come to the same one."""
    for following, part in parts:
        scheduler.go(frame, following, stack, part)


class Branch:
    """``bra``: to a label, for all lanes or for those whose predicate holds."""

    def __init__(self, binder: Binder, instruction: Instruction, number: int) -> None:
        guard = instruction.guard
        self.number = number
        self.predicate = binder.source(Register(guard.register), BOOL) if guard else None
        self.is_negated = guard is not None and guard.is_negated

    def __call__(
        self, scheduler: Scheduler, frame: Frame, block: Block, stack: Join | None, lanes: Lanes
    ) -> Next | None:
        """Go on at the label, behind the branch, or at both."""
        counts = scheduler.batch.counts
        counts.branches[self.number] += lanes.row_count
        if self.predicate is None:
            return block.successors[0], stack, lanes
        condition = frame.views[self.predicate][lanes.rows]
        taken, rest = split(lanes, ~condition if self.is_negated else condition)
        if taken is None:
            return block.successors[1], stack, lanes
        if rest is None:
            return block.successors[0], stack, lanes
        counts.divergent[self.number] += taken.row_count + rest.row_count - lanes.row_count
        diverge(scheduler, frame, stack, [(block.successors[0], taken), (block.successors[1], rest)])
        return None


class IndexedBranch:
    """``brx.idx``: to the label that a register chooses."""

    def __init__(self, binder: Binder, instruction: Instruction, number: int) -> None:
        self.number = number
        self.index = binder.source(instruction.operands[0], np.dtype(np.uint32))
        self.has_guard = instruction.guard is not None

    def __call__(
        self, scheduler: Scheduler, frame: Frame, block: Block, stack: Join | None, lanes: Lanes
    ) -> Next | None:
        """Go on at every label that a lane chooses."""
        counts = scheduler.batch.counts
        counts.branches[self.number] += lanes.row_count
        chosen = np.broadcast_to(frame.views[self.index], (lanes.height, WARP))[lanes.rows]
        labels = np.asarray(block.successors[: len(block.successors) - self.has_guard])
        beyond, _ = split(lanes, chosen >= labels.size)
        if beyond is not None:
            what = f"brx.idx chooses a label beyond its table of {labels.size}"
            scheduler.batch.fail(self.number, "trap", what, beyond)
        targets = labels[np.minimum(chosen, labels.size - 1)]
        parts: list[tuple[int, Lanes]] = []
        ways = np.zeros(lanes.height, np.int64)
        for target in np.unique(lanes.flat(targets)):
            part, _ = split(lanes, targets == target)
            assert part is not None
            parts.append((int(target), part))
            ways[part.rows] += 1
        counts.divergent[self.number] += int((ways > 1).sum())
        if len(parts) == 1:
            return parts[0][0], stack, lanes
        diverge(scheduler, frame, stack, parts)
        return None


class Return:
    """``ret``: to the caller, or out of the kernel."""

    def __call__(
        self, scheduler: Scheduler, frame: Frame, block: Block, stack: Join | None, lanes: Lanes
    ) -> Next | None:
        """Leave the function."""
        scheduler.leave(frame, stack, lanes)
        return None


class Leave:
    """``exit``: out of the kernel, from any depth."""

    def __call__(
        self, scheduler: Scheduler, frame: Frame, block: Block, stack: Join | None, lanes: Lanes
    ) -> Next | None:
        """End."""
        scheduler.end(stack, lanes)
        return None


class Trap:
    """``trap``: the kernel aborts."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(
        self, scheduler: Scheduler, frame: Frame, block: Block, stack: Join | None, lanes: Lanes
    ) -> Next | None:
        """Raise."""
        scheduler.batch.fail(self.number, "trap", "the kernel executed a trap", lanes)
        return None


class Guarded:
    """A terminator under a predicate: the lanes that are off go to the next block."""

    def __init__(self, binder: Binder, instruction: Instruction, inner: Any) -> None:
        assert instruction.guard is not None
        self.predicate = binder.source(Register(instruction.guard.register), BOOL)
        self.is_negated = instruction.guard.is_negated
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __call__(
        self, scheduler: Scheduler, frame: Frame, block: Block, stack: Join | None, lanes: Lanes
    ) -> Next | None:
        """Run the terminator for the lanes whose predicate holds."""
        keep = frame.views[self.predicate][lanes.rows]
        on, off = split(lanes, ~keep if self.is_negated else keep)
        following = block.successors[-1]
        if on is None:
            return following, stack, lanes
        inner: Terminator = self.inner
        if off is None:
            return inner(scheduler, frame, block, stack, on)
        if isinstance(inner, Return | Leave | Trap):
            inner(scheduler, frame, block, stack, on)
            return following, stack, off
        scheduler.go(frame, following, stack, off)
        return inner(scheduler, frame, block, stack, on)
