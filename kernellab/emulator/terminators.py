"""The instructions that end a basic block: branches, returns, calls, barriers, warp-wide operations.

A terminator is called as ``terminator(scheduler, frame, block, stack, lanes)`` and says where the lanes go
on (block, stack, lanes), or returns None when it has handed them to the scheduler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator import warp_ops
from kernellab.emulator.batch import Batch, Frame
from kernellab.emulator.calls import Call
from kernellab.emulator.code import Binder
from kernellab.emulator.flow import EXIT, Block, family
from kernellab.emulator.lanes import WARP, Lanes, Mask, unpack
from kernellab.emulator.memory import SIGNED, UNSIGNED
from kernellab.emulator.ptx import TYPE_BYTES, Immediate, Instruction, Pair, Register
from kernellab.emulator.schedule import Join, Next, Scheduler, Waiter
from kernellab.errors import ExecutionError, UnsupportedPTXError

if TYPE_CHECKING:
    from kernellab.emulator.launch import Launch

Array = npt.NDArray[Any]
BOOL = np.dtype(np.bool_)
Terminator = Callable[[Scheduler, Frame, Block, "Join | None", Lanes], "Next | None"]


def bind_terminator(binder: Binder, block: Block, launch: Launch) -> Any:
    """Make the terminator of a block; None where it only falls through."""
    instruction = block.terminator
    if instruction is None:
        return None
    number = binder.code.first + instruction.index
    match family(instruction.opcode):
        case "bra":
            inner: Any = Branch(binder, instruction, number, launch)
            return inner
        case "brx":
            return IndexedBranch(binder, instruction, number)
        case "ret":
            inner = Return()
        case "exit":
            inner = Leave()
        case "trap":
            inner = Trap(number)
        case "call":
            inner = Call(binder, instruction, number, launch)
        case "bar" | "barrier":
            inner = bind_barrier(binder, instruction, number)
        case _:
            inner = bind_warp_operation(binder, instruction, number)
    if instruction.guard is not None:
        return Guarded(binder, instruction, inner)
    return inner


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
        keep = frame.views[self.predicate][lanes.rows]
        on, off = split(lanes, ~keep if self.is_negated else keep)
        following = block.successors[-1]
        if on is None:
            return following, stack, lanes
        if off is not None:
            scheduler.enqueue((frame, following, stack), off.row_indexes(), off.mask)
        result: Next | None = self.inner(scheduler, frame, block, stack, on)
        return result


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


class Branch:
    """``bra``: to a label, for all lanes or for those whose predicate holds."""

    def __init__(self, binder: Binder, instruction: Instruction, number: int, launch: Launch) -> None:
        guard = instruction.guard
        self.number = number
        self.predicate = binder.source(Register(guard.register), BOOL) if guard else None
        self.is_negated = guard is not None and guard.is_negated

    def __call__(
        self, scheduler: Scheduler, frame: Frame, block: Block, stack: Join | None, lanes: Lanes
    ) -> Next | None:
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
        return diverge(
            scheduler, frame, block, stack, lanes, [(block.successors[0], taken), (block.successors[1], rest)]
        )


def diverge(
    scheduler: Scheduler, frame: Frame, block: Block, stack: Join | None, lanes: Lanes,
    parts: list[tuple[int, Lanes]],
) -> Next | None:  # fmt: skip
    """Send parts of a fragment to different blocks, to meet at the block's join."""
    target = block.join
    if target != EXIT:
        is_joined = (
            stack is not None and stack.block == target and stack.frame is frame and not stack.is_return
        )
        if not is_joined:
            stack = scheduler.join(frame, target, stack)
            stack.expected[lanes.rows] |= lanes.full_mask()
    going = []
    for following, part in parts:
        if following == target and stack is not None and target != EXIT:
            scheduler.arrive(stack, part.row_indexes(), part.full_mask())
        else:
            going.append((following, part))
    for following, part in going[1:]:
        scheduler.enqueue((frame, following, stack), part.row_indexes(), part.mask)
    if not going:
        return None
    return going[0][0], stack, going[0][1]


