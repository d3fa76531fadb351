"""What attribution asks of SASS: copies of memory accesses and branches, by the PTX line they came from."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

_MEMORY = {
    "LD": ("load", "generic"),
    "LDG": ("load", "global"),
    "LDS": ("load", "shared"),
    "LDL": ("load", "local"),
    "ST": ("store", "generic"),
    "STG": ("store", "global"),
    "STS": ("store", "shared"),
    "STL": ("store", "local"),
    "ATOM": ("atomic", "generic"),
    "ATOMG": ("atomic", "global"),
    "ATOMS": ("atomic", "shared"),
    "RED": ("atomic", "generic"),
    "REDG": ("atomic", "global"),
    "REDS": ("atomic", "shared"),
    "LDSM": ("load matrix", "shared"),
    "STSM": ("store matrix", "shared"),
    "LDGSTS": ("copy", "global"),
}
_BRANCHES = ("BRA", "BRX", "BRXU", "JMP", "JMX", "JMXU")
_NEVER_FALLS = ("EXIT", "RET", "BRA", "BRX", "JMP", "JMX", "CALL", "BPT", "KILL")
_ALIGNMENT = 128  # bytes, of a section
_ELECTS = ("VOTE", "VOTEU", "REDUX", "CREDUX", "POPC", "UPOPC")
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32}
_DISPLACEMENT = re.compile(r"\[([^\]]*)\]")
_CONSTANT = re.compile(r"(?:^|\+)(-?0x[0-9a-f]+)$")


class Sass(Protocol):
    """One SASS instruction, as `kernellab.compile.sass_of` lists it."""

    @property
    def address(self) -> int:
        """Bytes from the start of the section."""
        ...

    @property
    def predicate(self) -> str | None:
        """Such as ``P0`` or ``!P2``, None without one."""
        ...

    @property
    def opcode(self) -> str:
        """With all modifiers."""
        ...

    @property
    def operands(self) -> str:
        """As text."""
        ...

    @property
    def ptx_line(self) -> int | None:
        """1-based line of the PTX text, None if unknown."""
        ...


@dataclass(frozen=True, slots=True)
class Copy:
    """One SASS copy of a memory access.

    `place` is what its address adds to a register, `base` the rest. `is_joined`: lanes that had parted met
    again before it, and its line is only that of the last instruction before they met.
    """

    kind: str
    space: str
    width: int
    base: str
    place: int
    predicate: str | None
    opcode: str
    is_joined: bool = False


@dataclass(slots=True)
class Line:
    """All that SASS has for one PTX line."""

    memory: list[Copy] = field(default_factory=list)
    branches: list[str] = field(default_factory=list)
    elections: list[str] = field(default_factory=list)
    opcodes: dict[str, int] = field(default_factory=dict)


def by_line(sass: Sequence[Sass], first: int, last: int) -> Mapping[int, Line]:
    """Sort instructions by PTX line, those of lines `first` to `last` only."""
    lines: dict[int, Line] = defaultdict(Line)
    synced: int | None = None
    for position, instruction in enumerate(sass):
        number = instruction.ptx_line
        head = instruction.opcode.split(".")[0]
        synced = number if head == "BSYNC" or synced == number else None
        if number is None or not first <= number <= last:
            continue
        if instruction.predicate == "!PT" or _is_padding(sass, position):  # never runs
            continue
        line = lines[number]
        line.opcodes[instruction.opcode] = line.opcodes.get(instruction.opcode, 0) + 1
        if head in _MEMORY:
            line.memory.append(_copy(instruction, head, synced is not None))
        elif head in _BRANCHES and not {"DIV", "CONV"} & set(instruction.opcode.split(".")):
            line.branches.append(instruction.opcode)
        elif head in _ELECTS or instruction.opcode.startswith("SHFL.BFLY"):
            line.elections.append(head)
    return lines


def _is_padding(sass: Sequence[Sass], position: int) -> bool:
    """Recognise the jump to itself that fills up a section, and the NOPs behind it."""
    here = sass[position]
    if here.opcode == "NOP":
        return True
    if here.opcode != "BRA" or here.predicate is not None or position == 0:
        return False
    before = sass[position - 1]
    if before.predicate is not None or before.opcode.split(".")[0] not in _NEVER_FALLS:
        return False
    if position + 1 < len(sass) and sass[position + 1].opcode == "NOP":
        return True
    is_last = position + 1 == len(sass) or sass[position + 1].address <= here.address
    return is_last and (here.address + 16) % _ALIGNMENT == 0


def _copy(instruction: Sass, head: str, is_joined: bool) -> Copy:
    words = instruction.opcode.split(".")
    width = next((_WIDTHS[word] for word in words[1:] if word in _WIDTHS), 4)
    kind, space = _MEMORY[head]
    inside = _DISPLACEMENT.findall(instruction.operands.replace("desc[", "desc("))
    address = inside[-1 if head == "LDGSTS" else 0] if inside else ""
    constant = _CONSTANT.search(address)
    base = address[: constant.start()] if constant else address
    place = int(constant[1], 16) if constant else 0
    return Copy(kind, space, width, base, place, instruction.predicate, instruction.opcode, is_joined)
