"""A kernel with everything it calls, laid out and bound: what a launch runs."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator.calls import BUILTINS
from kernellab.emulator.code import Binder, Code, new_code
from kernellab.emulator.flow import family
from kernellab.emulator.instructions import bind_instruction
from kernellab.emulator.memory import WINDOW_BITS, GlobalMemory
from kernellab.emulator.ptx import (
    TYPE_BYTES,
    Function,
    Group,
    Immediate,
    Instruction,
    Memory,
    Module,
    Operand,
    Pair,
    Register,
    Symbol,
    Variable,
    Vector,
)
from kernellab.emulator.terminators import bind_terminator
from kernellab.emulator.warpgroups import accumulators_of
from kernellab.errors import SpecError, UnsupportedPTXError

if TYPE_CHECKING:
    from kernellab.emulator.launch import Launch

_CODE_WINDOW = 3 << WINDOW_BITS


def symbols_of(operands: tuple[Operand, ...]) -> set[str]:
    """Return the names of all symbols in operands."""
    names: set[str] = set()
    for operand in operands:
        match operand:
            case Symbol(name, _):
                names.add(name)
            case Memory(base, _, extra):
                names |= symbols_of((base, *extra))
            case Vector(elements) | Group(elements):
                names |= symbols_of(elements)
            case Pair(first, second):
                names |= symbols_of((first, second))
    return names


def reachable(module: Module, entry: str) -> tuple[dict[str, Function], set[str]]:
    """Return the functions that a kernel may run, itself first, and every symbol that they name."""
    found: dict[str, Function] = {}
    names: set[str] = set()
    todo = [entry]
    while todo:
        name = todo.pop(0)
        if name in found:
            continue
        function = module.functions[name]
        found[name] = function
        for instruction in function.body:
            mentioned = symbols_of(instruction.operands)
            if family(instruction.opcode) == "call" and any(
                isinstance(each, Register) for each in instruction.operands
            ):
                mentioned |= {each for each, f in module.functions.items() if not f.is_entry}
            names |= mentioned | _named_by_variables(module, mentioned)
        todo += [each for each in sorted(names) if each in module.functions and each not in found]
    return found, names


def _named_by_variables(module: Module, names: set[str]) -> set[str]:
    """Return the symbols in the initial values of variables, and of the variables that those name."""
    found: set[str] = set()
    todo = [name for name in names if name in module.variables]
    while todo:
        symbols = {each.name for each in module.variables[todo.pop()].initial if isinstance(each, Symbol)}
        todo += [name for name in symbols - found if name in module.variables]
        found |= symbols
    return found


def is_float_add(instruction: Instruction) -> bool:
    """Say whether an instruction adds floats atomically."""
    parts = instruction.opcode.split(".")
    return parts[0] in ("atom", "red") and "add" in parts and parts[-1].startswith(("f", "bf"))


@dataclass(slots=True)
class Layout:
    """Addresses of a launch's variables."""

    addresses: dict[str, int] = field(default_factory=dict)
    functions: dict[int, str] = field(default_factory=dict)
    shared_bytes: int = 0
    variables: dict[str, npt.NDArray[np.uint8]] = field(default_factory=dict)