class IndexedBranch:
    """``brx.idx``: to the label that a register chooses."""

    def __init__(self, binder: Binder, instruction: Instruction, number: int) -> None:
        self.number = number
        self.index = binder.source(instruction.operands[0], np.dtype(np.uint32))

    def __call__(
        self, scheduler: Scheduler, frame: Frame, block: Block, stack: Join | None, lanes: Lanes
    ) -> Next | None:
        counts = scheduler.batch.counts
        counts.branches[self.number] += lanes.row_count
        chosen = np.broadcast_to(frame.views[self.index], (lanes.height, WARP))[lanes.rows]
        parts: list[tuple[int, Lanes]] = []
        for value in np.unique(lanes.flat(chosen)):
            part, _ = split(lanes, chosen == value)
            assert part is not None
            parts.append((block.successors[int(value)], part))
        if len(parts) == 1:
            return parts[0][0], stack, lanes
        ways = sum(part.full_mask().any(axis=1).sum() for _, part in parts)
        several = np.zeros(lanes.height, np.int64)
        for _, part in parts:
            several[part.rows] += 1
        assert ways >= lanes.row_count
        counts.divergent[self.number] += int((several > 1).sum())
        return diverge(scheduler, frame, block, stack, lanes, parts)


class Return:
    """``ret``: to the caller, or out of the kernel."""

    def __call__(
        self, scheduler: Scheduler, frame: Frame, block: Block, stack: Join | None, lanes: Lanes
    ) -> Next | None:
        scheduler.leave(frame, stack, lanes)
        return None


class Leave:
    """``exit``: out of the kernel, from any depth."""

    def __call__(
        self, scheduler: Scheduler, frame: Frame, block: Block, stack: Join | None, lanes: Lanes
    ) -> Next | None:
        scheduler.end(stack, lanes)
        return None


class Trap:
    """``trap``: the kernel aborts."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(
        self, scheduler: Scheduler, frame: Frame, block: Block, stack: Join | None, lanes: Lanes
    ) -> Next | None:
        row = int(lanes.row_indexes()[0])
        column = int(np.flatnonzero(lanes.full_mask()[0])[0])
        scheduler.batch.complain(self.number, "trap", "the kernel executed a trap", row, column, lanes.count)
        raise ExecutionError(scheduler.batch.launch.diagnostics[-1].message)


# -- barriers of a block
def bind_barrier(binder: Binder, instruction: Instruction, number: int) -> Any:
    """Make ``bar`` or ``barrier``: of the warp, or one of the block's sixteen."""
    parts = instruction.opcode.replace("::", ".").split(".")
    if "warp" in parts:
        return WarpBarrier(binder, instruction, number)
    if "cluster" in parts:
        raise UnsupportedPTXError(f"{instruction.opcode}: clusters are not emulated yet")
    return BlockBarrier(binder, instruction, number, parts)


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
            assert isinstance(last, Register)
            self.is_negated = last.is_negated
            self.predicate = binder.source(Register(last.name), BOOL)
        self.identity = binder.source(operands[0], UNSIGNED[4])
        self.threads = binder.source(operands[1], UNSIGNED[4]) if len(operands) > 1 else None

    def __call__(
        self, scheduler: Scheduler, frame: Frame, block: Block, stack: Join | None, lanes: Lanes
    ) -> Next | None:
        mask = lanes.full_mask()
        if self.is_aligned:
            self._check_aligned(scheduler, lanes, mask)
        threads = 0
        if self.threads is not None:
            threads = int(_first(frame.views[self.threads], lanes))
        following = block.successors[-1]
        identities = np.broadcast_to(frame.views[self.identity], (lanes.height, WARP))[lanes.rows]
        for identity in np.unique(lanes.flat(identities)):
            part, _ = split(lanes, identities == identity)
            assert part is not None
            waiter = Waiter(frame, block, stack, part.row_indexes(), part.full_mask())
            scheduler.wait(int(identity), threads, waiter, blocks_on=not self.is_arrive)
        if self.is_arrive:
            return following, stack, lanes
        return None

    def _check_aligned(self, scheduler: Scheduler, lanes: Lanes, mask: Mask) -> None:
        live = scheduler.live[lanes.rows]
        absent = live & ~mask
        if not absent.any():
            return
        row, column = (int(v[0]) for v in np.nonzero(absent))
        missing = np.flatnonzero(absent[row])
        warp = int(lanes.row_indexes()[row])
        threads = scheduler.batch.linear[warp, missing]
        what = (
            f"divergent barrier: threads {_ranges(threads)} of the warp are not there, the others wait; "
            "move the barrier out of the branch"
        )
        scheduler.batch.complain(self.number, "divergent barrier", what, warp, column, int(absent.sum()))

    def finish(self, batch: Batch, waiter: Waiter, reached: Mask) -> None:
        """Give every thread the result of ``bar.red``."""
        if self.target is None:
            return
        assert self.predicate is not None
        views = waiter.frame.views
        votes = views[self.predicate] != self.is_negated
        by_block = (votes & reached).reshape(batch.blocks, -1)
        there = reached.reshape(batch.blocks, -1)
        if self.reduction == "popc":
            result: Array = by_block.sum(axis=1, dtype=np.uint32)
        elif self.reduction == "or":
            result = by_block.any(axis=1)
        else:
            result = (by_block == there).all(axis=1)
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
        parts.append(f"{run[0]}-{run[-1]}" if run.size > 1 else f"{run[0]}")
    return ", ".join(parts)


