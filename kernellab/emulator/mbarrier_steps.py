"""Steps of the ``mbarrier`` instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator.access import flat_source
from kernellab.emulator.code import Binder, Step, Views
from kernellab.emulator.lanes import Lanes
from kernellab.emulator.mbarriers import SIZE
from kernellab.emulator.memory import UNSIGNED
from kernellab.emulator.places import Address, by_place, lane_positions, one_lane
from kernellab.emulator.ptx import Immediate, Instruction, Operand
from kernellab.errors import UnsupportedPTXError

if TYPE_CHECKING:
    from kernellab.emulator.batch import Batch

Array = npt.NDArray[Any]


def bind_mbarrier(binder: Binder, instruction: Instruction) -> Step:
    """Make the step of an ``mbarrier`` instruction."""
    parts = instruction.opcode.replace("::", ".").split(".")
    operands = list(instruction.operands)
    number = binder.code.first + instruction.index
    space = "shared" if "shared" in parts else "generic"
    if parts[1] == "pending_count":
        return _pending_count(binder, operands)
    target = operands.pop(0) if parts[1] in ("arrive", "arrive_drop", "test_wait", "try_wait") else None
    address = Address(binder, operands[0], space, number)
    value = operands[1] if len(operands) > 1 else Immediate(1)
    match parts[1]:
        case "test_wait" | "try_wait":
            assert target is not None
            return _wait(binder, address, target, value, "parity" in parts)
        case "arrive" | "arrive_drop":
            assert target is not None
            expects = "expect_tx" in parts
            return _arrive(binder, address, target, value, expects, parts[1] == "arrive_drop")
        case "init" | "inval" | "expect_tx" | "complete_tx":
            return _change(binder, address, value, parts[1])
    raise UnsupportedPTXError(f"{instruction.opcode} is not known to the emulator")


def _wait(binder: Binder, address: Address, target: Operand, value: Operand, is_parity: bool) -> Step:
    """``test_wait`` and ``try_wait``: both look once; a loop around them lets the others run."""
    predicate = binder.target(target, np.dtype(np.bool_))
    phase = binder.source(value, UNSIGNED[4 if is_parity else 8])

    def step_wait(views: Views, lanes: Lanes, batch: Batch) -> None:
        places = address.places(views, lanes, batch, SIZE, SIZE, "an mbarrier")
        check_own(address.number, places, lanes, batch)
        phases = flat_source(views, phase, lanes)
        found = np.zeros(lanes.count, np.bool_)
        rows, _ = lane_positions(lanes)
        for where, positions, lane in by_place(lanes, places):
            for each in np.unique(phases[positions]).tolist():
                is_over = batch.mbarriers.is_complete(address.number, where, each, is_parity, lane)
                chosen = positions[phases[positions] == each]
                found[chosen] = is_over
                if is_over:
                    barrier, warps = batch.mbarriers.found[where], set(rows[chosen].tolist())
                    batch.releases.wait(barrier, warps)
                    batch.landings.wait(barrier, warps)
        if batch.remote.latest and found.any():
            batch.remote.waited(batch.block_of_row[rows[found]])
        if batch.races is not None and found.any():
            batch.races.waited(np.unique(rows[found]))
        if predicate is not None:
            lanes.put_flat(views[predicate], found)

    return step_wait


def check_own(number: int, places: Array, lanes: Lanes, batch: Batch) -> None:
    """Fail if the barriers at some places are not in the blocks of the lanes that name them."""
    rows, columns = lane_positions(lanes)
    is_remote = places // batch.shared.pitch != batch.block_of_row[rows]
    if is_remote.any():
        k = int(is_remote.argmax())
        what = (
            "an mbarrier of another block, at which a thread may arrive but not look; wait for one of its own"
        )
        batch.fail(number, "mbarrier", what, one_lane(lanes, int(rows[k]), int(columns[k])))


def _arrive(
    binder: Binder, address: Address, target: Operand, operand: Operand, expects: bool, drops: bool
) -> Step:
    """``arrive`` and ``arrive_drop``: `operand` is how often, or with `expects` the bytes to wait for."""
    result = binder.target(target, UNSIGNED[8])
    amount = binder.source(operand, UNSIGNED[4])

    def step_arrive(views: Views, lanes: Lanes, batch: Batch) -> None:
        places = address.places(views, lanes, batch, SIZE, SIZE, "an mbarrier")
        amounts = flat_source(views, amount, lanes).astype(np.int64)
        states = np.zeros(lanes.count, np.uint64)
        barriers = batch.mbarriers
        rows, _ = lane_positions(lanes)
        for where, positions, lane in by_place(lanes, places):
            barrier = barriers.at(address.number, where, lane)
            warps = set(rows[positions].tolist())
            batch.releases.arrive(barrier, warps)
            batch.landings.arrive(barrier, warps)
            counts = np.ones(positions.size, np.int64) if expects else amounts[positions]
            nbytes = amounts[positions] if expects else np.zeros(positions.size, np.int64)
            parts = [slice(None)]  # all at once, if the phase does not end in between
            if counts.sum() > barrier.pending:
                parts = [slice(k, k + 1) for k in range(positions.size)]
            for part in parts:
                state = barriers.arrive(
                    address.number, where, int(counts[part].sum()), lane, nbytes=int(nbytes[part].sum()),
                    drops=drops,
                )  # fmt: skip
                states[positions[part]] = state - (np.cumsum(counts[part]) - counts[part])
        if result is not None:
            lanes.put_flat(views[result], states)

    return step_arrive


def bind_copy_arrival(binder: Binder, instruction: Instruction) -> Step:
    """Make the step of ``cp.async.mbarrier.arrive``: a lane arrives once its copies so far have.

    Their bytes are in flight until somebody has waited for the barrier. Without ``.noinc`` the arrival is one that the phase expects on top of its own.
    """
    number = binder.code.first + instruction.index
    space = "shared" if ".shared" in instruction.opcode else "generic"
    address = Address(binder, instruction.operands[0], space, number)
    counts = ".noinc" in instruction.opcode

    def step_copy_arrival(views: Views, lanes: Lanes, batch: Batch) -> None:
        places = address.places(views, lanes, batch, SIZE, SIZE, "an mbarrier")
        rows, columns = lane_positions(lanes)
        for where, positions, lane in by_place(lanes, places):
            flights = batch.async_copies.of_threads(rows[positions], columns[positions])
            batch.mbarriers.hold(number, where, flights, lane)
            batch.landings.arrive(batch.mbarriers.at(number, where, lane), set(rows[positions].tolist()))
            if counts:
                batch.mbarriers.arrive(number, where, positions.size, lane)

    return step_copy_arrival


def _change(binder: Binder, address: Address, value: Operand, name: str) -> Step:
    """``init``, ``inval``, ``expect_tx`` and ``complete_tx``."""
    amount = binder.source(value, UNSIGNED[4])

    def step_change(views: Views, lanes: Lanes, batch: Batch) -> None:
        places = address.places(views, lanes, batch, SIZE, SIZE, "an mbarrier")
        amounts = flat_source(views, amount, lanes).astype(np.int64)
        barriers, number = batch.mbarriers, address.number
        for where, positions, lane in by_place(lanes, places):
            for each in amounts[positions].tolist():
                match name:
                    case "init":
                        barriers.make(number, where, each, lane)
                    case "inval":
                        barriers.remove(number, where, lane)
                    case "expect_tx":
                        barriers.expect(number, where, each, lane)
                    case _:
                        barriers.complete(number, where, each, lane)

    return step_change


def _pending_count(binder: Binder, operands: list[Operand]) -> Step:
    target = binder.target(operands[0], UNSIGNED[4])
    state = binder.source(operands[1], UNSIGNED[8])
    assert target is not None

    def step_pending_count(views: Views, lanes: Lanes, batch: Batch) -> None:
        lanes.put_flat(views[target], flat_source(views, state, lanes) & np.uint64(0xFFFFFFFF))

    return step_pending_count
