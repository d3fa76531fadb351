"""Steps of the instructions that touch memory: loads, stores, atomics, address conversions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator.code import Binder, Step, Views
from kernellab.emulator.lanes import WARP, Lanes
from kernellab.emulator.memory import (
    LOCAL_WINDOW,
    SHARED_WINDOW,
    SIGNED,
    UNSIGNED,
    WINDOW_BITS,
    Fault,
)
from kernellab.emulator.ptx import (
    TYPE_BYTES,
    Immediate,
    Instruction,
    Memory,
    Operand,
    Register,
    Symbol,
    Vector,
)
from kernellab.emulator.steps import copy_step, sequence_step
from kernellab.errors import UnsupportedPTXError

if TYPE_CHECKING:
    from kernellab.emulator.batch import Batch

Array = npt.NDArray[Any]
SPACES = ("global", "shared", "local", "const", "param")
WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}
_BY_WINDOW = {SHARED_WINDOW >> WINDOW_BITS: "shared", LOCAL_WINDOW >> WINDOW_BITS: "local"}


@dataclass(frozen=True, slots=True)
class Shape:
    """What an opcode says of an access: its space (``generic`` if none), element type and vector length."""

    space: str
    type: str
    lanes: int

    @property
    def width(self) -> int:
        """Bytes of an element."""
        return TYPE_BYTES[self.type]


def shape_of(opcode: str) -> Shape:
    """Read the space, the element type and the vector length off an opcode."""
    parts = opcode.replace("::", ".").split(".")
    space = next((part for part in parts[1:] if part in SPACES), "generic")
    kind = next((part for part in reversed(parts[1:]) if part in TYPE_BYTES), "")
    if not kind:
        raise UnsupportedPTXError(f"{opcode}: no element type that the emulator knows")
    lanes = next((int(part[1:]) for part in parts[1:] if part in ("v2", "v4", "v8")), 1)
    return Shape(space, kind, lanes)


def bind_address(binder: Binder, operand: Operand) -> tuple[int, int]:
    """Return the slot of the base and the offset of a memory operand."""
    if not isinstance(operand, Memory):
        raise UnsupportedPTXError(f"{operand} is not an address")
    base = operand.base
    if isinstance(base, Register):
        kind = binder.code.register_types[base.name]
        return binder.source(base, UNSIGNED[TYPE_BYTES[kind]]), operand.offset
    if isinstance(base, Symbol):
        return binder.address(base.name, base.offset + operand.offset, np.dtype(np.uint64)), 0
    if isinstance(base, Immediate):
        return binder.constant(base.value + operand.offset, np.dtype(np.int64)), 0
    raise UnsupportedPTXError(f"{operand} is not an address")


def addresses_of(views: Views, base: int, offset: int, lanes: Lanes) -> npt.NDArray[np.int64]:
    """Return the byte address of every lane, shape (R, 32)."""
    value = views[base]
    if not isinstance(value, np.ndarray) or value.ndim == 0:
        return np.full((lanes.row_count, WARP), int(value) + offset, np.int64)
    part = value if lanes.row_count == lanes.height else value[lanes.rows]
    if part.dtype.itemsize == 8:
        found = part.view(np.int64)
        return found + offset if offset else found
    if offset:  # addresses of 32 bits wrap
        part = part + np.uint32(offset & 0xFFFFFFFF)
    return part.astype(np.int64)


def parts_of(space: str, addresses: npt.NDArray[np.int64], lanes: Lanes) -> list[tuple[str, Array, Lanes]]:
    """Resolve generic addresses: which lanes point to which space, with addresses inside it."""
    if space != "generic":
        return [("global" if space in ("const", "param") else space, addresses, lanes)]
    flat = lanes.flat(addresses)
    low, high = int(flat.min()) >> WINDOW_BITS, int(flat.max()) >> WINDOW_BITS
    if low == high:
        name = _BY_WINDOW.get(low, "global")
        return [(name, addresses - WINDOWS[name] if name in WINDOWS else addresses, lanes)]
    windows = addresses >> WINDOW_BITS
    found = []
    for number, name in ((0, "global"), *_BY_WINDOW.items()):
        inner = lanes.restricted(windows == number)
        if inner.count:
            found.append((name, addresses - WINDOWS.get(name, 0), inner))
    others = lanes.restricted((windows < 0) | (windows > LOCAL_WINDOW >> WINDOW_BITS))
    if others.count:
        found.append(("global", addresses, others))
    return found


def aligned(flat: Array, nbytes: int, faults: list[Fault]) -> Array:
    """Return the addresses rounded down to a multiple of `nbytes`; those that were not are faults."""
    wrong = flat & (nbytes - 1)
    if wrong.any():
        positions = np.flatnonzero(wrong)
        note = f"address {int(flat[positions[0]]):#x} is no multiple of {nbytes}"
        faults.append(Fault("misaligned", positions, note))
        flat = flat - wrong
    return flat


def flat_source(views: Views, slot: int, lanes: Lanes) -> Array:
    """Return a source operand of the active lanes, in row-major order."""
    value = views[slot]
    if not isinstance(value, np.ndarray) or value.ndim == 0:
        return np.full(lanes.count, value)
    part = value if lanes.row_count == lanes.height else value[lanes.rows]
    return np.ascontiguousarray(lanes.flat(part))


def bind_load(binder: Binder, instruction: Instruction) -> Step:
    """Make the step of ``ld``."""
    shape = shape_of(instruction.opcode)
    target, address = instruction.operands[:2]
    targets = list(target.elements) if isinstance(target, Vector) else [target]
    dtype = (SIGNED if shape.type.startswith("s") else UNSIGNED)[shape.width]
    slots = [binder.target(each, dtype) for each in targets]
    if shape.space == "param":
        step = _load_parameter(binder, address, shape, slots)
        if step is not None:
            return step
    base, offset = bind_address(binder, address)
    number = binder.code.first + instruction.index
    width, count, nbytes = shape.width, len(slots), shape.width * len(slots)
    is_counted = shape.space not in ("const", "param")

    def step_load(views: Views, lanes: Lanes, batch: Batch) -> None:
        batch.current_number = number
        addresses = addresses_of(views, base, offset, lanes)
        for space, where, part in parts_of(shape.space, addresses, lanes):
            faults: list[Fault] = []
            flat = aligned(part.flat(where), nbytes, faults)
            values = batch.load(space, part, flat, width, count, faults)
            for slot, value in zip(slots, values, strict=True):
                if slot is not None:
                    part.put_flat(views[slot], value.view(dtype))
            if faults:
                batch.report(number, "load", space, part, faults)
            if is_counted:
                batch.count(number, space, "load", where, part)

    return step_load


def _load_parameter(binder: Binder, address: Operand, shape: Shape, slots: list[int | None]) -> Step | None:
    """Make a load of a kernel parameter (a constant) or of a ``.param`` variable; None for a register."""
    if not isinstance(address, Memory) or not isinstance(address.base, Symbol):
        return None
    name, start = address.base.name, address.base.offset + address.offset
    steps: list[Step] = []
    for k, slot in enumerate(slots):
        if slot is None:
            continue
        dtype = binder.code.slots[slot].dtype
        source_dtype = dtype if dtype.itemsize == shape.width else np.dtype(f"{dtype.kind}{shape.width}")
        offset = start + k * shape.width
        if name in binder.entry_parameters:
            raw = binder.entry_parameters[name][offset : offset + shape.width]
            value = binder.constant(np.frombuffer(raw, source_dtype)[0], source_dtype)
            steps.append(copy_step(value, True, slot))
        elif name in binder.code.parameter_bytes:
            source = binder.code.slot("parameter", name, source_dtype, offset)
            steps.append(copy_step(source, False, slot))
        else:
            return None
    return sequence_step(steps) if steps else (lambda *_: None)


def bind_store(binder: Binder, instruction: Instruction) -> Step:
    """Make the step of ``st``."""
    shape = shape_of(instruction.opcode)
    address, source = instruction.operands[:2]
    sources = list(source.elements) if isinstance(source, Vector) else [source]
    dtype = UNSIGNED[shape.width]
    slots = [binder.source(each, dtype) for each in sources]
    constant = [binder.is_constant(slot) for slot in slots]
    if shape.space == "param":
        assert isinstance(address, Memory)
        assert isinstance(address.base, Symbol)
        start = address.base.offset + address.offset
        return sequence_step(
            [
                copy_step(
                    slot,
                    is_constant,
                    binder.code.slot("parameter", address.base.name, dtype, start + k * shape.width),
                )
                for k, (slot, is_constant) in enumerate(zip(slots, constant, strict=True))
            ]
        )
    base, offset = bind_address(binder, address)
    number = binder.code.first + instruction.index
    width, nbytes = shape.width, shape.width * len(slots)

    def step_store(views: Views, lanes: Lanes, batch: Batch) -> None:
        batch.current_number = number
        addresses = addresses_of(views, base, offset, lanes)
        for space, where, part in parts_of(shape.space, addresses, lanes):
            faults: list[Fault] = []
            flat = aligned(part.flat(where), nbytes, faults)
            values = [flat_source(views, slot, part) for slot in slots]
            batch.store(space, part, flat, width, values, faults)
            if faults:
                batch.report(number, "store", space, part, faults)
            batch.count(number, space, "store", where, part)

    return step_store
