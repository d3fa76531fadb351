"""PTX text as data: parse a module into functions, variables and instructions.

Every dialect that NVRTC, nvcc, Numba and Triton write is read: old typed loads and the ``.b32``-typed
loads of compute_100 and later, nested scopes, call prototypes, inline assembly with several
instructions a line. Nothing is executed here.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kernellab.errors import UnsupportedPTXError

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


_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"'
    r"|0[fF][0-9a-fA-F]{8}(?![\w$])|0[dD][0-9a-fA-F]{16}(?![\w$])"
    r"|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+U?"
    r"|[.%@]?[A-Za-z_$%][\w$%]*(?:\.[\w$]+|::[\w$.]+)*"
    r"|[-+\[\](){},;:@!|=<>~]"
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_SPECIAL = re.compile(
    r"%(?:n?tid|n?ctaid|cluster_n?ctaid|nclusterid|clusterid)\.[xyz]$"
    r"|%(?:laneid|warpid|nwarpid|warpsize|smid|nsmid|gridid|clock|clock_hi|clock64|globaltimer|globaltimer_lo"
    r"|globaltimer_hi|lanemask_(?:eq|le|lt|ge|gt)|dynamic_smem_size|total_smem_size|aggr_smem_size"
    r"|current_graph_exec|cluster_ctarank|cluster_nctarank|is_explicit_cluster|envreg\d+|pm\d+(?:_64)?)$"
    r"|WARP_SZ$"
)


@dataclass(slots=True)
class _Token:
    text: str
    line: int


def _tokens(text: str) -> list[_Token]:
    text = _COMMENT.sub(lambda match: "\n" * match.group().count("\n"), text)
    tokens: list[_Token] = []
    line = 1
    position = 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", position, match.start())
        position = match.start()
        word = match.group()
        if word[0] == "." and "." in word[1:]:  # directives written together: .reg.b32
            tokens.extend(_Token("." + part, line) for part in word[1:].split("."))
        else:
            tokens.append(_Token(word, line))
    return tokens


def _is_number(text: str) -> bool:
    return text[0].isdigit()


def _number(text: str) -> Immediate:
    if text[:2] in ("0f", "0F") and len(text) == 10:
        return Immediate(int(text[2:], 16), "f32")
    if text[:2] in ("0d", "0D") and len(text) == 18:
        return Immediate(int(text[2:], 16), "f64")
    text = text.rstrip("U")
    if text[:2] in ("0x", "0X"):
        return Immediate(int(text, 16))
    if text[:2] in ("0b", "0B"):
        return Immediate(int(text, 2))
    if "." in text or "e" in text or "E" in text:
        return Immediate(int.from_bytes(struct.pack("<d", float(text)), "little"), "f64")
    if len(text) > 1 and text[0] == "0":
        return Immediate(int(text, 8))
    return Immediate(int(text))


@dataclass(slots=True)
class _Scope:
    """Names of a ``{ }`` block: what was written -> its unique name."""

    names: dict[str, str] = field(default_factory=dict)
    prefixes: list[tuple[str, str, int]] = field(default_factory=list)


class _Parser:
    """Recursive descent over the token list; one instance parses one module."""

    def __init__(self, text: str) -> None:
        self.tokens = _tokens(text)
        self.position = 0
        self.functions: dict[str, Function] = {}
        self.variables: dict[str, Variable] = {}
        self.files: dict[int, str] = {}
        self.version = self.target = ""
        self.location = (0, 0)

    # -- token helpers
    @property
    def head(self) -> str:
        return self.tokens[self.position].text if self.position < len(self.tokens) else ""

    @property
    def following(self) -> str:
        position = self.position + 1
        return self.tokens[position].text if position < len(self.tokens) else ""

    @property
    def line(self) -> int:
        return self.tokens[min(self.position, len(self.tokens) - 1)].line if self.tokens else 0

    def take(self, expected: str | None = None) -> str:
        text = self.head
        if not text or (expected is not None and text != expected):
            raise UnsupportedPTXError(
                f"PTX line {self.line}: found {repr(text) if text else 'the end of the text'} where "
                f"{repr(expected) if expected else 'more'} was expected; is this a whole PTX file?"
            )
        self.position += 1
        return text

    def accept(self, text: str) -> bool:
        if self.head == text:
            self.position += 1
            return True
        return False

    # -- module level
    def module(self) -> Module:
        while self.head:
            match self.head:
                case ".version":
                    self.take()
                    self.version = self.take()
                case ".target":
                    self.take()
                    self.target = self.take()
                    while self.accept(","):
                        self.take()
                case ".address_size":
                    self.take()
                    self.take()
                case ".file":
                    self.file()
                case ".section":
                    self.section()
                case ";" | ".pragma":
                    self.skip_statement()
                case _:
                    self.declaration()
        return Module(self.version, self.target, self.functions, self.variables, self.files)

    def skip_statement(self) -> None:
        while self.head and self.take() != ";":
            pass

    def file(self) -> None:
        self.take(".file")
        number = _number(self.take()).value
        self.files[number] = self.take().strip('"')
        while self.accept(","):
            self.take()

    def section(self) -> None:
        self.take(".section")
        self.take()
        self.take("{")
        depth = 1
        while depth:
            depth += {"{": 1, "}": -1}.get(self.take(), 0)

    def declaration(self) -> None:
        linkage: set[str] = set()
        while self.head in (".visible", ".extern", ".weak", ".common", ".attribute"):
            word = self.take()
            linkage.add(word)
            if word == ".attribute":
                self.take("(")
                while not self.accept(")"):
                    self.take()
        if self.head == ".entry" or self.head == ".func":
            self.function(is_entry=self.take() == ".entry")
        elif self.head == ".alias":
            self.skip_statement()
        elif self.head in (".global", ".const", ".shared", ".tex", ".samplerref", ".surfref", ".texref"):
            for variable in self.variable_statement(".extern" in linkage):
                known = self.variables.get(variable.name)
                if known is None or known.is_extern:
                    self.variables[variable.name] = variable
        else:
            raise UnsupportedPTXError(
                f"PTX line {self.line}: the directive {self.head!r} is not known to the emulator"
            )

    def variable_statement(self, is_extern: bool = False) -> list[Variable]:
        space = self.take()[1:]
        variables = [self.variable(space, is_extern)]
        while self.accept(","):
            variables.append(
                self.variable(space, is_extern, declared=(variables[0].type, variables[0].align))
            )
        self.take(";")
        return variables

    def variable(
        self, space: str, is_extern: bool = False, declared: tuple[str, int] | None = None
    ) -> Variable:
        kind, align, lanes = (declared[0], declared[1], 1) if declared else ("b8", 0, 1)
        while self.head.startswith("."):
            word = self.take()[1:]
            if word == "align":
                align = _number(self.take()).value
            elif word in ("v2", "v4"):
                lanes = int(word[1])
            elif word == "ptr":
                if self.head in (".global", ".shared", ".const", ".local"):
                    self.take()
                if self.accept(".align"):
                    self.take()
            elif word == "attribute":
                self.take("(")
                while not self.accept(")"):
                    self.take()
            elif word in TYPE_BYTES:
                kind = word
            elif word in ("texref", "samplerref", "surfref"):
                kind = "b64"
            else:
                raise UnsupportedPTXError(f"PTX line {self.line}: the type {word!r} is not known")
        name = self.take()
        count, is_scalar = lanes, lanes == 1
        while self.accept("["):
            is_scalar = False
            if self.accept("]"):
                count = 0
                continue
            count *= _number(self.take()).value
            self.take("]")
        initial: tuple[Immediate | Symbol, ...] = ()
        if self.accept("="):
            initial = tuple(self.initial_values())
            if count == 0:
                count = len(initial)
        return Variable(
            name, space, kind, count, align or TYPE_BYTES[kind] * lanes, initial, is_scalar, is_extern
        )

    def initial_values(self) -> Iterator[Immediate | Symbol]:
        if self.accept("{"):
            while not self.accept("}"):
                yield from self.initial_values()
                self.accept(",")
            return
        if self.head.startswith('"'):
            for byte in self.take().strip('"').encode().decode("unicode_escape").encode("latin1"):
                yield Immediate(byte)
            return
        is_negative = self.accept("-")
        word = self.take()
        if _is_number(word):
            value = _number(word)
            if self.accept("("):  # 0xFF00(symbol): one byte of an address
                while not self.accept(")"):
                    self.take()
                raise UnsupportedPTXError(
                    f"PTX line {self.line}: an initial value that takes bytes of an address is not supported"
                )
            yield Immediate(-value.value, value.type) if is_negative else value
            return
        if word == "generic":
            self.take("(")
            word = self.take()
            self.take(")")
        offset = 0
        while self.head in ("+", "-"):
            sign = -1 if self.take() == "-" else 1
            offset += sign * _number(self.take()).value
        yield Symbol(word, offset)

    # -- functions
    def parameter_list(self) -> tuple[Variable, ...]:
        found: list[Variable] = []
        self.take("(")
        while not self.accept(")"):
            if self.head in (".param", ".reg"):
                self.take()
            found.append(self.variable("param"))
            self.accept(",")
        return tuple(found)

    def function(self, is_entry: bool) -> None:
        start = self.line
        if self.head == ".attribute":
            self.take()
            self.take("(")
            while not self.accept(")"):
                self.take()
        returns = self.parameter_list() if self.head == "(" else ()
        name = self.take()
        parameters = self.parameter_list() if self.head == "(" else ()
        performance: dict[str, tuple[int, ...]] = {}
        while self.head.startswith(".") and self.head != ".loc":
            word = self.take()[1:]
            numbers: list[int] = []
            while self.head and (_is_number(self.head) or self.head == ","):
                if not self.accept(","):
                    numbers.append(_number(self.take()).value)
            performance[word] = tuple(numbers)
            if word == "pragma":
                self.skip_statement()
        if self.accept(";"):
            return
        self.location = (0, 0)
        body = _Body(self)
        self.take("{")
        body.block(_Scope())
        self.functions[name] = Function(
            name,
            is_entry,
            parameters,
            returns,
            body.registers,
            tuple(body.variables),
            tuple(body.instructions),
            body.labels,
            body.branch_targets,
            performance,
            start,
        )


class _Body:
    """The body of one function: its registers, variables, labels and instructions."""

    def __init__(self, parser: _Parser) -> None:
        self.parser = parser
        self.scopes: list[_Scope] = []
        self.registers: dict[str, str] = {}
        self.variables: list[Variable] = []
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.branch_targets: dict[str, tuple[str, ...]] = {}

    def block(self, scope: _Scope) -> None:
        """Parse statements up to the closing brace, which is taken."""
        parser = self.parser
        self.scopes.append(scope)
        while not parser.accept("}"):
            word = parser.head
            if word == "{":
                parser.take()
                self.block(_Scope())
            elif word == ".loc":
                self.loc()
            elif word == ".reg":
                self.register_statement()
            elif word in (".local", ".shared", ".param", ".global", ".const"):
                self.declare_variables()
            elif word == ".file":
                parser.file()
            elif word == ";":
                parser.take()
            elif word.startswith("."):
                parser.skip_statement()
            elif parser.following == ":":
                self.label()
            else:
                self.instruction()
        self.scopes.pop()

    def loc(self) -> None:
        parser = self.parser
        parser.take()
        file, line = _number(parser.take()).value, _number(parser.take()).value
        parser.take()
        while parser.accept(","):  # , function_name label+off, inlined_at file line column
            word = parser.take()
            if word == "function_name":
                parser.take()
                if parser.accept("+"):
                    parser.take()
            else:
                for _ in range(3):
                    parser.take()
        if line:
            parser.location = (file, line)

    def unique(self, name: str) -> str:
        taken = name in self.registers or any(v.name == name for v in self.variables)
        return f"{name}@{len(self.registers) + len(self.variables)}" if taken else name

    def register_statement(self) -> None:
        parser = self.parser
        parser.take(".reg")
        kind = parser.take()[1:]
        if kind in ("v2", "v4"):
            raise UnsupportedPTXError(f"PTX line {parser.line}: vector registers are not supported")
        while not parser.accept(";"):
            name = parser.take()
            if parser.accept("<"):
                count = _number(parser.take()).value
                parser.take(">")
                names = [f"{name}{i}" for i in range(count)]
            else:
                names = [name]
            for each in names:
                unique = self.unique(each)
                self.registers[unique] = kind
                if unique != each or len(self.scopes) > 1:
                    self.scopes[-1].names[each] = unique
            parser.accept(",")

    def declare_variables(self) -> None:
        for variable in self.parser.variable_statement():
            unique = self.unique(variable.name)
            if unique != variable.name:
                self.scopes[-1].names[variable.name] = unique
                variable = Variable(
                    unique, variable.space, variable.type, variable.count, variable.align,
                    variable.initial, variable.is_scalar, variable.is_extern,
                )  # fmt: skip
            elif len(self.scopes) > 1:
                self.scopes[-1].names[variable.name] = unique
            self.variables.append(variable)

    def resolve(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope.names:
                return scope.names[name]
        return name

    def label(self) -> None:
        parser = self.parser
        name = parser.take()
        parser.take(":")
        if parser.head == ".branchtargets":
            parser.take()
            targets = []
            while not parser.accept(";"):
                targets.append(parser.take())
                parser.accept(",")
            self.branch_targets[name] = tuple(targets)
        elif parser.head in (".callprototype", ".calltargets"):
            parser.skip_statement()
        else:
            self.labels[name] = len(self.instructions)

    def instruction(self) -> None:
        parser = self.parser
        line = parser.line
        guard = None
        word = parser.take()
        if word.startswith("@"):
            is_negated = False
            register = word[1:]
            if not register:
                is_negated = parser.accept("!")
                register = parser.take()
            guard = Guard(self.resolve(register), is_negated)
            word = parser.take()
        operands: list[Operand] = []
        while not parser.accept(";"):
            operands.append(self.operand())
            if parser.accept("|"):
                operands[-1] = Pair(operands[-1], self.operand())
            parser.accept(",")
        file, source_line = parser.location
        self.instructions.append(
            Instruction(len(self.instructions), line, word, tuple(operands), guard, file, source_line)
        )

    def operand(self) -> Operand:
        parser = self.parser
        word = parser.take()
        if word == "{":
            return Vector(tuple(self.sequence("}")))
        if word == "(":
            return Group(tuple(self.sequence(")")))
        if word == "[":
            inner = list(self.sequence("]"))
            base, offset = inner[0], 0
            if isinstance(base, Memory):
                base, offset = base.base, base.offset
            return Memory(base, offset, tuple(inner[1:]))
        if word == "!":
            return Register(self.resolve(parser.take()), True)
        if word == "-":
            value = _number(parser.take())
            return Immediate(-value.value) if value.type == "int" else Immediate(
                value.value ^ (1 << (31 if value.type == "f32" else 63)), value.type
            )  # fmt: skip
        if word == "~":
            return Immediate(~_number(parser.take()).value)
        if word == "_":
            return Sink()
        if _is_number(word):
            return _number(word)
        return self.named(word)

    def named(self, word: str) -> Operand:
        name = self.resolve(word)
        base: Register | Special | Symbol
        if name in self.registers:
            base = Register(name)
        elif _SPECIAL.match(word):
            return Special(word)
        elif word.startswith("%"):
            raise UnsupportedPTXError(f"PTX line {self.parser.line}: the register {word!r} is not declared")
        else:
            base = Symbol(name)
        offset = 0
        while self.parser.head in ("+", "-"):
            sign = -1 if self.parser.take() == "-" else 1
            if self.parser.accept("-"):
                sign = -sign
            offset += sign * _number(self.parser.take()).value
        if offset and isinstance(base, Symbol):
            return Symbol(base.name, offset)
        return Memory(base, offset) if offset else base

    def sequence(self, closing: str) -> Iterator[Operand]:
        while not self.parser.accept(closing):
            yield self.operand()
            self.parser.accept(",")


def parse(text: str) -> Module:
    """Parse PTX text.

    Parameters
    ----------
    text : str
        A whole PTX module.

    Returns
    -------
    Module

    Raises
    ------
    UnsupportedPTXError
        For a directive, type or shape of statement that is not known; names the line.

    Examples
    --------
    >>> module = parse(".version 8.0 .target sm_90 .address_size 64 .visible .entry f() { ret; }")
    >>> module.entries, str(module.functions["f"].body[0])
    (('f',), 'ret')
    """
    return _Parser(text).module()
