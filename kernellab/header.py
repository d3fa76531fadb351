"""Header: what a `.cu` file says of itself in its opening comment, read by machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kernellab.errors import SpecError


@dataclass(frozen=True)
class Count:
    """A number that a ``.cu`` header states and the emulator checks.

    Attributes
    ----------
    space : {"global", "shared"}
        Which memory.
    operation : {"load", "store", "atomic"}
        What is done.
    array : str
        The array's name in the source.
    value : float
        The count.
    unit : {"sectors/request", "wavefronts/request", "requests"}
        Its unit; requests are those of the whole launch.
    """

    space: str
    operation: str
    array: str
    value: float
    unit: str


@dataclass(frozen=True)
class Header:
    """The opening comment of a ``.cu`` file: id, lesson, sections by keyword, counts."""

    id: str
    lesson: str
    sections: Mapping[str, str]
    counts: tuple[Count, ...]


_TITLE = re.compile(r"^// (?P<id>[\w/]+): (?P<lesson>.+)$")
_COUNT = re.compile(
    r"^// (?P<shared>shared )?(?P<operation>load|store|atomic) (?P<array>\w+) "
    r"(?P<value>\d+(?:\.\d+)?) (?P<unit>(?:sectors|wavefronts)/request|requests)$"
)
_SECTION = re.compile(r"^// (?P<key>computes|mapping|teaches|source) +(?P<text>.+)$")


def parse_header(text: str, who: str) -> Header:
    """Read the opening comment of a ``.cu`` file.

    Parameters
    ----------
    text : str
        The whole file.
    who : str
        The kernel's id, for messages.

    Returns
    -------
    Header
        Its parts.

    Raises
    ------
    SpecError
        If the first line is not ``// <id>: <lesson>``.
    """
    lines = text.splitlines()
    title = _TITLE.match(lines[0]) if lines else None
    if title is None:
        raise SpecError(
            f"{who}: the .cu file must open with '// {who}: <lesson>', it opens with {lines[:1]!r}"
        )
    sections: dict[str, str] = {}
    counts: list[Count] = []
    key = ""
    for line in lines[1:]:
        if not line.startswith("//"):
            break
        if count := _COUNT.match(line):
            space = "shared" if count["shared"] else "global"
            counts.append(
                Count(
                    space,
                    count["operation"],
                    count["array"],
                    float(count["value"]),
                    count["unit"],
                )
            )
        elif section := _SECTION.match(line):
            key = section["key"]
            sections[key] = section["text"]
        elif key and line.startswith("//   "):
            sections[key] += " " + line[2:].strip()
    return Header(title["id"], title["lesson"], sections, tuple(counts))


def measured(count: Count, lines: Iterable[Any]) -> float:
    """Return what was counted where the header states a number.

    Parameters
    ----------
    count : Count
        One of `Header.counts`.
    lines : iterable of Line
        ``Trace.lines``; those that access the array are chosen by their text.

    Returns
    -------
    float
        Requests, or sectors or wavefronts a request; NaN if no such line made a request.
    """
    chosen = [line for line in lines if _accesses(line.text, count)]
    if count.space == "shared":
        requests = sum(line.shared_requests for line in chosen)
        units = sum(line.shared_wavefronts for line in chosen)
    else:
        requests = sum(line.requests for line in chosen)
        units = sum(line.sectors for line in chosen)
    if not requests:
        return float("nan")
    return float(requests if count.unit == "requests" else units / requests)


def agrees(count: Count, value: float) -> bool:
    """Whether a counted value is the one stated, to the digits stated (two at most)."""
    return abs(value - count.value) <= (0.005 if count.value % 1 else 1e-9)


def _accesses(text: str, count: Count) -> bool:
    code = text.partition("//")[0]
    target, equals, source = re.sub(r"[<>=!]=", "  ", code).partition("=")
    array = re.compile(rf"\b{count.array}\b")
    if ("atomic" in code) != (count.operation == "atomic"):
        return False
    if count.operation == "atomic":
        return bool(array.search(code))
    if count.operation == "load":
        return bool(array.search(source if equals else code))
    return bool(equals and array.search(target))
