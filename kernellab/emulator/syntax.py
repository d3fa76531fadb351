"""What a PTX module is made of: operands, instructions, variables, functions. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TYPE_BYTES = {
    "b8": 1, "u8": 1, "s8": 1, "e4m3": 1, "e5m2": 1,
    "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "e4m3x2": 2, "e5m2x2": 2,
    "b32": 4, "u32": 4, "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "tf32": 4,
    "b64": 8, "u64": 8, "s64": 8, "f64": 8, "f32x2": 8, "b128": 16, "pred": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Register:
    """A virtual register; ``is_negated`` for ``!%p`` as a source."""

    name: str
    is_negated: bool = False


@dataclass(frozen=True, slots=True)
class Immediate:
    """A literal: an integer, or the bits of a float with ``type`` f32 or f64."""

    value: int
    type: str = "int"


@dataclass(frozen=True, slots=True)
class Special:
    """A special register such as ``%tid.x`` or ``%laneid``."""

    name: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a variable or function, or a label, plus a byte offset."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Memory:
    """``[base + offset]``; ``extra`` holds further operands inside the brackets (tensor coordinates)."""

    base: Operand
    offset: int = 0
    extra: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b, c, d}``."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """``p|q``: two predicate destinations; or a shuffle's ``d|p``."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Group:
    """A parenthesised list, as in ``call (ret), f, (a, b)``."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Sink:
    """``_``: a destination or source that is dropped."""


Operand = Register | Immediate | Special | Symbol | Memory | Vector | Pair | Group | Sink


@dataclass(frozen=True, slots=True)
class Guard:
    """``@%p`` or ``@!%p`` in front of an instruction."""

    register: str
    is_negated: bool


@dataclass(frozen=True, slots=True)
class Instruction:
    """One PTX instruction.

    Attributes
    ----------
    index : int
        Position in the function's body.
    line : int
        1-based line of the PTX text where the instruction starts.
    opcode : str
        With all its modifiers, ``mad.lo.s32``.
    operands : tuple of Operand
    guard : Guard or None
    file, source_line : int
        From the last ``.loc``: the number of the file, and the line in it (0: none).
    """

    index: int
    line: int
    opcode: str
    operands: tuple[Operand, ...]
    guard: Guard | None
    file: int
    source_line: int

    def __str__(self) -> str:
        guard = f"@{'!' if self.guard.is_negated else ''}{self.guard.register} " if self.guard else ""
        return f"{guard}{self.opcode} {', '.join(map(render, self.operands))}".strip()


def render(operand: Operand) -> str:
    """Write an operand as PTX text."""
    match operand:
        case Register(name, is_negated):
            return ("!" if is_negated else "") + name
        case Immediate(value, kind):
            return str(value) if kind == "int" else f"0{'f' if kind == 'f32' else 'd'}{value:X}"
        case Special(name):
            return name
        case Symbol(name, offset):
            return name + (f"+{offset}" if offset else "")
        case Memory(base, offset, extra):
            inner = render(base) + (f"+{offset}" if offset else "")
            return "[" + ", ".join([inner, *map(render, extra)]) + "]"
        case Vector(elements):
            return "{" + ", ".join(map(render, elements)) + "}"
        case Pair(first, second):
            return f"{render(first)}|{render(second)}"
        case Group(elements):
            return "(" + ", ".join(map(render, elements)) + ")"
    return "_"


@dataclass(frozen=True, slots=True)
class Variable:
    """A declared variable: a parameter, or memory of a state space.

    Attributes
    ----------
    name : str
    space : str
        ``param``, ``global``, ``const``, ``shared`` or ``local``.
    type : str
        Element type such as ``b8``.
    count : int
        Number of elements; 0 for an extern array without a size (dynamic shared memory).
    align : int
        Bytes.
    initial : tuple
        Initial values in order: ints, (bits, type) pairs of floats, or Symbols.
    is_scalar : bool
        Declared without brackets.
    is_extern : bool
    """

    name: str
    space: str
    type: str
    count: int
    align: int
    initial: tuple[Immediate | Symbol, ...] = ()
    is_scalar: bool = True
    is_extern: bool = False

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return TYPE_BYTES[self.type] * self.count


@dataclass(frozen=True, slots=True)
class Function:
    """A kernel entry or a device function."""

    name: str
    is_entry: bool
    parameters: tuple[Variable, ...]
    returns: tuple[Variable, ...]
    registers: Mapping[str, str]
    variables: tuple[Variable, ...]
    body: tuple[Instruction, ...]
    labels: Mapping[str, int]
    branch_targets: Mapping[str, tuple[str, ...]]
    performance: Mapping[str, tuple[int, ...]]
    line: int


@dataclass(frozen=True, slots=True)
class Module:
    """A parsed PTX module; ``files`` maps a ``.loc`` file number to its path."""

    version: str
    target: str
    functions: Mapping[str, Function]
    variables: Mapping[str, Variable]
    files: Mapping[int, str]

    @property
    def entries(self) -> tuple[str, ...]:
        """Names of the kernels, in order."""
        return tuple(name for name, function in self.functions.items() if function.is_entry)
