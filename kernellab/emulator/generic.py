"""Steps that convert and classify generic addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernellab.emulator.access import SPACES, WINDOWS
from kernellab.emulator.code import Binder, Step, Views
from kernellab.emulator.lanes import Lanes
from kernellab.emulator.memory import UNSIGNED, WINDOW_BITS
from kernellab.emulator.ptx import TYPE_BYTES, Instruction, Memory, Register
from kernellab.emulator.steps import copy_step
from kernellab.errors import UnsupportedPTXError

if TYPE_CHECKING:
    from kernellab.emulator.batch import Batch


def bind_convert_address(binder: Binder, instruction: Instruction) -> Step:
    """Make the step of ``cvta``: between a generic address and one inside a space."""
    parts = instruction.opcode.split(".")
    is_back = "to" in parts
    space = next(part for part in parts if part in SPACES)
    nbytes = TYPE_BYTES[parts[-1]]
    dtype = UNSIGNED[nbytes]
    target, source = instruction.operands
    if isinstance(source, Memory) and isinstance(source.base, Register):
        raise UnsupportedPTXError(f"{instruction.opcode} of a register plus an offset")
    slot, where = binder.source(source, dtype), binder.target(target, dtype)
    is_constant = binder.is_constant(slot)
    assert where is not None
    window = WINDOWS.get(space, 0)
    if not window:
        return copy_step(slot, is_constant, where)
    shift = dtype.type(window) if nbytes == 8 else dtype.type(0)

    def step(views: Views, lanes: Lanes, batch: Batch) -> None:
        value = views[slot] if is_constant else views[slot][lanes.rows]
        lanes.put(views[where], value - shift if is_back else value + shift)

    return step


def bind_is_space(binder: Binder, instruction: Instruction) -> Step:
    """Make the step of ``isspacep``."""
    space = next(part for part in instruction.opcode.replace("::", ".").split(".") if part in SPACES)
    target = binder.target(instruction.operands[0], np.dtype(np.bool_))
    source = binder.source(instruction.operands[1], np.dtype(np.uint64))
    is_constant = binder.is_constant(source)
    number = WINDOWS.get(space, 0) >> WINDOW_BITS
    assert target is not None

    def step(views: Views, lanes: Lanes, batch: Batch) -> None:
        value = np.asarray(views[source] if is_constant else views[source][lanes.rows])
        lanes.put(views[target], (value >> np.uint64(WINDOW_BITS)) == number)

    return step