# -- operations of a warp
class WarpOperation:
    """An operation whose lanes wait for the members that they name.

    Parameters
    ----------
    members : int or None
        Slot of the member mask; None for the old forms without ``.sync``: whoever is there.
    """

    def __init__(self, binder: Binder, instruction: Instruction, number: int, members: Any) -> None:
        self.number = number
        self.is_everyone = isinstance(members, Immediate) and members.value & 0xFFFFFFFF == 0xFFFFFFFF
        self.members = None if members is None else binder.source(members, UNSIGNED[4])

    def __call__(
        self, scheduler: Scheduler, frame: Frame, block: Block, stack: Join | None, lanes: Lanes
    ) -> Next | None:
        if self.members is not None and not (self.is_everyone and lanes.mask is None):
            there = lanes.bits()
            can_go = self.complete(scheduler, frame, lanes, there)
            if not (can_go | ~lanes.full_mask()).all():
                scheduler.park(Waiter(frame, block, stack, lanes.row_indexes(), lanes.full_mask()))
                return None
        self.execute(scheduler, frame, lanes)
        return block.successors[-1], stack, lanes

    def member_bits(self, frame: Frame, lanes: Lanes) -> Array:
        """Return every lane's member mask, shape (R, 32)."""
        if self.members is None:
            return np.broadcast_to(lanes.bits()[:, None], (lanes.row_count, WARP))
        value = np.broadcast_to(frame.views[self.members], (lanes.height, WARP))
        part: Array = value[lanes.rows]
        return part

    def complete(self, scheduler: Scheduler, frame: Frame, lanes: Lanes, there: Array) -> Mask:
        """Say which lanes have all their living members among the lanes `there`, a bit mask a warp."""
        from kernellab.emulator.lanes import pack

        live = pack(scheduler.live[lanes.rows])
        missing = self.member_bits(frame, lanes) & (live & ~there)[:, None]
        found: Mask = (missing == 0) & lanes.full_mask()
        return found

    def execute(self, scheduler: Scheduler, frame: Frame, lanes: Lanes) -> None:
        """Compute for lanes that are all there."""
        members = self.member_bits(frame, lanes)
        own = np.uint32(1) << np.arange(WARP, dtype=np.uint32)
        outside = lanes.full_mask() & ((members & own) == 0)
        if outside.any():
            row, column = (int(v[0]) for v in np.nonzero(outside))
            what = f"a lane executes an operation of a warp whose member mask {members[row, column]:#010x} lacks it"
            scheduler.batch.complain(
                self.number, "absent lane", what, int(lanes.row_indexes()[row]), column, int(outside.sum())
            )
        self.compute(scheduler.batch, frame, lanes, members)

    def compute(self, batch: Batch, frame: Frame, lanes: Lanes, members: Array) -> None:
        """Write the results."""

    def finish(self, batch: Batch, waiter: Waiter, reached: Mask) -> None:
        """Nothing to do: not a barrier of a block."""


