"""The parser of a PTX module: directives, variables, functions. Recursive descent over words."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kernellab.emulator.parser_body import Body
from kernellab.emulator.syntax import TYPE_BYTES, Function, Immediate, Module, Symbol, Variable
from kernellab.emulator.tokens import is_number, number, tokens_of
from kernellab.errors import UnsupportedPTXError

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', re.MULTILINE)
_TOOLKIT = re.compile(r"[\\/](?:nvidia[\\/]\w+|cuda-?[\d.]*(?:[\\/]targets[\\/][^\\/]+)?)[\\/]include[\\/]")


class Parser:
    """Recursive descent over the token list; one instance parses one module."""

    def __init__(self, text: str) -> None:
        words, self.lines = tokens_of(text)
        self.words = [*words, "", ""]  # empty at the end, for the next word and the one after it
        self.position = 0
        self.functions: dict[str, Function] = {}
        self.variables: dict[str, Variable] = {}
        self.files: dict[int, str] = {}
        self.version = self.target = ""
        self.location = (0, 0)
        self.callers: dict[tuple[int, int], tuple[int, int]] = {}
        self.toolkit = {int(index) for index, path in _FILE.findall(text) if _TOOLKIT.search(path)}

    def in_user_code(self, place: tuple[int, int]) -> tuple[int, int]:
        """Follow a place in a header of the CUDA toolkit to the line that called it, where that is known."""
        for _ in range(len(self.callers)):
            if place[0] not in self.toolkit or place not in self.callers:
                break
            place = self.callers[place]
        return place

    def in_kernel_file(self, place: tuple[int, int]) -> tuple[int, int]:
        """Follow a place in any header to the line of the function's own file that called it."""
        chain = [place]
        while (caller := self.callers.get(chain[-1], chain[0])) not in chain:
            chain.append(caller)
        return next(each for each in chain if each[0] == chain[-1][0])

    # -- token helpers
    @property
    def head(self) -> str:
        """The next word; empty at the end."""
        return self.words[self.position]

    @property
    def following(self) -> str:
        """The word after the next."""
        return self.words[self.position + 1]

    @property
    def line(self) -> int:
        """The line of the next word."""
        return self.lines[min(self.position, len(self.lines) - 1)] if self.lines else 0

    def take(self, expected: str | None = None) -> str:
        """Take the next word; refuse another than `expected`."""
        text = self.words[self.position]
        if not text or (expected is not None and text != expected):
            raise UnsupportedPTXError(
                f"PTX line {self.line}: found {repr(text) if text else 'the end of the text'} where "
                f"{repr(expected) if expected else 'more'} was expected; is this a whole PTX file?"
            )
        self.position += 1
        return text

    def accept(self, text: str) -> bool:
        """Take the next word if it is `text`."""
        if self.words[self.position] == text:
            self.position += 1
            return True
        return False

    # -- module level
    def module(self) -> Module:
        """Parse the whole text."""
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
        """Take words up to a semicolon."""
        while self.head and self.take() != ";":
            pass

    def file(self) -> None:
        """Parse ``.file``."""
        self.take(".file")
        index = number(self.take()).value
        self.files[index] = self.take().strip('"')
        while self.accept(","):
            self.take()

    def section(self) -> None:
        """Skip a ``.section`` with debug information."""
        self.take(".section")
        self.take()
        self.take("{")
        depth = 1
        while depth:
            depth += {"{": 1, "}": -1}.get(self.take(), 0)

    def declaration(self) -> None:
        """Parse a function, or a statement that declares variables."""
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
        """Parse variables of one state space up to the semicolon."""
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
        """Parse one variable, or one parameter."""
        kind, align, lanes = (declared[0], declared[1], 1) if declared else ("b8", 0, 1)
        while self.head.startswith("."):
            word = self.take()[1:]
            if word == "align":
                align = number(self.take()).value
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
            count *= number(self.take()).value
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
        """Parse what a variable holds at first."""
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
        if is_number(word):
            value = number(word)
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
            offset += sign * number(self.take()).value
        yield Symbol(word, offset)

    # -- functions
    def parameter_list(self) -> tuple[Variable, ...]:
        """Parse a parenthesised list of parameters."""
        found: list[Variable] = []
        self.take("(")
        while not self.accept(")"):
            if self.head in (".param", ".reg"):
                self.take()
            found.append(self.variable("param"))
            self.accept(",")
        return tuple(found)

    def function(self, is_entry: bool) -> None:
        """Parse a kernel or a device function."""
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
            while self.head and (is_number(self.head) or self.head == ","):
                if not self.accept(","):
                    numbers.append(number(self.take()).value)
            performance[word] = tuple(numbers)
            if word == "pragma":
                self.skip_statement()
        if self.accept(";"):
            return
        self.location = (0, 0)
        body = Body(self)
        self.take("{")
        body.block()
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
