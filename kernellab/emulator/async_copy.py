"""Ampere's asynchronous copies: ``cp.async`` from global to shared memory, in groups of each thread.

A copy reads global memory at its issue; its bytes are in flight until the thread that issued it waits for its
group, or somebody for an mbarrier to which the thread passed it on (`in_flight`). Other threads need a barrier behind that wait, which the race detector sees: a copy is a
store of its thread at the issue, since it may land at once, and again at the wait, since it may land late.

The machine executes it as LDGSTS. The hardware counter of global loads includes it, so its global side counts
as ``global_load``, of the lanes that read; ``async_copy_requests`` says how many of those requests are copies.
Its shared side is no ``shared_store``: the counters of shared stores know STS only, and how many wavefronts a
line takes on its way from L1 to shared memory is not a matter of the addresses alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator.access import addresses_of, aligned, bind_address
from kernellab.emulator.code import Binder, Step, Views
from kernellab.emulator.in_flight import Flight
from kernellab.emulator.lanes import WARP, Lanes
from kernellab.emulator.mbarrier_steps import bind_copy_arrival
from kernellab.emulator.memory import Fault
from kernellab.emulator.ptx import Immediate, Instruction, Operand, Register
from kernellab.errors import UnsupportedPTXError

if TYPE_CHECKING:
    from kernellab.emulator.batch import Batch

Array = npt.NDArray[Any]
_OPEN = np.iinfo(np.int32).max
"""The group of a copy that its thread has not committed yet: it is newer than all others."""


class AsyncCopies:
    """The copies of a batch that nobody has waited for, and the groups that its threads have committed."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.committed = np.zeros((batch.height, WARP), np.int32)
        self.pending: list[tuple[Flight, Array]] = []

    def reset(self) -> None:
        """Forget everything, for the next blocks."""
        self.committed[:] = 0
        self.pending.clear()

    def issue(self, flight: Flight) -> None:
        """Add copies to the open group of the threads that asked for them."""
        self._touch_shared(flight)
        self.pending.append((flight, np.full(flight.starts.size, _OPEN, np.int32)))

    def commit(self, lanes: Lanes) -> None:
        """``commit_group``: the open group of each lane becomes its newest one, also if it is empty."""
        number = np.full(self.committed.shape, _OPEN, np.int32)
        lanes.put(number, self.committed[lanes.rows])
        for flight, groups in self.pending:
            if groups.size and groups.max() == _OPEN:
                np.minimum(groups, number[flight.rows, flight.columns], out=groups)
        lanes.put(self.committed, self.committed[lanes.rows] + 1)

    def wait(self, lanes: Lanes, newest: int | None) -> None:
        """Wait until only the `newest` groups of each lane are in flight; None: until no copy is."""
        done = np.full(self.committed.shape, -1, np.int32)  # the newest group that has come
        lanes.put(done, np.array(_OPEN) if newest is None else self.committed[lanes.rows] - newest - 1)
        for flight in self._split(lambda flight, groups: groups <= done[flight.rows, flight.columns]):
            self._touch_shared(flight)
            self.batch.in_flight.finish(flight)

    def of_threads(self, rows: Array, columns: Array) -> list[Flight]:
        """Return the copies of some threads, for which others are to wait at an mbarrier."""
        is_theirs = np.zeros(self.committed.shape, np.bool_)
        is_theirs[rows, columns] = True
        found = self._split(lambda flight, _: is_theirs[flight.rows, flight.columns])
        for flight in found:
            self._touch_shared(flight)
        return found

    def _split(self, choose: Callable[[Flight, Array], Array]) -> list[Flight]:
        """Split flights into pieces that `choose` marks, which are returned, and others."""
        pending, self.pending = self.pending, []
        found = []
        for flight, groups in pending:
            if flight.has_ended:
                continue
            chosen = choose(flight, groups)
            if chosen.any() and not chosen.all():
                part, rest = self.batch.in_flight.split(flight, chosen)
                self.pending += [(part, groups[chosen]), (rest, groups[~chosen])]
                found.append(part)
                continue
            self.pending.append((flight, groups))
            if chosen.all():
                found.append(flight)
        return found

    def _touch_shared(self, flight: Flight) -> None:
        """Show the stores of a flight to the race detector."""
        batch = self.batch
        if batch.races is None:
            return
        batch.current_number = flight.number
        mask = np.zeros((batch.height, WARP), np.bool_)
        mask[flight.rows, flight.columns] = True
        rows = np.flatnonzero(mask.any(axis=1))
        addresses = flight.starts - batch.block_of_row[flight.rows] * batch.shared.pitch
        batch.races.access(Lanes.of(rows, mask[rows], batch.height), addresses, flight.nbytes, "store")


