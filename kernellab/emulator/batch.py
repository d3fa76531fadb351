"""A batch of warps that runs together: its registers, its memory, its counters, its complaints."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator import counting
from kernellab.emulator.async_copy import AsyncCopies
from kernellab.emulator.bulk_groups import BulkGroups
from kernellab.emulator.clusters import RemoteAccesses, split_address
from kernellab.emulator.code import Code
from kernellab.emulator.counts import Counts
from kernellab.emulator.flow import Block
from kernellab.emulator.frame import Frame
from kernellab.emulator.in_flight import InFlight
from kernellab.emulator.landings import Landings
from kernellab.emulator.lanes import WARP, Lanes
from kernellab.emulator.mbarriers import MBarriers
from kernellab.emulator.memory import Fault, OwnedMemory
from kernellab.emulator.proxies import Proxies
from kernellab.emulator.releases import Releases
from kernellab.emulator.specials import special_values
from kernellab.emulator.warpgroups import Warpgroups
from kernellab.errors import ExecutionError

if TYPE_CHECKING:
    from kernellab.emulator.launch import Launch

Array = npt.NDArray[Any]
Int64 = npt.NDArray[np.int64]
_EVERY_LANE = np.ones((1, WARP), np.bool_)
MAX_DEPTH = 1024
"""Calls inside calls."""
MAX_SECONDS = 10.0
"""Processor time that one wave of blocks may take where no budget is given..."""
LEAST_STEPS = 1 << 16
"""...once it has executed this many instructions."""


class Batch:
    """Several blocks of a launch, executed together.

    Parameters
    ----------
    launch : Launch
    blocks : int
        How many blocks the batch holds.
    """

    def __init__(self, launch: Launch, blocks: int) -> None:
        self.launch = launch
        self.blocks = blocks
        threads = launch.threads
        self.warps_per_block = -(-threads // WARP)
        self.height = blocks * self.warps_per_block
        self.block_of_row = np.repeat(np.arange(blocks), self.warps_per_block)
        self.warp_of_row = np.tile(np.arange(self.warps_per_block), blocks)
        self.linear = (self.warp_of_row[:, None] * WARP + np.arange(WARP)[None, :]).astype(np.int64)
        self.initial = self.linear < threads
        self.owner_of_lane = np.broadcast_to(self.block_of_row[:, None], (self.height, WARP))
        self.thread_of_lane = np.arange(self.height * WARP).reshape(self.height, WARP)
        self.specials: dict[str, Array] = {}
        self.frames: dict[tuple[int, int, int], Frame] = {}
        self.shared = OwnedMemory("shared", blocks, launch.shared_bytes, tracks_writes=True)
        self.local = OwnedMemory("local", self.height * WARP, launch.local_bytes)
        self.block_ids = np.zeros(blocks, np.int64)
        self.counts: Counts = launch.counts
        self.races = launch.new_races(self)
        self.in_flight = InFlight(self)
        self.async_copies = AsyncCopies(self)
        self.mbarriers = MBarriers(self)
        self.bulk = BulkGroups(self)
        self.warpgroups = Warpgroups(self)
        self.proxies = Proxies(self)
        self.releases = Releases(self)
        self.landings = Landings(self)
        self.remote = RemoteAccesses(self)
        self.steps = 0
        self.started = 0.0
        self.current_number = 0

    def start(self, block_ids: npt.NDArray[np.int64], counts: Counts) -> None:
        """Begin the next blocks: their numbers in the grid, x fastest."""
        self.block_ids = block_ids
        self.counts = counts
        self.shared.reset()
        if self.local.size:
            self.local.reset()
        for name, storage in self.specials.items():
            if "ctaid" in name or name.startswith(("%smid", "%clusterid")):
                storage[...] = special_values(self, name)
        if self.races is not None:
            self.races.reset()
        self.in_flight.reset()
        self.async_copies.reset()
        self.mbarriers.reset()
        self.warpgroups.reset()
        self.proxies.reset()
        self.releases.reset()
        self.landings.reset()
        self.steps = 0

    # -- registers
    def frame(self, code: Code, depth: int, local_base: int) -> Frame:
        """Return the frame of a function at a depth of calls; made on first use."""
        key = (code.first, depth, local_base)
        found = self.frames.get(key)
        if found is None:
            if depth > MAX_DEPTH:
                raise ExecutionError(
                    f"{self.launch.name}: calls are {depth} deep, the emulator's limit is {MAX_DEPTH}; "
                    "does the recursion end?"
                )
            if local_base + code.local_bytes > self.local.size:
                self._grow_local(local_base + code.local_bytes)
            found = self.frames[key] = Frame(self, code, depth, local_base)
        return found

    def _grow_local(self, nbytes: int) -> None:
        old = self.local
        if nbytes > 1 << 20:
            raise ExecutionError(
                f"{self.launch.name}: a thread's stack passed {1 << 20} bytes of local memory; "
                "the recursion does not end"
            )
        self.local = OwnedMemory("local", self.height * WARP, max(2 * old.size, nbytes))
        if old.size:
            rows = self.height * WARP
            self.local.data.reshape(rows, -1)[:, : old.pitch] = old.data.reshape(rows, -1)

    def special(self, name: str) -> Array:
        """Return the storage of a special register."""
        found = self.specials.get(name)
        if found is None:
            values = np.asarray(special_values(self, name))
            wide = name in ("%clock64", "%globaltimer", "%gridid", "%current_graph_exec")
            found = np.zeros((self.height, WARP), np.uint64 if wide else np.uint32)
            found[...] = values
            self.specials[name] = found
        return found

    # -- memory
    def load(
        self, space: str, lanes: Lanes, flat: Int64, width: int, count: int, faults: list[Fault]
    ) -> list[Array]:
        """Read `count` elements at each flat address of a space."""
        if space == "global":
            return self.launch.memory.load(flat, width, count, faults)
        memory = self.shared if space == "shared" else self.local
        if space == "shared":
            self._touch(lanes, flat, width * count, "load")
        return memory.load(*self._owners(space, lanes, flat), width, count, faults)

    def store(
        self, space: str, lanes: Lanes, flat: Int64, width: int, values: list[Array], faults: list[Fault]
    ) -> None:
        """Write elements at each flat address of a space."""
        if space == "global":
            self.launch.memory.store(flat, width, values, faults)
            return
        memory = self.shared if space == "shared" else self.local
        if space == "shared":
            self._touch(lanes, flat, width * len(values), "store")
        memory.store(*self._owners(space, lanes, flat), width, values, faults)

    def update(
        self, space: str, lanes: Lanes, flat: Int64, width: int,
        apply: Callable[[Array, Array, Any], Array], faults: list[Fault],
    ) -> Array:  # fmt: skip
        """Read-modify-write at each flat address of a space."""
        if space == "global":
            return self.launch.memory.update(flat, width, apply, faults)
        memory = self.shared if space == "shared" else self.local
        if space == "shared":
            self._touch(lanes, flat, width, "atomic")
        return memory.update(*self._owners(space, lanes, flat), width, apply, faults)

    def _touch(self, lanes: Lanes, flat: Int64, nbytes: int, operation: str) -> None:
        """Show an access to shared memory to those who look for races and for what is in flight."""
        if self.races is not None:
            self.races.access(lanes, flat, nbytes, operation)
        if self.in_flight.count:
            self.in_flight.check(self.current_number, lanes, flat, nbytes, operation)
        if self.landings.is_used:
            self.landings.touch(self.current_number, lanes, flat, nbytes, operation)
        if self.proxies.is_used and operation != "load":
            self.proxies.store(self.current_number, lanes, flat, nbytes)

    def owners(self, lanes: Lanes, flat: Int64) -> tuple[Array, Int64]:
        """Return whose block the shared addresses of active lanes are in, and the addresses there."""
        own = lanes.flat(self.owner_of_lane[lanes.rows])
        blocks, local = split_address(self, own, flat)
        if blocks is not own:
            self.remote.note(lanes, own, blocks)
        return blocks, local

    def _owners(self, space: str, lanes: Lanes, flat: Int64) -> tuple[Array, Int64]:
        if space == "shared":
            return self.owners(lanes, flat)
        return lanes.flat(self.thread_of_lane[lanes.rows]), flat

    def changed(self) -> None:
        """Note that an atomic changed something."""
        self.launch.memory.version += 1

    @property
    def version(self) -> int:
        """Grows whenever memory may have changed."""
        return self.launch.memory.version + self.shared.version + self.local.version

    def atomic_order(self, count: int) -> npt.NDArray[np.intp] | None:
        """Return the order in which lanes of one atomic are served; None for lane order."""
        generator = self.launch.generator
        return None if generator is None else generator.permutation(count)

    # -- counting
    def count(self, number: int, space: str, operation: str, addresses: Int64, lanes: Lanes) -> None:
        """Count one access, as the SASS says that it is issued."""
        access = self.launch.accesses.get(number)
        if access is None:
            return
        mask = lanes.mask
        if mask is None:
            mask = np.broadcast_to(_EVERY_LANE, (lanes.row_count, WARP))
        if access.is_aggregated:
            mask = _elected(mask, access.is_full_warp_only)
        key = (number, space, operation)
        if access.is_loop and space == "shared":
            self._count_loop(number, addresses, mask, access.width, lanes)
            return
        for offset, width in ((access.offset, access.width), *access.more):
            where = addresses + offset if offset else addresses
            cost = self._cost(space, operation, where, mask, width, number)
            requests = lanes.row_count if lanes.mask is None else int(np.count_nonzero(mask.any(axis=1)))
            if space == "local":
                requests *= counting.local_requests(width)
            self.counts.add_access(key, (requests, *cost, lanes.count))

    def _cost(
        self,
        space: str,
        operation: str,
        addresses: Int64,
        mask: npt.NDArray[np.bool_],
        width: int,
        number: int,
    ) -> tuple[int, int, int]:
        """Return sectors or wavefronts, lines or conflicts, and the ideal of the first."""
        if space == "shared":
            access = self.launch.accesses[number]
            if operation == "load" or access.is_hardware_aggregated:
                shared = counting.shared_load(addresses, mask, width)
            elif operation == "store":
                shared = counting.shared_store(addresses, mask, width)
            elif number in self.launch.swaps:
                shared = counting.shared_cas(addresses, mask, width)
            else:
                is_float_add = number in self.launch.float_adds
                shared = counting.shared_atomic(addresses, mask, width, is_float_add)
            units, second = int(shared.wavefronts.sum()), int(shared.bank_conflicts.sum())
            return units, second, units - second
        if space == "local":
            found = counting.local_access(addresses, mask, width)
        elif operation == "atomic":
            found = counting.global_atomic(addresses, mask, width)
        else:
            found = counting.global_access(addresses, mask, width)
        return int(found.sectors.sum()), int(found.lines.sum()), int(found.ideal_sectors.sum())

    def _count_loop(
        self, number: int, addresses: Int64, mask: npt.NDArray[np.bool_], width: int, lanes: Lanes
    ) -> None:
        """Count an atomic on shared memory that became a loop of load and compare-and-swap."""
        loop = counting.shared_cas_loop(addresses, mask, width)
        rounds, loaded = int(loop.rounds.sum()), int(loop.load_wavefronts.sum())
        conflicts, swapped = int(loop.load_bank_conflicts.sum()), int(loop.wavefronts.sum())
        self.counts.add_access(
            (number, "shared", "load"), (rounds, loaded, conflicts, loaded - conflicts, lanes.count)
        )
        self.counts.add_access((number, "shared", "atomic"), (rounds, swapped, 0, swapped, lanes.count))

    # -- complaints
    def check_budget(self, frame: Frame, block: Block, lanes: Lanes) -> None:
        """Stop a wave of blocks that does not come to its end."""
        budget = self.launch.budget
        if budget is None:
            seconds = time.process_time() - self.started
            if self.steps < LEAST_STEPS or seconds < MAX_SECONDS:
                return
            spent = f"{self.steps} instructions in {seconds:.0f} seconds"
        elif self.steps <= budget:
            return
        else:
            spent = f"more than {budget} instructions"
        instruction = block.terminator or frame.code.function.body[block.start]
        what = (
            f"instruction budget: {spent} in one wave of blocks, which has not ended; an endless loop? "
            "If not, pass a larger budget="
        )
        self.fail(frame.code.first + instruction.index, "instruction budget", what, lanes)

    def fail(self, number: int, kind: str, what: str, lanes: Lanes) -> None:
        """Complain about the first of some lanes, and end the launch."""
        row, column = np.argwhere(lanes.full_mask())[0].tolist()
        self.complain(number, kind, what, int(lanes.row_indexes()[row]), column, lanes.count)
        self.raise_last()

    def block_name(self, block: int) -> str:
        """Return the index in the grid of a block of the batch, as text."""
        x, y, _ = self.launch.grid
        number = int(self.block_ids[block])
        return f"({number % x}, {number // x % y}, {number // (x * y)})"

    def raise_last(self) -> None:
        """Raise the latest diagnostic, of which the first may be the cause."""
        first, latest = self.launch.diagnostics[0], self.launch.diagnostics[-1]
        before = "" if first is latest else f"; before that: {first}"
        raise ExecutionError(f"{latest}{before}")

    def report(self, number: int, operation: str, space: str, lanes: Lanes, faults: list[Fault]) -> None:
        """Turn the faults of an access into diagnostics."""
        rows, columns = np.nonzero(lanes.full_mask())
        for fault in faults:
            row = int(lanes.row_indexes()[rows[fault.positions[0]]])
            column = int(columns[fault.positions[0]])
            if fault.kind == "unwritten":
                what = f"read of unwritten {space} memory, {fault.note}"
                kind, is_error = f"unwritten {space} memory", False
            else:
                what = f"{fault.kind} {space} {operation}: {fault.note}"
                kind, is_error = fault.kind, True
            self.complain(number, kind, what, row, column, fault.positions.size, is_error)

    def complain(
        self, number: int, kind: str, what: str, row: int, column: int, count: int = 1, is_error: bool = True
    ) -> None:
        """Add a diagnostic about the lane (row, column) at an instruction."""
        thread = tuple(int(self.special(f"%tid.{axis}")[row, column]) for axis in "xyz")
        block = tuple(int(self.special(f"%ctaid.{axis}")[row, column]) for axis in "xyz")
        self.launch.complain(number, kind, what, block, thread, count, is_error)


def _elected(mask: npt.NDArray[np.bool_], full_warps_only: bool) -> npt.NDArray[np.bool_]:
    """Keep the lane of each warp that acts for all: the first that is on."""
    kept = np.zeros(mask.shape, np.bool_)
    rows = np.arange(mask.shape[0])
    kept[rows, mask.argmax(axis=1)] = mask.any(axis=1)
    if full_warps_only:
        partial = ~mask.all(axis=1)
        kept[partial] = mask[partial]
    return kept
