"""From a PTX instruction to its step: who handles which opcode."""

from __future__ import annotations

import numpy as np

from kernellab.emulator.access import bind_load, bind_store
from kernellab.emulator.async_copy import bind_async_copy
from kernellab.emulator.atomic_access import bind_atomic
from kernellab.emulator.batch import Batch
from kernellab.emulator.bulk_copies import bind_bulk
from kernellab.emulator.clusters import bind_map_address, bind_rank
from kernellab.emulator.code import Binder, Step, Views
from kernellab.emulator.flow import family
from kernellab.emulator.generic import bind_convert_address, bind_is_space
from kernellab.emulator.lanes import Lanes
from kernellab.emulator.mbarrier_steps import bind_mbarrier
from kernellab.emulator.memory import UNSIGNED
from kernellab.emulator.ptx import Instruction, Register, Special
from kernellab.emulator.steps import bind_data, bind_move, guarded, sequence_step
from kernellab.emulator.warpgroups import check_aligned, watch_of, watched
from kernellab.emulator.wgmma import bind_wgmma
from kernellab.errors import UnsupportedPTXError

_HINTS = {
    "membar", "fence", "prefetch", "prefetchu", "discard", "applypriority", "nanosleep", "griddepcontrol",
    "pmevent", "brkpt",
}  # fmt: skip
"""Instructions without an effect on values: ordering (memory here is always in order), hints, waiting."""
_ORDERS = {"acquire", "release", "acq_rel"}
_ORDERED = ("ld", "st", "atom", "red")

_CLOCKS = ("%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi")


def bind_instruction(binder: Binder, instruction: Instruction) -> Step:
    """Make the step of an instruction that does not end a block.

    Raises
    ------
    UnsupportedPTXError
        For an opcode or an operand that the emulator does not know.
    """
    number = binder.code.first + instruction.index
    step = _unguarded(binder, instruction)
    if _ORDERS.intersection(instruction.opcode.split(".")) and family(instruction.opcode) in _ORDERED:
        step = sequence_step([_fence, step, _fence])
    step = watched(step, watch_of(instruction, number, binder.accumulators))
    if instruction.guard is None:
        return step
    predicate = binder.source(Register(instruction.guard.register), np.dtype(np.bool_))
    return guarded(step, predicate, instruction.guard.is_negated, binder.code.first + instruction.index)


def _unguarded(binder: Binder, instruction: Instruction) -> Step:
    name = family(instruction.opcode)
    if instruction.opcode.startswith("fence.proxy.async") and "global" not in instruction.opcode:
        return _proxy_fence
    if name in ("membar", "fence") and "proxy" not in instruction.opcode and "init" not in instruction.opcode:
        return _fence
    if name in _HINTS:
        return _nothing
    match name:
        case "ld" | "ldu":
            return bind_load(binder, instruction)
        case "st":
            return bind_store(binder, instruction)
        case "atom" | "red":
            return bind_atomic(binder, instruction)
        case "cp" if "bulk" in instruction.opcode.split("."):
            return bind_bulk(binder, instruction)
        case "cp":
            return bind_async_copy(binder, instruction)
        case "cvta":
            return bind_convert_address(binder, instruction)
        case "wgmma":
            return bind_wgmma(binder, instruction)
        case "mbarrier":
            return bind_mbarrier(binder, instruction)
        case "mapa":
            return bind_map_address(binder, instruction)
        case "getctarank":
            return bind_rank(binder, instruction)
        case "setmaxnreg":
            number = binder.code.first + instruction.index
            return lambda _, lanes, batch: check_aligned(batch, number, lanes, name)
        case "isspacep":
            return bind_is_space(binder, instruction)
        case "activemask":
            return _active_mask(binder, instruction)
        case "createpolicy":
            return _nothing
        case "mov":
            source = instruction.operands[1]
            if isinstance(source, Special) and source.name in _CLOCKS:
                return _clock(binder, instruction, source.name)
            return bind_move(binder, instruction)
    return bind_data(binder, instruction)


def _nothing(views: Views, lanes: Lanes, batch: Batch) -> None:
    """Do nothing."""


def _fence(views: Views, lanes: Lanes, batch: Batch) -> None:
    batch.landings.fence(lanes)


def _proxy_fence(views: Views, lanes: Lanes, batch: Batch) -> None:
    batch.proxies.fence(lanes)


def _active_mask(binder: Binder, instruction: Instruction) -> Step:
    target = binder.target(instruction.operands[0], UNSIGNED[4])
    if target is None:
        return _nothing

    def step(views: Views, lanes: Lanes, batch: Batch) -> None:
        lanes.put(views[target], lanes.bits()[:, None])

    return step


def _clock(binder: Binder, instruction: Instruction, name: str) -> Step:
    """Read a clock: it counts the instructions that the wave of blocks has executed."""
    width = 8 if name in ("%clock64", "%globaltimer") else 4
    target = binder.target(instruction.operands[0], UNSIGNED[width])
    if target is None:
        raise UnsupportedPTXError(f"`{instruction}`: no destination")
    is_high = name.endswith("_hi")

    def step(views: Views, lanes: Lanes, batch: Batch) -> None:
        batch.steps += 1
        ticks = batch.launch.ticks + batch.steps
        value = ticks >> 32 if is_high else ticks & ((1 << 8 * width) - 1)
        lanes.put(views[target], UNSIGNED[width].type(value))

    return step
