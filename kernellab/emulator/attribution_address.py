"""The memory accesses of a function, their addresses as linear forms.

So neighbours are recognised whatever registers the compiler chose.
"""

from __future__ import annotations

from kernellab.emulator.attribution_ptx import Blocks, PTXAccess, registers, shape, writes_first
from kernellab.emulator.fragment_requests import fragment_access
from kernellab.emulator.ptx import (
    Function,
    Group,
    Immediate,
    Instruction,
    Memory,
    Operand,
    Register,
    Symbol,
    render,
)

_ALIASES = ("mov", "cvta")
_PURE = (
    "and",
    "or",
    "xor",
    "not",
    "shl",
    "shr",
    "mul",
    "mad",
    "min",
    "max",
    "cvt",
    "bfe",
    "bfi",
    "lop3",
    "neg",
)

_Form = tuple[tuple[tuple[int, int], ...], int]


class Addresses:
    """Addresses as linear forms: a sum of multiples of unknowns, plus a constant.

    Two accesses whose forms differ in the constant only are neighbours, whatever registers NVVM chose.
    Unknowns are numbered; equal expressions get equal numbers.
    """

    def __init__(self, function: Function) -> None:
        self._body = function.body
        self._numbers: dict[object, int] = {}
        self._memo: dict[int, _Form] = {}
        self._definitions: dict[str, list[int]] = {}
        for instruction in function.body:
            if instruction.operands and writes_first(instruction):
                for name in registers(instruction.operands[0]):
                    self._definitions.setdefault(name, []).append(instruction.index)

    def of(self, operand: Operand | None, index: int) -> _Form:
        """Return the form of an operand read by instruction `index`: ((unknown, factor), ...), constant."""
        match operand:
            case Memory(base, offset, _):
                form, constant = self.of(base, index)
                return form, constant + offset
            case Group(elements) if elements:
                return self.of(elements[0], index)
            case Immediate(value, _):
                return (), value
            case Symbol(name, offset):
                return self._unknown(("symbol", name)), offset
            case Register(name, _):
                return self._register(name, index)
        return self._unknown(("operand", render(operand) if operand else index)), 0

    def _unknown(self, key: object) -> tuple[tuple[int, int], ...]:
        return ((self._numbers.setdefault(key, len(self._numbers)), 1),)

    def _register(self, name: str, index: int) -> _Form:
        places = self._definitions.get(name, ())
        if len(places) != 1 or places[0] >= index:
            return self._unknown(("register", name, sum(place < index for place in places))), 0
        place = places[0]
        if place not in self._memo:
            self._memo[place] = self._computed(self._body[place], name)
        return self._memo[place]

    def _computed(self, instruction: Instruction, name: str) -> _Form:
        head = instruction.opcode.split(".")[0]
        is_simple = instruction.guard is None and isinstance(instruction.operands[0], Register)
        if is_simple and "cc" not in instruction.opcode.split("."):
            sources = [self.of(operand, instruction.index) for operand in instruction.operands[1:]]
            if head in _ALIASES and len(sources) == 1:
                return sources[0]
            linear = _linear(instruction.opcode, sources)
            if linear is not None:
                return linear
            if head in _PURE:
                return self._unknown(("computed", instruction.opcode, tuple(sources))), 0
        return self._unknown(("register", name, instruction.index)), 0


def _linear(opcode: str, sources: list[_Form]) -> _Form | None:
    words = opcode.split(".")
    if words[0] in ("add", "sub") and words[-1][0] in "sub" and len(sources) == 2:
        return _sum(sources[0], sources[1], 1 if words[0] == "add" else -1)
    if words[0] == "shl" and not sources[1][0]:
        return _sum(((), 0), sources[0], 1 << min(sources[1][1], 63))
    if words[:2] == ["mul", "lo"] and not sources[1][0]:
        return _sum(((), 0), sources[0], sources[1][1])
    if words[:2] == ["mad", "lo"] and not sources[1][0]:
        return _sum(sources[2], sources[0], sources[1][1])
    return None


def _sum(first: _Form, second: _Form, factor: int) -> _Form:
    total = dict(first[0])
    for unknown, times in second[0]:
        total[unknown] = total.get(unknown, 0) + factor * times
    form = tuple(sorted((unknown, times) for unknown, times in total.items() if times))
    return form, first[1] + factor * second[1]


def accesses(function: Function, blocks: Blocks) -> tuple[PTXAccess, ...]:
    """List the memory accesses of a function in order."""
    addresses = Addresses(function)
    found = []
    for instruction in function.body:
        is_what = shape(instruction)
        if is_what is None:
            continue
        memory = next((o for o in instruction.operands[::-1] if isinstance(o, Memory)), None)
        operand = memory or next((o for o in instruction.operands if isinstance(o, Group | Symbol)), None)
        base, offset = addresses.of(operand, instruction.index)
        is_volatile = ".volatile" in instruction.opcode or is_what[0] in ("atomic", "copy")
        block = blocks.of[instruction.index]
        fragment = fragment_access(instruction.opcode)
        issued = fragment.issued if fragment else 1
        found.append(
            PTXAccess(instruction.index, instruction.line, *is_what, block, base, offset, is_volatile, issued)
        )
    return tuple(found)