def bind_async_copy(binder: Binder, instruction: Instruction) -> Step:
    """Make the step of ``cp.async`` without ``bulk``."""
    parts = instruction.opcode.replace("::", ".").split(".")
    match parts[2]:
        case "ca" | "cg":
            return _bind_copy(binder, instruction, parts)
        case "commit_group":
            return lambda _, lanes, batch: batch.async_copies.commit(lanes)
        case "wait_all":
            return lambda _, lanes, batch: batch.async_copies.wait(lanes, None)
        case "mbarrier":
            return bind_copy_arrival(binder, instruction)
        case "wait_group":
            newest = instruction.operands[0]
            assert isinstance(newest, Immediate)
            return lambda _, lanes, batch: batch.async_copies.wait(lanes, newest.value)
    raise UnsupportedPTXError(f"{instruction.opcode} is not known to the emulator")


def _bind_copy(binder: Binder, instruction: Instruction, parts: list[str]) -> Step:
    operands = list(instruction.operands)
    if "cache_hint" in parts:
        operands.pop()
    target, source, size, *others = operands
    assert isinstance(size, Immediate)
    nbytes = size.value
    if nbytes not in ((16,) if "cg" in parts else (4, 8, 16)):
        raise UnsupportedPTXError(f"{instruction.opcode} copies 4, 8 (.ca) or 16 bytes, not {nbytes}")
    to, to_offset = bind_address(binder, target)
    origin, origin_offset = bind_address(binder, source)
    read_size = _bind_read_size(binder, others[0], nbytes) if others else None
    number = binder.code.first + instruction.index

    def step_copy(views: Views, lanes: Lanes, batch: Batch) -> None:
        batch.current_number = number
        faults: list[Fault] = []
        flat = aligned(lanes.flat(addresses_of(views, to, to_offset, lanes)), nbytes, faults)
        inside = batch.shared.in_bounds(flat, nbytes, faults)
        if faults:
            batch.report(number, "store", "shared", lanes, faults)
        sizes = None if read_size is None else read_size(views, lanes)
        where = addresses_of(views, origin, origin_offset, lanes)
        values = _read(batch, number, where, lanes, nbytes, sizes)
        rows, columns = np.nonzero(lanes.full_mask())
        rows = lanes.row_indexes()[rows]
        starts = batch.block_of_row[rows] * batch.shared.pitch + flat
        if inside is not None:
            rows, columns, starts, values = rows[inside], columns[inside], starts[inside], values[inside]
        batch.async_copies.issue(batch.in_flight.write(number, rows, columns, starts, values))

    return step_copy


def _bind_read_size(binder: Binder, operand: Operand, nbytes: int) -> Any:
    """Return what gives the bytes that each lane reads, shape (R, 32), from src-size or ignore-src."""
    if isinstance(operand, Immediate) and operand.value == nbytes:
        return None
    is_predicate = isinstance(operand, Register) and binder.code.register_types[operand.name] == "pred"
    slot = binder.source(operand, np.dtype(np.bool_ if is_predicate else np.uint32))

    def read_size(views: Views, lanes: Lanes) -> Array:
        value = addresses_of(views, slot, 0, lanes)
        return np.where(value != 0, 0, nbytes) if is_predicate else value

    return read_size


def _read(
    batch: Batch, number: int, where: Array, lanes: Lanes, nbytes: int, sizes: Array | None
) -> npt.NDArray[np.uint8]:
    """Read the source of each active lane, shape (lanes, nbytes); what `sizes` leaves out is zero."""
    if sizes is None:
        batch.count(number, "global", "load", where, lanes)
        return _load(batch, number, where, lanes, nbytes, nbytes)
    readers = lanes.restricted(sizes > 0)
    if readers.count:
        batch.count(number, "global", "load", where, readers)
    values = np.zeros((lanes.count, nbytes), np.uint8)
    flat_sizes = lanes.flat(sizes)
    for size in np.unique(flat_sizes[flat_sizes > 0]).tolist():
        part = lanes.restricted(sizes == size)
        values[flat_sizes == size, :size] = _load(batch, number, where, part, nbytes, size)
    return values


def _load(
    batch: Batch, number: int, where: Array, lanes: Lanes, nbytes: int, size: int
) -> npt.NDArray[np.uint8]:
    """Read `size` bytes, at most `nbytes`, at addresses that are to be multiples of `nbytes`."""
    faults: list[Fault] = []
    flat = aligned(lanes.flat(where), nbytes, faults)
    if size > nbytes:
        note = f"src-size is {size}, and the copy has {nbytes} bytes"
        faults.append(Fault("copy size", np.arange(flat.size), note))
        size = nbytes
    width = next(each for each in (8, 4, 2, 1) if size % each == 0)
    values = batch.load("global", lanes, flat, width, size // width, faults)
    if faults:
        batch.report(number, "load", "global", lanes, faults)
    raw: npt.NDArray[np.uint8] = np.stack(values, axis=1).view(np.uint8)
    return raw
