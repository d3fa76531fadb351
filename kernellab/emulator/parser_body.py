"""The parser of a function's body: registers, scopes, labels, instructions and their operands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from kernellab.emulator.syntax import (
    Group,
    Guard,
    Immediate,
    Instruction,
    Memory,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Variable,
    Vector,
)
from kernellab.emulator.tokens import is_number, number
from kernellab.errors import UnsupportedPTXError

if TYPE_CHECKING:
    from kernellab.emulator.parser import Parser

_SPECIAL = re.compile(
    r"%(?:n?tid|n?ctaid|cluster_n?ctaid|nclusterid|clusterid)\.[xyz]$"
    r"|%(?:laneid|warpid|nwarpid|warpsize|smid|nsmid|gridid|clock|clock_hi|clock64|globaltimer|globaltimer_lo"
    r"|globaltimer_hi|lanemask_(?:eq|le|lt|ge|gt)|dynamic_smem_size|total_smem_size|aggr_smem_size"
    r"|current_graph_exec|cluster_ctarank|cluster_nctarank|is_explicit_cluster|envreg\d+|pm\d+(?:_64)?)$"
    r"|WARP_SZ$"
)
_WRAPPED = ("cp.async.ca.", "cp.async.cg.", "ldmatrix.")
"""Accesses that CUDA C has no expression for: one in a wrapper counts where it is called, as a load does."""


class Body:
    """The body of one function: its registers, variables, labels and instructions."""

    def __init__(self, parser: Parser) -> None:
        self.parser = parser
        self.scopes: list[dict[str, str]] = []
        self.registers: dict[str, str] = {}
        self.variables: list[Variable] = []
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.branch_targets: dict[str, tuple[str, ...]] = {}
        self.inner_labels: list[dict[str, str]] = []

    def block(self) -> None:
        """Parse statements up to the closing brace, which is taken."""
        parser = self.parser
        self.scopes.append({})
        self.inner_labels.append({})
        first = len(self.instructions)
        while not parser.accept("}"):
            word = parser.head
            if word == "{":
                parser.take()
                self.block()
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
        self.rename_targets(first, self.inner_labels.pop())

    def rename_targets(self, first: int, names: dict[str, str]) -> None:
        """Give the jumps of a scope the unique names of its labels, which other scopes may have too."""
        for index in range(first, len(self.instructions) if names else first):
            instruction = self.instructions[index]
            if instruction.opcode.startswith("bra"):
                operands = tuple(
                    Symbol(names.get(each.name, each.name)) if isinstance(each, Symbol) else each
                    for each in instruction.operands
                )
                self.instructions[index] = replace(instruction, operands=operands)

    def loc(self) -> None:
        """Parse ``.loc``: where the following instructions come from."""
        parser = self.parser
        parser.take()
        place = self.place()
        while parser.accept(","):  # , function_name label+off, inlined_at file line column
            if parser.take() == "function_name":
                parser.take()
                if parser.accept("+"):
                    parser.take()
            else:
                parser.callers[place] = self.place()
        if place[1]:
            parser.location = parser.in_user_code(place)

    def place(self) -> tuple[int, int]:
        """Parse file, line and column."""
        file, line, _ = (number(self.parser.take()).value for _ in range(3))
        return file, line

    def unique(self, name: str) -> str:
        """Return a name that no register or variable of the function has yet."""
        taken = name in self.registers or any(v.name == name for v in self.variables)
        return f"{name}@{len(self.registers) + len(self.variables)}" if taken else name

    def register_statement(self) -> None:
        """Parse ``.reg``."""
        parser = self.parser
        parser.take(".reg")
        kind = parser.take()[1:]
        if kind in ("v2", "v4"):
            raise UnsupportedPTXError(f"PTX line {parser.line}: vector registers are not supported")
        while not parser.accept(";"):
            name = parser.take()
            if parser.accept("<"):
                count = number(parser.take()).value
                parser.take(">")
                names = [f"{name}{i}" for i in range(count)]
            else:
                names = [name]
            for each in names:
                unique = self.unique(each)
                self.registers[unique] = kind
                if unique != each or len(self.scopes) > 1:
                    self.scopes[-1][each] = unique
            parser.accept(",")

    def declare_variables(self) -> None:
        """Parse variables that belong to the function."""
        for variable in self.parser.variable_statement():
            unique = self.unique(variable.name)
            if unique != variable.name:
                self.scopes[-1][variable.name] = unique
                variable = replace(variable, name=unique)
            elif len(self.scopes) > 1:
                self.scopes[-1][variable.name] = unique
            self.variables.append(variable)

    def resolve(self, name: str) -> str:
        """Return the unique name of what a word means here."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    def label(self) -> None:
        """Parse a label, or a table of labels."""
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
            if len(self.scopes) > 1:
                unique = f"{name}@{len(self.labels)}"
                self.inner_labels[-1][name] = unique
                name = unique
            self.labels[name] = len(self.instructions)

    def instruction(self) -> None:
        """Parse an instruction with its guard."""
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
        place = parser.location
        file, source_line = parser.in_kernel_file(place) if word.startswith(_WRAPPED) else place
        self.instructions.append(
            Instruction(len(self.instructions), line, word, tuple(operands), guard, file, source_line)
        )

    def operand(self) -> Operand:
        """Parse an operand."""
        parser = self.parser
        word = parser.take()
        if word == "{":
            return Vector(tuple(self.sequence("}")))
        if word == "(":
            return Group(tuple(self.sequence(")")))
        if word == "[":
            base, *extra = self.sequence("]")
            if isinstance(base, Memory):
                return Memory(base.base, base.offset, tuple(extra))
            return Memory(base, 0, tuple(extra))
        if word == "!":
            return Register(self.resolve(parser.take()), True)
        if word == "-":
            value = number(parser.take())
            return Immediate(-value.value) if value.type == "int" else Immediate(
                value.value ^ (1 << (31 if value.type == "f32" else 63)), value.type
            )  # fmt: skip
        if word == "~":
            return Immediate(~number(parser.take()).value)
        if word == "_":
            return Sink()
        if is_number(word):
            return number(word)
        return self.named(word)

    def named(self, word: str) -> Operand:
        """Parse an operand that starts with a name, perhaps with an offset."""
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
            offset += sign * number(self.parser.take()).value
        if offset and isinstance(base, Symbol):
            return Symbol(base.name, offset)
        return Memory(base, offset) if offset else base

    def sequence(self, closing: str) -> Iterator[Operand]:
        """Parse operands up to a closing bracket."""
        while not self.parser.accept(closing):
            yield self.operand()
            self.parser.accept(",")
