"""PTX text as words: names, literals, punctuation, each with its line."""

from __future__ import annotations

import re
import struct

from kernellab.emulator.syntax import Immediate

_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"'
    r"|0[fF][0-9a-fA-F]{8}(?![\w$])|0[dD][0-9a-fA-F]{16}(?![\w$])"
    r"|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+U?"
    r"|[.%@]?[A-Za-z_$%][\w$%]*(?:\.[\w$]+|::[\w$.]+)*"
    r"|[-+\[\](){},;:@!|=<>~]"
)
_JOINED = re.compile(r"(?<![\w$])\.[\w$]+\.")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def tokens_of(text: str) -> tuple[list[str], list[int]]:
    """Cut PTX text into words, and give the line of each; comments and blanks go."""
    text = _COMMENT.sub(lambda match: "\n" * match.group().count("\n"), text)
    words: list[str] = []
    lines: list[int] = []
    for line, row in enumerate(text.split("\n"), 1):
        found = _TOKEN.findall(row)
        if _JOINED.search(row):
            found = [part for word in found for part in _apart(word)]
        words += found
        lines += [line] * len(found)
    return words, lines


def _apart(word: str) -> list[str]:
    """Cut directives that are written together: .reg.b32."""
    return ["." + part for part in word[1:].split(".")] if word[0] == "." and "." in word[1:] else [word]


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
