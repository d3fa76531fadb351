"""What attribution asks of PTX: its memory accesses, symbolic addresses, basic blocks and branches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kernellab.emulator.fragment_requests import fragment_access
from kernellab.emulator.ptx import (
    TYPE_BYTES,
    Function,
    Group,
    Immediate,
    Instruction,
    Memory,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
)

_LANES = {"v2": 2, "v4": 4, "v8": 8}
_KINDS = {
    "ld": "load",
    "ldu": "load",
    "st": "store",
    "atom": "atomic",
    "red": "atomic",
    "ldmatrix": "load matrix",
    "stmatrix": "store matrix",
}
_ENDS = ("bra", "brx", "ret", "exit", "trap")


@dataclass(frozen=True, slots=True)
class PTXAccess:
    """One PTX instruction that asks memory for something.

    Attributes
    ----------
    index, line : int
        Position in the body, line of the PTX text.
    kind : str
        ``load``, ``store``, ``atomic``, ``load matrix``, ``store matrix`` or ``copy`` (cp.async).
    space : str
        ``global``, ``shared``, ``local`` or ``generic``.
    element, count : int
        Bytes of an element, elements.
    block : int
        Basic block.
    base : tuple
        Symbolic address without its constant; equal for equal addresses.
    offset : int
        The constant, in bytes.
    is_volatile : bool
        It may not be removed.
    issued : int
        Accesses of this width that it is, each time it runs.
    """

    index: int
    line: int
    kind: str
    space: str
    element: int
    count: int
    block: int
    base: tuple[tuple[int, int], ...]
    offset: int
    is_volatile: bool
    issued: int = 1

    @property
    def width(self) -> int:
        """Bytes a lane."""
        return self.element * self.count

    @property
    def end(self) -> int:
        """Constant of the first byte behind it."""
        return self.offset + self.width


def shape(instruction: Instruction) -> tuple[str, str, int, int] | None:
    """Return kind, space, element bytes and element count of a memory access, None for anything else."""
    words = instruction.opcode.split(".")
    if words[0] == "cp":
        return _copy_shape(instruction, words)
    if fragment := fragment_access(instruction.opcode):
        operation = "store" if fragment.is_store else "load"
        return operation + " matrix" * bool(fragment.matrices), fragment.space, fragment.width, 1
    kind = _KINDS.get(words[0])
    space = next((w.split("::")[0] for w in words[1:] if w.split("::")[0] in _SPACES), "generic")
    if kind is None or space in ("param", "const"):
        return None
    if kind.endswith("matrix"):
        return kind, "shared", 16, 1
    types = [word for word in words[1:] if word in TYPE_BYTES]
    if not types:
        return None
    count = next((_LANES[word] for word in words[1:] if word in _LANES), 1)
    return kind, space, TYPE_BYTES[types[-1]], count


_SPACES = ("global", "shared", "local", "param", "const")


def _copy_shape(instruction: Instruction, words: list[str]) -> tuple[str, str, int, int] | None:
    if words[1:2] != ["async"] or words[2] not in ("ca", "cg"):
        return None
    sizes = [operand.value for operand in instruction.operands if isinstance(operand, Immediate)]
    return ("copy", "global", sizes[0], 1) if sizes else None


def registers(operand: Operand) -> Iterator[str]:
    """Name the registers of an operand."""
    match operand:
        case Register(name, _):
            yield name
        case Memory(base, _, extra):
            yield from registers(base)
            for each in extra:
                yield from registers(each)
        case Vector(elements) | Group(elements):
            for each in elements:
                yield from registers(each)
        case Pair(first, second):
            yield from registers(first)
            yield from registers(second)


def sources(instruction: Instruction) -> frozenset[str]:
    """Name the registers that an instruction reads."""
    has_result = writes_first(instruction)
    names = {name for each in instruction.operands[1 if has_result else 0 :] for name in registers(each)}
    if instruction.guard:
        names.add(instruction.guard.register)
    return frozenset(names)


def writes_first(instruction: Instruction) -> bool:
    """Say whether the first operand is a result."""
    is_address = bool(instruction.operands) and isinstance(instruction.operands[0], Memory)
    name, *parts = instruction.opcode.split(".")
    if name in ("bar", "barrier"):
        return "red" in parts
    return not is_address and name not in ("bra", "brx", "call", "nanosleep")


def read_registers(function: Function) -> frozenset[str]:
    """Name every register that some instruction reads."""
    return frozenset().union(*map(sources, function.body))


class Blocks:
    """Basic blocks of a function.

    Attributes
    ----------
    of : tuple of int
        Block of each instruction.
    starts : tuple of int
        First instruction of each block.
    """

    def __init__(self, function: Function) -> None:
        self._body = function.body
        self._labels = function.labels
        self._tables = function.branch_targets
        leaders = {0, *function.labels.values()}
        for instruction in function.body:
            if instruction.opcode.split(".")[0] in _ENDS:
                leaders.add(instruction.index + 1)
        self.starts = tuple(sorted(place for place in leaders if place < len(function.body)))
        numbers: list[int] = []
        for number, start in enumerate(self.starts):
            end = self.starts[number + 1] if number + 1 < len(self.starts) else len(function.body)
            numbers.extend([number] * (end - start))
        self.of = tuple(numbers)
        self._dominators: list[int] | None = None

    def last(self, block: int) -> Instruction:
        """Return the last instruction of a block."""
        end = self.starts[block + 1] if block + 1 < len(self.starts) else len(self._body)
        return self._body[end - 1]

    def members(self, block: int) -> range:
        """Return the instruction indexes of a block."""
        return range(self.starts[block], self.last(block).index + 1)

    def dominates(self, first: int, second: int) -> bool:
        """Say whether every way to block `second` leads through block `first`."""
        if self._dominators is None:
            self._dominators = self._find_dominators()
        return bool(self._dominators[second] >> first & 1)

    def _successors(self, block: int) -> list[int]:
        last = self.last(block)
        head = last.opcode.split(".")[0]
        targets = branch_targets(last, self._labels, self._tables)
        following = [self.of[place] for place in targets if place < len(self.of)]
        falls = head not in _ENDS or last.guard is not None
        if falls and block + 1 < len(self.starts):
            following.append(block + 1)
        return following

    def _find_dominators(self) -> list[int]:
        count = len(self.starts)
        everything = (1 << count) - 1
        before: list[list[int]] = [[] for _ in range(count)]
        for block in range(count):
            for target in self._successors(block):
                before[target].append(block)
        found = [everything] * count
        found[0] = 1
        has_changed = True
        while has_changed:
            has_changed = False
            for block in range(1, count):
                common = everything
                for other in before[block]:
                    common &= found[other]
                common |= 1 << block
                if common != found[block]:
                    found[block], has_changed = common, True
        return found


def is_branch(instruction: Instruction) -> bool:
    """Say whether this is a jump inside the function."""
    return instruction.opcode.split(".")[0] in ("bra", "brx")


def branch_targets(
    instruction: Instruction, labels: Mapping[str, int], tables: Mapping[str, tuple[str, ...]]
) -> list[int]:
    """Return the instruction indexes that a jump may lead to."""
    if not is_branch(instruction):
        return []
    names: list[str] = []
    for operand in instruction.operands:
        if isinstance(operand, Symbol):
            names.extend(tables.get(operand.name, (operand.name,)))
        elif isinstance(operand, Vector):
            names.extend(o.name for o in operand.elements if isinstance(o, Symbol))
    return [labels[name] for name in names if name in labels]