def lay_out_shared(variables: list[Variable], dynamic: int, layout: Layout) -> None:
    """Give shared variables their addresses: static ones first, the dynamic part behind them."""
    offset = 0
    for variable in variables:
        if variable.count:
            offset = -(-offset // variable.align) * variable.align
            layout.addresses[variable.name] = offset
            offset += variable.nbytes
    flexible = [variable for variable in variables if not variable.count]
    align = max([16, *(variable.align for variable in flexible)])
    if flexible or dynamic:
        offset = -(-offset // align) * align
    for variable in flexible:
        layout.addresses[variable.name] = offset
    layout.shared_bytes = offset + dynamic


def find_variable(variables: Mapping[str, Variable], name: str, who: str) -> Variable:
    """Find a module variable by its C name, also when the compiler mangled it."""
    if name in variables:
        return variables[name]
    tail = f"{len(name)}{name}"
    found = [variable for key, variable in variables.items() if key.startswith("_Z") and tail in key]
    if len(found) == 1:
        return found[0]
    known = ", ".join(sorted(variables)) or "none"
    raise SpecError(f"{who}: globals names {name!r}, but the module has {known}")


def variable_bytes(
    variable: Variable, value: Any, who: str
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8] | None]:
    """Return the bytes that back a module variable; the second is the caller's own memory, if used."""
    if value is None:
        data = np.zeros(max(variable.nbytes, 1), np.uint8)
        return data, None
    array = np.asarray(value)
    if not isinstance(value, (np.ndarray, np.generic)):
        width = variable.nbytes // max(array.size, 1)
        kind = "f" if variable.type in ("f32", "f64") else array.dtype.kind
        if kind in "iuf" and width in (1, 2, 4, 8) and not (kind == "f" and width == 1):
            array = array.astype(f"{kind}{width}")
    if array.nbytes != variable.nbytes:
        raise SpecError(
            f"{who}: globals[{variable.name!r}] has {array.nbytes} bytes, the variable has "
            f"{variable.nbytes}; pass an array of its exact size"
        )
    own = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return own, own


def fill_initial(variable: Variable, data: npt.NDArray[np.uint8], addresses: Mapping[str, int]) -> None:
    """Write a variable's initial values."""
    width = TYPE_BYTES[variable.type]
    position = 0
    for value in variable.initial:
        if isinstance(value, Immediate):
            nbytes = width
            number = _bits_of(value, variable.type)
        else:
            nbytes = 8 if width < 8 and variable.type == "b8" else width
            number = addresses.get(value.name, 0) + value.offset
        raw = (number & ((1 << 8 * nbytes) - 1)).to_bytes(nbytes, "little")
        data[position : position + nbytes] = np.frombuffer(raw, np.uint8)
        position += nbytes


def _bits_of(value: Immediate, kind: str) -> int:
    """Return the bits of a literal in a variable of a type: decimals and integers become floats there."""
    if kind not in ("f32", "f64") or value.type == kind:
        return value.value
    if value.type == "int":
        number = float(value.value)
    else:
        code, nbytes = ("<f", 4) if value.type == "f32" else ("<d", 8)
        (number,) = struct.unpack(code, value.value.to_bytes(nbytes, "little"))
    return int.from_bytes(struct.pack("<f" if kind == "f32" else "<d", number), "little")


def lay_out_globals(
    variables: list[Variable], values: Mapping[str, Any], memory: GlobalMemory, layout: Layout, who: str
) -> None:
    """Allocate ``__device__`` and ``__constant__`` variables and set them."""
    backing = {}
    for variable in variables:
        data, _ = variable_bytes(variable, values.get(variable.name), who)
        allocation = memory.allocate(
            variable.name, data, is_writable=variable.space == "global" and data.flags.writeable
        )
        layout.addresses[variable.name] = allocation.base
        layout.variables[variable.name] = data
        backing[variable.name] = data
    for variable in variables:
        if variable.initial and values.get(variable.name) is None:
            fill_initial(variable, backing[variable.name], layout.addresses)


_bound: dict[tuple[Any, ...], tuple[Mapping[str, Function], dict[str, Code]]] = {}
KEPT_PROGRAMS = 64


def bound_program(
    functions: Mapping[str, Function], entry_parameters: Mapping[str, bytes], launch: Launch
) -> dict[str, Code]:
    """Return `bind_program` of these very functions, parameters and addresses, made once: code has no state.

    Arrays of the same sizes get the same addresses, so a launch that is repeated finds its code.
    """
    key = (
        *map(id, functions.values()),
        *entry_parameters.items(),
        *launch.layout.addresses.items(),
    )
    known = _bound.get(key)
    if known is None:
        while len(_bound) >= KEPT_PROGRAMS:
            _bound.pop(next(iter(_bound)), None)
        codes = bind_program(functions, entry_parameters, launch)
        known = _bound[key] = (functions, codes)  # the functions are kept, so ids stay theirs
    return known[1]


def bind_program(
    functions: Mapping[str, Function], entry_parameters: Mapping[str, bytes], launch: Launch
) -> dict[str, Code]:
    """Make the code of every function, steps included."""
    codes: dict[str, Code] = {}
    first = first_block = 0
    for name, function in functions.items():
        code = codes[name] = new_code(function, first, first_block)
        first += len(function.body)
        first_block += len(code.blocks)
    launch.codes = codes
    for name, code in codes.items():
        own = entry_parameters if code.function.is_entry else {}
        binder = Binder(code, launch.layout.addresses.get, own)
        binder.accumulators = accumulators_of(code.function)
        _bind_code(binder, launch, name)
    return codes


def _bind_code(binder: Binder, launch: Launch, name: str) -> None:
    code = binder.code
    body = code.function.body
    for block in code.blocks:
        steps = []
        for instruction in body[block.start : block.stop]:
            try:
                steps.append(bind_instruction(binder, instruction))
            except (UnsupportedPTXError, KeyError, ValueError, StopIteration, AssertionError) as error:
                raise _unsupported(launch, code, instruction, error) from None
        code.steps.append(steps)
        try:
            code.terminators.append(bind_terminator(binder, block, launch))
        except (UnsupportedPTXError, KeyError, ValueError, StopIteration, AssertionError) as error:
            assert block.terminator is not None
            raise _unsupported(launch, code, block.terminator, error) from None


def _unsupported(
    launch: Launch, code: Code, instruction: Instruction, error: Exception
) -> UnsupportedPTXError:
    number = code.first + instruction.index
    reason = str(error) or type(error).__name__
    return UnsupportedPTXError(
        f"{code.function.name}: the emulator cannot execute `{instruction}` at {launch.where(number)} "
        f"(PTX line {instruction.line}): {reason}"
    )


def function_addresses(functions: Mapping[str, Function], layout: Layout) -> None:
    """Give functions addresses, for pointers to them."""
    for i, name in enumerate(functions):
        address = _CODE_WINDOW + 256 * (i + 1)
        layout.addresses.setdefault(name, address)
        layout.functions[address] = name
    for i, name in enumerate(BUILTINS):
        layout.addresses.setdefault(name, _CODE_WINDOW + (1 << 30) + 256 * i)