class WarpBarrier(WarpOperation):
    """``bar.warp.sync``."""

    def __init__(self, binder: Binder, instruction: Instruction, number: int) -> None:
        super().__init__(binder, instruction, number, instruction.operands[0])

    def compute(self, batch: Batch, frame: Frame, lanes: Lanes, members: Array) -> None:
        if batch.races is not None:
            batch.races.warp_barrier(lanes)


class Shuffle(WarpOperation):
    """``shfl``."""

    def __init__(self, binder: Binder, instruction: Instruction, number: int, is_sync: bool) -> None:
        operands = instruction.operands
        super().__init__(binder, instruction, number, operands[4] if is_sync else None)
        self.mode = next(p for p in instruction.opcode.split(".") if p in ("up", "down", "bfly", "idx"))
        first = operands[0]
        target, predicate = (first.first, first.second) if isinstance(first, Pair) else (first, None)
        self.target = binder.target(target, UNSIGNED[4])
        self.predicate = None if predicate is None else binder.target(predicate, BOOL)
        self.value, self.offset, self.clamp = (binder.source(each, UNSIGNED[4]) for each in operands[1:4])

    def compute(self, batch: Batch, frame: Frame, lanes: Lanes, members: Array) -> None:
        shape = (lanes.height, WARP)
        value, offset, clamp = (
            np.broadcast_to(frame.views[slot], shape)[lanes.rows]
            for slot in (self.value, self.offset, self.clamp)
        )
        result, is_inside, source = warp_ops.shuffle(
            self.mode, value, offset.astype(np.int64), clamp.astype(np.int64)
        )
        if lanes.mask is not None:
            absent = lanes.mask & ~np.take_along_axis(lanes.mask, source, axis=1)
            if absent.any():
                row, column = (int(v[0]) for v in np.nonzero(absent))
                what = f"shuffle reads lane {int(source[row, column])}, which is absent: its value is undefined"
                warp = int(lanes.row_indexes()[row])
                batch.complain(
                    self.number, "absent lane", what, warp, column, int(absent.sum()), is_error=False
                )
        if self.target is not None:
            lanes.put(frame.views[self.target], result)
        if self.predicate is not None:
            lanes.put(frame.views[self.predicate], is_inside)


class Vote(WarpOperation):
    """``vote``."""

    def __init__(self, binder: Binder, instruction: Instruction, number: int, is_sync: bool) -> None:
        operands = instruction.operands
        super().__init__(binder, instruction, number, operands[2] if is_sync else None)
        self.mode = next(p for p in instruction.opcode.split(".") if p in ("all", "any", "uni", "ballot"))
        self.target = binder.target(operands[0], UNSIGNED[4] if self.mode == "ballot" else BOOL)
        source = operands[1]
        self.is_negated = isinstance(source, Register) and source.is_negated
        if isinstance(source, Register):
            source = Register(source.name)
        self.predicate = binder.source(source, BOOL)

    def compute(self, batch: Batch, frame: Frame, lanes: Lanes, members: Array) -> None:
        votes = np.broadcast_to(frame.views[self.predicate], (lanes.height, WARP))[lanes.rows]
        votes = (votes != self.is_negated) & lanes.full_mask()
        members = members & lanes.bits()[:, None]
        if self.target is not None:
            lanes.put(frame.views[self.target], warp_ops.vote(self.mode, votes, members))


