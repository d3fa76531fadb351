"""PTX text as words: names, literals, punctuation, each with its line."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from kernellab.emulator.syntax import Immediate

_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"'
    r"|0[fF][0-9a-fA-F]{8}(?![\w$])|0[dD][0-9a-fA-F]{16}(?![\w$])"
    r"|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+U?"
    r"|[.%@]?[A-Za-z_$%][\w$%]*(?:\.[\w$]+|::[\w$.]+)*"
    r"|[-+\[\](){},;:@!|=<>~]"
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(slots=True)
class Token:
    """A word of PTX, and the line where it stands."""

    text: str
    line: int


def tokens_of(text: str) -> list[Token]:
    """Cut PTX text into words; comments and blanks go."""
    text = _COMMENT.sub(lambda match: "\n" * match.group().count("\n"), text)
    tokens: list[Token] = []
    line = 1
    position = 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", position, match.start())
        position = match.start()
        word = match.group()
        if word[0] == "." and "." in word[1:]:  # directives written together: .reg.b32
            tokens.extend(Token("." + part, line) for part in word[1:].split("."))
        else:
            tokens.append(Token(word, line))
    return tokens


def is_number(text: str) -> bool:
    """Say whether a word is a literal."""
    return text[0].isdigit()


def number(text: str) -> Immediate:
    """Read a literal."""
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
