"""A PTX function made ready to run: operands become slots of a frame, instructions become steps.

A *step* is a callable ``step(views, lanes, batch)``. `views` is the frame's list of typed arrays, one for
each slot that an instruction uses; `lanes` says for whom it runs. Steps are made once a launch and hold no
state, so every batch of warps and every depth of recursion shares them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator.flow import EXIT, Block, basic_blocks, family
from kernellab.emulator.lanes import WARP, Lanes
from kernellab.emulator.memory import SIGNED, UNSIGNED
from kernellab.emulator.ptx import (
    TYPE_BYTES,
    Function,
    Immediate,
    Operand,
    Register,
    Sink,
    Special,
    Symbol,
)
from kernellab.errors import UnsupportedPTXError

if TYPE_CHECKING:
    from kernellab.emulator.batch import Batch

Array = npt.NDArray[Any]
Views = list[Any]
Step = Callable[[Views, Lanes, "Batch"], None]

_STORAGE = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def storage_dtype(kind: str) -> np.dtype[Any]:
    """Return the dtype in which a register of a PTX type is kept: booleans, else untyped bits."""
    if kind == "pred":
        return np.dtype(np.bool_)
    nbytes = TYPE_BYTES[kind]
    if nbytes not in _STORAGE:
        raise UnsupportedPTXError(f"registers of type .{kind} are not supported by the emulator")
    return np.dtype(_STORAGE[nbytes])


@dataclass(frozen=True, slots=True)
class Slot:
    """What a frame's view shows.

    Attributes
    ----------
    kind : str
        ``register``, ``special``, ``parameter`` (bytes of a ``.param`` variable), ``constant`` or ``local``
        (the address of a variable in this frame's local memory).
    name : str
    dtype : numpy.dtype
    part : int
        Which element of that dtype, for a view narrower than what it shows.
    value : object
        The scalar of a constant.
    """

    kind: str
    name: str
    dtype: np.dtype[Any]
    part: int = 0
    value: Any = None


@dataclass(slots=True)
class Code:
    """A function ready to run.

    Attributes
    ----------
    function : Function
    blocks : tuple of Block
    first, first_block : int
        Number of its first instruction and its first block among those of all functions of the launch.
    steps : list of list
        For each block, its straight-line steps.
    slots : list of Slot
    register_types : dict
        Name of register -> PTX type; includes the temporaries that the steps need.
    parameter_bytes : dict
        ``.param`` variables of the function and of the calls it makes -> size in bytes.
    local_offsets : dict
        Local variables -> offset in the frame's local memory.
    local_bytes : int
    may_wait : bool
        It has instructions with which lanes wait for others: atomics, volatile and ordered loads, sleeping.
    """

    function: Function
    blocks: tuple[Block, ...]
    first: int
    first_block: int
    steps: list[list[Step]] = field(default_factory=list)
    slots: list[Slot] = field(default_factory=list)
    slot_index: dict[tuple[Any, ...], int] = field(default_factory=dict)
    register_types: dict[str, str] = field(default_factory=dict)
    parameter_bytes: dict[str, int] = field(default_factory=dict)
    local_offsets: dict[str, int] = field(default_factory=dict)
    local_bytes: int = 0
    terminators: list[Any] = field(default_factory=list)
    may_wait: bool = False
    reached: dict[int, set[int]] = field(default_factory=dict)

    def reaches(self, first: Block, second: Block) -> bool:
        """Say whether control can come from behind one block to another."""
        found = self.reached.get(first.index)
        if found is None:
            found, todo = set(), list(first.successors)
            while todo:
                index = todo.pop()
                if index != EXIT and index not in found:
                    found.add(index)
                    todo += self.blocks[index].successors
            self.reached[first.index] = found
        return second.index in found

    def only_returns(self, block: Block) -> bool:
        """Say whether a block does nothing but end its function."""
        last = block.terminator
        return block.start == block.stop and last is not None and family(last.opcode) in ("ret", "exit")

    def slot(self, kind: str, name: str, dtype: np.dtype[Any], part: int = 0, value: Any = None) -> int:
        """Return the index of a slot, made on first use."""
        key = (kind, name, dtype.str if dtype.kind != "V" else dtype.name, part)
        if kind == "constant":
            key = (kind, dtype.name, value.tobytes(), 0)
        found = self.slot_index.get(key)
        if found is None:
            found = self.slot_index[key] = len(self.slots)
            self.slots.append(Slot(kind, name, dtype, part, value))
        return found

    def temporary(self, kind: str) -> str:
        """Add a register that only the steps know."""
        name = f"%temporary{len(self.register_types)}"
        self.register_types[name] = kind
        return name


Resolver = Callable[[str], int | None]
"""Address of a module or shared variable, a kernel parameter or a function; None when unknown."""


class Binder:
    """Turns operands of one function into slots.

    Parameters
    ----------
    code : Code
    resolve : callable
        Gives the address of a symbol.
    entry_parameters : mapping of str to bytes
        Values of the kernel's parameters; empty for a device function.
    """

    def __init__(self, code: Code, resolve: Resolver, entry_parameters: Mapping[str, bytes]) -> None:
        self.code = code
        self.resolve = resolve
        self.entry_parameters = entry_parameters
        self.accumulators: frozenset[str] = frozenset()

    def constant(self, value: Any, dtype: np.dtype[Any]) -> int:
        """Return the slot of a scalar of exactly `dtype`."""
        return self.code.slot("constant", "", dtype, value=np.asarray(value, dtype)[()])

    def immediate(self, operand: Immediate, dtype: np.dtype[Any]) -> int:
        """Return the slot of a literal, reinterpreted or converted as PTX does."""
        if dtype == np.bool_:
            return self.constant(bool(operand.value), dtype)
        bits = operand.value
        if operand.type == "f64" and dtype == np.float32:  # a decimal literal in a float instruction
            return self.constant(np.uint64(bits).view(np.float64), dtype)
        if operand.type == "f32" and dtype == np.float64:
            return self.constant(np.uint32(bits).view(np.float32), dtype)
        width = dtype.itemsize
        raw = np.asarray(bits & ((1 << 8 * width) - 1), UNSIGNED[width])
        return self.code.slot("constant", "", dtype, value=raw.view(dtype)[()])

    def source(self, operand: Operand, dtype: np.dtype[Any], part: int = 0) -> int:
        """Return the slot to read an operand as `dtype`."""
        match operand:
            case Register(name, _):
                kind = self.code.register_types[name]
                if dtype == np.bool_ and kind != "pred":
                    raise UnsupportedPTXError(f"{name} is no predicate")
                return self.code.slot("register", name, dtype, part)
            case Immediate():
                return self.immediate(operand, dtype)
            case Special("WARP_SZ"):
                return self.constant(WARP, dtype)
            case Special(name):
                return self.code.slot("special", name, dtype, part)
            case Symbol(name, offset):
                return self.address(name, offset, dtype)
            case Sink():
                return self.constant(0, dtype)
        raise UnsupportedPTXError(f"the operand {operand} is not supported here")

    def address(self, name: str, offset: int, dtype: np.dtype[Any]) -> int:
        """Return the slot of the address of a variable or function."""
        if name in self.code.local_offsets:
            return self.code.slot("local", name, dtype, part=offset)
        address = self.resolve(name)
        if address is None:
            raise UnsupportedPTXError(f"the symbol {name!r} has no address in this module")
        return self.constant(np.uint64(address + offset).astype(UNSIGNED[dtype.itemsize]), dtype)

    def target(self, operand: Operand, dtype: np.dtype[Any], part: int | None = None) -> int | None:
        """Return the slot to write a result of `dtype` to, widened to the register; None for a sink.

        With `part`, the destination is one narrower element of the register and the rest stays.
        """
        if isinstance(operand, Sink):
            return None
        if not isinstance(operand, Register):
            raise UnsupportedPTXError(f"{operand} cannot be a destination")
        kind = self.code.register_types[operand.name]
        width = TYPE_BYTES[kind]
        if part is not None or kind == "pred" or dtype == np.bool_ or width <= dtype.itemsize:
            return self.code.slot("register", operand.name, dtype, part or 0)
        if dtype.kind not in "iu":
            return self.code.slot("register", operand.name, dtype, 0)
        wide = (SIGNED if dtype.kind == "i" else UNSIGNED)[width]
        return self.code.slot("register", operand.name, wide)

    def is_constant(self, slot: int) -> bool:
        """Say whether a slot holds a scalar, the same for every lane."""
        return self.code.slots[slot].kind in ("constant", "local")


def new_code(function: Function, first: int, first_block: int) -> Code:
    """Lay out a function's blocks, registers, parameters and local memory; no steps yet."""
    code = Code(function, basic_blocks(function), first, first_block)
    code.register_types.update(function.registers)
    for variable in (*function.parameters, *function.returns):
        code.parameter_bytes[variable.name] = max(variable.nbytes, 4)
    for variable in function.variables:
        if variable.space == "param":
            code.parameter_bytes[variable.name] = max(variable.nbytes, 4)
        elif variable.space == "local":
            start = -(-code.local_bytes // variable.align) * variable.align
            code.local_offsets[variable.name] = start
            code.local_bytes = start + variable.nbytes
    code.local_bytes = -(-code.local_bytes // 16) * 16
    code.may_wait = any(
        {"atom", "nanosleep", "volatile", "acquire", "relaxed", "mbarrier"}
        & set(instruction.opcode.split("."))
        for instruction in function.body
    )
    return code
