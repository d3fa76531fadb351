"""Asynchronous matrix products of warpgroups: which are on their way, and who touches their accumulators early.

A product is computed at its issue. Until a wait its operands in shared memory are marked as being read and its
accumulators as in flight. A ``mov`` of an accumulator is no access: ptxas makes both registers one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator.attribution_ptx import registers, sources, writes_first
from kernellab.emulator.code import Step, Views
from kernellab.emulator.flow import family
from kernellab.emulator.in_flight import Flight
from kernellab.emulator.lanes import WARP, Lanes
from kernellab.emulator.ptx import Function, Instruction, Register
from kernellab.emulator.releases import GROUP

if TYPE_CHECKING:
    from kernellab.emulator.batch import Batch

Array = npt.NDArray[Any]
_NEVER = -1


class Warpgroups:
    """The products of a batch that are on their way."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.reset()

    def reset(self) -> None:
        """Forget everything, for the next blocks."""
        height = self.batch.height
        self.has_fence = np.zeros(height, np.bool_)
        self.committed = np.zeros(height, np.int64)
        self.finished = np.zeros(height, np.int64)
        self.groups: dict[str, npt.NDArray[np.int64]] = {}
        self.issuers: dict[str, int] = {}
        self.flights: list[tuple[int, int, Flight, int]] = []

    def start(self, number: int, accumulators: list[str], lanes: Lanes) -> None:
        """Note that these registers of some warps are in flight."""
        for name in accumulators:
            self._group(name)[lanes.rows] = self.committed[lanes.rows]
            self.issuers[name] = number

    def hold(self, row: int, flight: Flight) -> None:
        """Keep the read of an operand until the warp has waited for its group."""
        serial = self.batch.releases.read(flight.number, row, flight.starts)
        self.flights.append((row, int(self.committed[row]), flight, serial))

    def commit(self, lanes: Lanes) -> None:
        """``commit_group``."""
        self.committed[lanes.rows] += 1

    def wait(self, lanes: Lanes, allowed: int) -> None:
        """``wait_group``: at most so many of the latest groups may still be on their way."""
        done = self.committed[lanes.rows] - allowed
        self.finished[lanes.rows] = np.maximum(self.finished[lanes.rows], done)
        still = []
        for row, group, flight, serial in self.flights:
            if group < self.finished[row]:
                self.batch.in_flight.finish(flight)
                self.batch.releases.end(row, serial)
            else:
                still.append((row, group, flight, serial))
        self.flights = still

    def check(self, number: int, names: list[str], lanes: Lanes) -> None:
        """Complain about accumulators that are read before they are waited for."""
        for name in names:
            group = self.groups.get(name)
            if group is None:
                continue
            early = np.flatnonzero(group[lanes.rows] >= self.finished[lanes.rows])
            if early.size:
                launch = self.batch.launch
                what = (
                    f"in flight: an accumulator of the wgmma at {launch.where(self.issuers[name])} is read "
                    "before it is waited for; call wgmma.commit_group and wgmma.wait_group first"
                )
                row = int(lanes.row_indexes()[early[0]])
                self.batch.complain(number, "in flight", what, row, 0, int(early.size))
                return

    def overwrite(self, names: list[str], source: str | None, lanes: Lanes) -> None:
        """Registers get a new value: another accumulator's if `source` names one."""
        origin = None if source is None else self.groups.get(source)
        for name in names:
            if origin is not None:
                assert source is not None
                self._group(name)[lanes.rows] = origin[lanes.rows]
                self.issuers[name] = self.issuers[source]
            elif name in self.groups:
                self.groups[name][lanes.rows] = _NEVER

    def _group(self, name: str) -> npt.NDArray[np.int64]:
        found = self.groups.get(name)
        if found is None:
            found = self.groups[name] = np.full(self.batch.height, _NEVER, np.int64)
        return found


def check_aligned(batch: Batch, number: int, lanes: Lanes, name: str = "wgmma") -> None:
    """Fail if only a part of a warp is at an instruction that takes whole warps, of whole warpgroups."""
    if lanes.mask is not None:
        what = f"divergent: only a part of a warp is at a {name} instruction, which all lanes must execute"
        batch.fail(number, "divergent", what, lanes)
    whole = batch.warps_per_block // GROUP * GROUP
    is_beyond = batch.warp_of_row[lanes.rows] >= whole
    if is_beyond.any():
        what = f"{name} needs the four warps of a warpgroup; the block has {batch.warps_per_block} warps"
        beyond = lanes.restricted(np.broadcast_to(is_beyond[:, None], (lanes.row_count, WARP)))
        batch.fail(number, "warpgroup", what, beyond)


def accumulators_of(function: Function) -> frozenset[str]:
    """Return the registers that may hold accumulators in flight: those of ``wgmma`` and their copies."""
    found: set[str] = set()
    copies: list[tuple[str, str]] = []
    for instruction in function.body:
        if instruction.opcode.startswith("wgmma.mma_async"):
            found.update(registers(instruction.operands[0]))
        elif family(instruction.opcode) == "mov":
            target, source = instruction.operands
            if isinstance(target, Register) and isinstance(source, Register):
                copies.append((source.name, target.name))
    size = -1
    while found and size != len(found):
        size = len(found)
        found |= {target for source, target in copies if source in found}
    return frozenset(found)


Watch = Callable[["Batch", Lanes], None]


def watch_of(instruction: Instruction, number: int, accumulators: frozenset[str]) -> Watch | None:
    """Return what looks whether accumulators that an instruction reads are in flight, and notes what it writes.

    None for an instruction that has to do with none.
    """
    if instruction.opcode.startswith("wgmma.mma_async") or not instruction.operands or not accumulators:
        return None
    targets = registers(instruction.operands[0]) if writes_first(instruction) else ()
    written = [name for name in targets if name in accumulators]
    read = [name for name in sources(instruction) if name in accumulators]
    if not written and not read:
        return None
    source = instruction.operands[1] if family(instruction.opcode) == "mov" else None
    moved = source.name if isinstance(source, Register) and source.name in accumulators else None

    def watch(batch: Batch, lanes: Lanes) -> None:
        if batch.warpgroups.groups:
            if moved is None and read:
                batch.warpgroups.check(number, read, lanes)
            if written:
                batch.warpgroups.overwrite(written, moved, lanes)

    return watch


def watched(step: Step, watch: Watch | None) -> Step:
    """Let a step look at accumulators first."""
    if watch is None:
        return step

    def run(views: Views, lanes: Lanes, batch: Batch) -> None:
        watch(batch, lanes)
        step(views, lanes, batch)

    return run
