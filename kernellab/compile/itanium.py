"""Read the plain name of a kernel out of its mangled one: scopes, and template arguments of simple kinds."""

from __future__ import annotations

import re

_BUILTIN = {
    "v": "void",
    "b": "bool",
    "c": "char",
    "a": "signed char",
    "h": "unsigned char",
    "s": "short",
    "t": "unsigned short",
    "i": "int",
    "j": "unsigned int",
    "l": "long",
    "m": "unsigned long",
    "x": "long long",
    "y": "unsigned long long",
    "f": "float",
    "d": "double",
}
_LITERAL_SUFFIX = {"j": "u", "l": "l", "m": "ul", "x": "ll", "y": "ull"}


def demangle(symbol: str) -> str | None:
    """The name of a mangled function, without its parameters.

    Parameters
    ----------
    symbol : str
        A symbol by the Itanium rules, such as NVRTC and nvcc write for a kernel without C linkage.

    Returns
    -------
    str or None
        None for a name that is not mangled. Template arguments that are no builtin types, numbers or plain
        class names are left out: ``"k<...>"``.

    Examples
    --------
    >>> demangle("_Z4tileIfLi32EEvPT_")
    'tile<float, 32>'
    >>> demangle("_ZN3lab4copyEPf")
    'lab::copy'
    """
    if not symbol.startswith("_Z"):
        return None
    reader = _Reader(symbol[2:])
    try:
        return reader.name()
    except _NotUnderstoodError:
        return reader.partial


class _NotUnderstoodError(Exception):
    """A construction that this reader leaves out."""


class _Reader:
    """A cursor over a mangled name."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.partial: str | None = None

    def name(self) -> str:
        if self._take("N"):
            self._qualifiers()
            parts: list[str] = []
            while not self._take("E"):
                parts.append(self._component(parts))
            return "::".join(parts)
        return self._component([])

    def _component(self, scope: list[str]) -> str:
        self._take("L")
        if self._take("12_GLOBAL__N_1"):
            return "(anonymous namespace)"
        match = re.match(r"(\d+)", self.text)
        if match is None:
            raise _NotUnderstoodError
        length = int(match[1])
        start = len(match[1])
        name = self.text[start : start + length]
        self.text = self.text[start + length :]
        if name.startswith("_GLOBAL__N_"):
            name = "(anonymous namespace)"
        while self._take("B"):
            self._component([])
        if self._take("I"):
            self.partial = "::".join([*scope, f"{name}<...>"])
            arguments: list[str] = []
            while not self._take("E"):
                arguments.append(self._argument())
            name = f"{name}<{', '.join(arguments)}>"
        self.partial = "::".join([*scope, name])
        return name

    def _argument(self) -> str:
        if self._take("L"):
            return self._literal()
        if self._take("P"):
            return self._argument() + "*"
        if self._take("K"):
            return "const " + self._argument()
        if self._take("J"):
            pack = []
            while not self._take("E"):
                pack.append(self._argument())
            return ", ".join(pack)
        if self.text[:1] in _BUILTIN:
            code, self.text = self.text[0], self.text[1:]
            return _BUILTIN[code]
        saved = self.partial
        try:
            return self.name()
        finally:
            self.partial = saved

    def _literal(self) -> str:
        match = re.match(r"([a-z])(n?)(\d+)E", self.text)
        if match is None:
            raise _NotUnderstoodError
        self.text = self.text[match.end() :]
        code, sign, digits = match.groups()
        if code == "b":
            return "true" if digits == "1" else "false"
        return f"{'-' if sign else ''}{digits}{_LITERAL_SUFFIX.get(code, '')}"

    def _qualifiers(self) -> None:
        while self.text[:1] in ("K", "V", "r"):
            self.text = self.text[1:]

    def _take(self, prefix: str) -> bool:
        if self.text.startswith(prefix):
            self.text = self.text[len(prefix) :]
            return True
        return False
