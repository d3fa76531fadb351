"""Steps of atomics and reductions on memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator import atomics
from kernellab.emulator.access import addresses_of, aligned, bind_address, flat_source, parts_of, shape_of
from kernellab.emulator.code import Binder, Step, Views
from kernellab.emulator.lanes import Lanes
from kernellab.emulator.memory import UNSIGNED, Fault
from kernellab.emulator.ptx import Instruction, Operand, Sink, Vector
from kernellab.errors import UnsupportedPTXError

if TYPE_CHECKING:
    from kernellab.emulator.batch import Batch

Array = npt.NDArray[Any]


def bind_atomic(binder: Binder, instruction: Instruction) -> Step:
    """Make the step of ``atom`` or ``red``, also on vectors and packed halves."""
    parts = instruction.opcode.replace("::", ".").split(".")
    shape = shape_of(instruction.opcode)
    name = next((part for part in parts[1:] if part in (*atomics.OPERATIONS, "cas")), "")
    if not name:
        raise UnsupportedPTXError(f"{instruction.opcode}: no atomic operation that the emulator knows")
    operands = list(instruction.operands)
    is_reduction = parts[0] == "red"
    target: Operand = Sink() if is_reduction else operands.pop(0)
    dtype = atomics.dtype_of(shape.type)
    width = shape.width
    targets = list(target.elements) if isinstance(target, Vector) else [target]
    slots = [binder.target(each, UNSIGNED[width]) for each in targets]
    base, offset = bind_address(binder, operands[0])
    groups = [list(each.elements) if isinstance(each, Vector) else [each] for each in operands[1:]]
    inputs = [[binder.source(each, UNSIGNED[width]) for each in group] for group in groups]
    number = binder.code.first + instruction.index
    lanes_wide = len(inputs[0])
    wants_old = any(slot is not None for slot in slots)

    def step_atomic(views: Views, lanes: Lanes, batch: Batch) -> None:
        batch.current_number = number
        addresses = addresses_of(views, base, offset, lanes)
        for space, where, part in parts_of(shape.space, addresses, lanes):
            faults: list[Fault] = []
            flat = aligned(part.flat(where), width * lanes_wide, faults)
            for k in range(lanes_wide):
                values = [flat_source(views, group[k], part) for group in inputs]
                where_k = flat + k * width if k else flat
                old = _apply(batch, space, part, where_k, width, name, dtype, values, wants_old, faults)
                slot = slots[k] if wants_old else None
                if slot is not None:
                    part.put_flat(views[slot], old)
            if faults:
                batch.report(number, "atomic", space, part, faults)
            batch.count(number, space, "atomic", where, part)

    return step_atomic


def _apply(
    batch: Batch, space: str, lanes: Lanes, flat: Array, width: int, name: str, dtype: np.dtype[Any],
    values: list[Array], wants_old: bool, faults: list[Fault],
) -> Array:  # fmt: skip
    """Apply an atomic at flat addresses; return the old bits."""
    per_element = width // dtype.itemsize
    has_changed = True
    order = batch.atomic_order(flat.size)

    def apply(elements: Array, indexes: Array, positions: npt.NDArray[np.intp] | slice) -> Array:
        nonlocal has_changed
        operands = [value[positions] for value in values]
        if order is not None:
            chosen = order[: indexes.size] if indexes.size == order.size else np.argsort(order[positions])
            indexes = indexes[chosen]
            operands = [operand[chosen] for operand in operands]
        if name == "cas":
            old = atomics.compare_and_swap(elements, indexes, *operands)
            has_changed = bool((old == operands[0]).any())
        elif per_element == 1:
            old = atomics.combine(name, elements.view(dtype), indexes, operands[0].view(dtype), wants_old)
            old = old.view(elements.dtype)
            if name == "exch":
                has_changed = bool((old != operands[0]).any())
            elif name in ("add", "or", "xor"):
                has_changed = bool(operands[0].any())
        else:  # packed halves: each half is atomic for itself
            halves = elements.view(dtype)
            pairs = operands[0].view(dtype).reshape(-1, per_element)
            parts = [
                atomics.combine(name, halves, indexes * per_element + i, pairs[:, i].copy(), True)
                for i in range(per_element)
            ]
            old = np.stack(parts, axis=1).reshape(-1).view(elements.dtype)
        if order is not None:
            back = np.empty_like(old)
            back[chosen] = old
            return back
        return old

    old = batch.update(space, lanes, flat, width, apply, faults)
    if has_changed:
        batch.changed()
    return old
