"""Warp-wide instructions: their lanes wait for the members that they name, then exchange values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator import warp_ops
from kernellab.emulator.batch import Batch
from kernellab.emulator.code import Binder
from kernellab.emulator.flow import Block
from kernellab.emulator.frame import Frame
from kernellab.emulator.joins import Join, Waiter
from kernellab.emulator.lanes import WARP, Lanes, Mask, pack
from kernellab.emulator.memory import SIGNED, UNSIGNED
from kernellab.emulator.ptx import TYPE_BYTES, Immediate, Instruction, Pair, Register
from kernellab.emulator.warpgroups import watch_of
from kernellab.errors import UnsupportedPTXError

if TYPE_CHECKING:
    from kernellab.emulator.schedule import Next, Scheduler

Array = npt.NDArray[Any]
BOOL = np.dtype(np.bool_)


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
        self.watch = watch_of(instruction, number, binder.accumulators)

    def __call__(
        self, scheduler: Scheduler, frame: Frame, block: Block, stack: Join | None, lanes: Lanes
    ) -> Next | None:
        """Compute at once if all members are there, else wait for them."""
        if self.members is not None and not self.is_everyone:
            self.complain_of_outsiders(scheduler, frame, lanes)
        if self.members is not None and not (self.is_everyone and lanes.mask is None):
            can_go = self.complete(scheduler, frame, lanes, lanes.bits())
            if np.count_nonzero(can_go) != lanes.count:
                scheduler.rendezvous.park(Waiter(frame, block, stack, lanes.row_indexes(), lanes.full_mask()))
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
        live = pack(scheduler.live[lanes.rows])
        missing = self.member_bits(frame, lanes) & (live & ~there)[:, None]
        found: Mask = (missing == 0) & lanes.full_mask()
        return found

    def complain_of_missing(self, scheduler: Scheduler, frame: Frame, lanes: Lanes) -> None:
        """Complain about members that live, but have not come."""
        live = pack(scheduler.live[lanes.rows])[:, None]
        missing = np.where(
            lanes.full_mask(), self.member_bits(frame, lanes) & live & ~lanes.bits()[:, None], 0
        )
        rows, columns = np.nonzero(missing)
        bits = int(missing[rows[0], columns[0]]) if rows.size else 0
        what = (
            f"the lanes {bits:#010x} are named in the member mask and are not there; "
            "take the mask with __ballot_sync before the branch"
        )
        row, column = (int(rows[0]), int(columns[0])) if rows.size else (0, 0)
        scheduler.batch.complain(
            self.number, "absent lane", what, int(lanes.row_indexes()[row]), column, rows.size, is_error=False
        )

    def complain_of_outsiders(self, scheduler: Scheduler, frame: Frame, lanes: Lanes) -> None:
        """Complain about lanes that their own member masks do not name."""
        members = self.member_bits(frame, lanes)
        own = np.uint32(1) << np.arange(WARP, dtype=np.uint32)
        outside = lanes.full_mask() & ((members & own) == 0)
        if not outside.any():
            return
        row, column = (int(v[0]) for v in np.nonzero(outside))
        what = (
            f"lane {column} executes an operation of a warp whose member mask "
            f"{int(members[row, column]):#010x} lacks it"
        )
        scheduler.batch.complain(
            self.number, "lane outside its mask", what, int(lanes.row_indexes()[row]), column,
            int(outside.sum()),
        )  # fmt: skip

    def execute(self, scheduler: Scheduler, frame: Frame, lanes: Lanes) -> None:
        """Compute for lanes that are all there."""
        if self.watch is not None:
            self.watch(scheduler.batch, lanes)
        self.compute(scheduler.batch, frame, lanes, self.member_bits(frame, lanes))

    def compute(self, batch: Batch, frame: Frame, lanes: Lanes, members: Array) -> None:
        """Write the results."""


class WarpBarrier(WarpOperation):
    """``bar.warp.sync``."""

    def __init__(self, binder: Binder, instruction: Instruction, number: int) -> None:
        super().__init__(binder, instruction, number, instruction.operands[0])

    def compute(self, batch: Batch, frame: Frame, lanes: Lanes, members: Array) -> None:
        """Note the barrier for the race detector."""
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
        """Exchange values."""
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
                what = (
                    f"shuffle reads lane {int(source[row, column])}, which is absent: its value is undefined"
                )
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
        """Vote."""
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
        """Compare values."""
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
        """Reduce values."""
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
        """Elect a lane."""
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
