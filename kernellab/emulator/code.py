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

from kernellab.emulator.flow import Block, basic_blocks
from kernellab.emulator.lanes import WARP, Lanes
from kernellab.emulator.memory import SIGNED, UNSIGNED
from kernellab.emulator.opcodes import semantics
from kernellab.emulator.ptx import (
    TYPE_BYTES,
    Function,
    Immediate,
    Instruction,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
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


def data_step(compute: Callable[..., Any], sources: list[int], constant: list[bool], targets: list[int | None]) -> Step:
    """Make the step of a data instruction."""
    if isinstance(compute, np.ufunc) and len(targets) == 1 and targets[0] is not None and not all(constant):
        return _ufunc_step(compute, sources, constant, targets[0])

    def step(views: Views, lanes: Lanes, batch: Batch) -> None:
        if lanes.is_full:
            results = compute(*[views[s] for s in sources])
        else:
            rows = lanes.rows
            results = compute(
                *[views[s] if c else views[s][rows] for s, c in zip(sources, constant, strict=True)]
            )
        if not isinstance(results, tuple):
            results = (results,)
        for target, result in zip(targets, results, strict=True):
            if target is not None:
                lanes.put(views[target], result)

    return step


def _ufunc_step(compute: np.ufunc, sources: list[int], constant: list[bool], target: int) -> Step:
    if len(sources) == 2:
        first, second = sources
        first_constant, second_constant = constant

        def step_binary(views: Views, lanes: Lanes, batch: Batch) -> None:
            if lanes.is_full:
                compute(views[first], views[second], out=views[target])
                return
            rows = lanes.rows
            a = views[first] if first_constant else views[first][rows]
            b = views[second] if second_constant else views[second][rows]
            lanes.put(views[target], compute(a, b))

        return step_binary

    def step(views: Views, lanes: Lanes, batch: Batch) -> None:
        if lanes.is_full:
            compute(*[views[s] for s in sources], out=views[target])
            return
        rows = lanes.rows
        arguments = [views[s] if c else views[s][rows] for s, c in zip(sources, constant, strict=True)]
        lanes.put(views[target], compute(*arguments))

    return step


def copy_step(source: int, is_constant: bool, target: int) -> Step:
    """Make the step that copies one slot to another."""

    def step(views: Views, lanes: Lanes, batch: Batch) -> None:
        if lanes.is_full:
            views[target][...] = views[source]
        else:
            lanes.put(views[target], views[source] if is_constant else views[source][lanes.rows])

    return step


def guarded(step: Step, predicate: int, is_negated: bool, index: int) -> Step:
    """Run a step only for the lanes whose predicate holds."""

    def run(views: Views, lanes: Lanes, batch: Batch) -> None:
        keep = views[predicate][lanes.rows]
        inner = lanes.restricted(~keep if is_negated else keep)
        batch.counts.guarded[index] += lanes.count - inner.count
        if inner.count:
            step(views, inner, batch)

    return run


def sequence_step(steps: list[Step]) -> Step:
    """Make one step of several."""
    if len(steps) == 1:
        return steps[0]

    def step(views: Views, lanes: Lanes, batch: Batch) -> None:
        for each in steps:
            each(views, lanes, batch)

    return step


def bind_data(binder: Binder, instruction: Instruction) -> Step:
    """Make the step of an instruction that `opcodes` knows."""
    rule = semantics(instruction.opcode, 2 if isinstance(instruction.operands[0], Pair) else 1)
    code = binder.code
    before: list[Step] = []
    operands = list(instruction.operands)
    first = operands[0]
    destinations = [first.first, first.second] if isinstance(first, Pair) else [first]
    inputs = operands[1:]
    results = list(rule.results)
    targets: list[int | None] = [
        binder.target(destination, dtype)
        for destination, dtype in zip(destinations, results, strict=False)
    ]
    sources: list[int] = []
    for operand, dtype in zip(inputs, rule.sources, strict=True):
        if isinstance(operand, Register) and operand.is_negated:
            inverse = Register(code.temporary("pred"))
            original = binder.source(Register(operand.name), np.dtype(np.bool_))
            copy = binder.target(inverse, np.dtype(np.bool_))
            assert copy is not None
            before.append(_ufunc_step(np.logical_not, [original], [False], copy))
            operand = inverse
        sources.append(binder.source(operand, dtype))
    if rule.reads_carry or rule.writes_carry:
        code.register_types.setdefault("%carry", "pred")
        carry = code.slot("register", "%carry", np.dtype(np.bool_))
        if rule.reads_carry:
            sources.append(carry)
        if rule.writes_carry:
            targets.append(carry)
    constant = [binder.is_constant(slot) for slot in sources]
    return sequence_step([*before, data_step(rule.compute, sources, constant, targets)])


def bind_move(binder: Binder, instruction: Instruction) -> Step:
    """Make the step of ``mov``, also the forms that pack and unpack vectors."""
    kind = instruction.opcode.rsplit(".", 1)[1]
    target, source = instruction.operands
    if isinstance(target, Vector) or isinstance(source, Vector):
        return _bind_pack(binder, target, source, TYPE_BYTES[kind])
    dtype = storage_dtype(kind)
    if isinstance(source, Register) and source.is_negated:
        raise UnsupportedPTXError("a negated source in mov")
    slot = binder.source(source, dtype)
    where = binder.target(target, dtype)
    assert where is not None
    return copy_step(slot, binder.is_constant(slot), where)


def _bind_pack(binder: Binder, target: Operand, source: Operand, nbytes: int) -> Step:
    steps: list[Step] = []
    if isinstance(target, Vector):
        dtype = UNSIGNED[nbytes // len(target.elements)]
        if isinstance(source, Vector):
            pairs = zip(target.elements, source.elements, strict=True)
            found = [(binder.target(t, dtype), binder.source(s, dtype)) for t, s in pairs]
        else:
            found = [
                (binder.target(t, dtype), binder.source(source, dtype, part=k))
                for k, t in enumerate(target.elements)
            ]
    else:
        assert isinstance(source, Vector)
        dtype = UNSIGNED[nbytes // len(source.elements)]
        found = [
            (binder.target(target, dtype, part=k), binder.source(s, dtype))
            for k, s in enumerate(source.elements)
        ]
    # through temporaries, since {a, b} = {b, a} is allowed
    outputs = [(t, s) for t, s in found if t is not None]
    if len(outputs) > 1:
        kind = f"b{8 * dtype.itemsize}"
        late: list[Step] = []
        for t, s in outputs:
            middle = binder.target(Register(binder.code.temporary(kind)), dtype)
            assert middle is not None
            steps.append(copy_step(s, binder.is_constant(s), middle))
            late.append(copy_step(middle, False, t))
        return sequence_step([*steps, *late])
    return sequence_step([copy_step(s, binder.is_constant(s), t) for t, s in outputs] or [lambda *_: None])


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
    return code