class Match(WarpOperation):
    """``match``."""

    def __init__(self, binder: Binder, instruction: Instruction, number: int) -> None:
        operands = instruction.operands
        super().__init__(binder, instruction, number, operands[2])
        parts = instruction.opcode.split(".")
        self.mode = "all" if "all" in parts else "any"
        first = operands[0]
        target, predicate = (first.first, first.second) if isinstance(first, Pair) else (first, None)
        self.target = binder.target(target, UNSIGNED[4])
        self.predicate = None if predicate is None else binder.target(predicate, BOOL)
        self.value = binder.source(operands[1], UNSIGNED[TYPE_BYTES[parts[-1]]])

    def compute(self, batch: Batch, frame: Frame, lanes: Lanes, members: Array) -> None:
        values = np.broadcast_to(frame.views[self.value], (lanes.height, WARP))[lanes.rows]
        found, is_all = warp_ops.match(self.mode, values, members & lanes.bits()[:, None])
        if self.target is not None:
            lanes.put(frame.views[self.target], found)
        if self.predicate is not None:
            lanes.put(frame.views[self.predicate], is_all)


class Reduce(WarpOperation):
    """``redux``."""

    def __init__(self, binder: Binder, instruction: Instruction, number: int) -> None:
        operands = instruction.operands
        super().__init__(binder, instruction, number, operands[2])
        parts = instruction.opcode.split(".")
        self.mode = next(p for p in parts if p in ("add", "min", "max", "and", "or", "xor"))
        dtype = SIGNED[4] if parts[-1] == "s32" else UNSIGNED[4]
        if parts[-1] == "f32":
            dtype = np.dtype(np.float32)
        self.target = binder.target(operands[0], dtype)
        self.value = binder.source(operands[1], dtype)

    def compute(self, batch: Batch, frame: Frame, lanes: Lanes, members: Array) -> None:
        values = np.broadcast_to(frame.views[self.value], (lanes.height, WARP))[lanes.rows]
        if self.target is not None:
            found = warp_ops.reduce(self.mode, values, members & lanes.bits()[:, None])
            lanes.put(frame.views[self.target], found)


class Elect(WarpOperation):
    """``elect.sync``."""

    def __init__(self, binder: Binder, instruction: Instruction, number: int) -> None:
        first, members = instruction.operands
        super().__init__(binder, instruction, number, members)
        assert isinstance(first, Pair)
        self.target = binder.target(first.first, UNSIGNED[4])
        self.predicate = binder.target(first.second, BOOL)

    def compute(self, batch: Batch, frame: Frame, lanes: Lanes, members: Array) -> None:
        leader, is_leader = warp_ops.elect(members & lanes.bits()[:, None])
        if self.target is not None:
            lanes.put(frame.views[self.target], leader)
        if self.predicate is not None:
            lanes.put(frame.views[self.predicate], is_leader)


def bind_warp_operation(binder: Binder, instruction: Instruction, number: int) -> WarpOperation:
    """Make ``shfl``, ``vote``, ``match``, ``redux`` or ``elect``."""
    parts = instruction.opcode.split(".")
    is_sync = "sync" in parts
    match parts[0]:
        case "shfl":
            return Shuffle(binder, instruction, number, is_sync)
        case "vote":
            return Vote(binder, instruction, number, is_sync)
        case "match":
            return Match(binder, instruction, number)
        case "redux":
            return Reduce(binder, instruction, number)
        case "elect":
            return Elect(binder, instruction, number)
    raise UnsupportedPTXError(f"{instruction.opcode} is not known to the emulator")


__all__ = ["Terminator", "bind_terminator", "split", "unpack"]
