"""Source with its counts beside the lines, as a table."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.report.numbers import plain, short
from kernellab.report.table import Column, Table

if TYPE_CHECKING:
    from kernellab.emulator.summary import Line

GAP = 4
"""Lines without code that are still shown between two lines with code."""


def source_tables(lines: Sequence[Line], label: str, width: int = 120) -> tuple[Table, ...]:
    """Return a table a file: counts at the left, text at the right; columns without any count are left out.

    Parameters
    ----------
    lines : sequence of Line
        As a Trace or a Record has them.
    label : str
        How they were counted.
    width : int
        Columns there are: under 100, the numbers of requests are left out.
    """
    files = dict.fromkeys(line.file for line in lines)
    shown = [column for column in _COLUMNS if width >= 100 or column[0] not in ("req", "shared\nreq")]
    return tuple(
        _file_table(file, [line for line in lines if line.file == file], label, shown) for file in files
    )


def _file_table(file: str, lines: Sequence[Line], label: str, columns: Sequence[_Shown]) -> Table:
    shown = [column for column in columns if any(column[1](line) for line in lines)]
    texts = _texts(file, lines)
    by_number = {line.number: line for line in lines}
    rows: list[tuple[str, ...]] = []
    last = None
    for number in sorted(by_number):
        rows += _between(texts, last, number, len(shown))
        line = by_number[number]
        text = texts.get(number, line.text)
        rows.append((str(number), *(column[1](line) for column in shown), text.rstrip().expandtabs(4)))
        last = number
    heads = (
        Column("line", "", is_number=True),
        *(Column(column[0], _basis(column[0], label), is_number=True) for column in shown),
        Column("source"),
    )
    return Table(
        _short_path(file), heads, tuple(rows), (f"{_legend([column[0] for column in shown])}; {label}",)
    )


def _between(texts: dict[int, str], last: int | None, number: int, width: int) -> list[tuple[str, ...]]:
    if last is None or number == last + 1:
        return []
    empty = ("",) * width
    between = range(last + 1, number)
    if len(between) <= GAP and all(each in texts for each in between):
        return [(str(each), *empty, texts[each].rstrip().expandtabs(4)) for each in between]
    return [("", *empty, "...")]


def _texts(file: str, lines: Sequence[Line]) -> dict[int, str]:
    """The whole file's lines, if it is still the file that ran; else only those with code."""
    known = {line.number: line.text for line in lines if line.text}
    try:
        whole = dict(enumerate(Path(file).read_text(encoding="utf-8").splitlines(), 1))
    except (OSError, UnicodeDecodeError, ValueError):
        return known
    return whole if known and all(whole.get(number) == text for number, text in known.items()) else known


def _short_path(file: str) -> str:
    try:
        relative = os.path.relpath(file)
    except ValueError:
        return file
    return file if relative.startswith("..") else relative


def _basis(header: str, label: str) -> str:
    if header in ("warps", "lanes"):
        return "PTX"
    return "approximate" if label.startswith("approximate") else "SASS"


def _lanes(line: Line) -> str:
    return plain(line.mean_active_lanes, 1) if line.warp_executions else ""


def _per(above: int, below: int) -> str:
    return plain(above / below, 1) if below else ""


_Shown = tuple[str, Callable[["Line"], str]]
_COLUMNS: tuple[_Shown, ...] = (
    ("warps", lambda line: short(line.warp_executions)),
    ("lanes", _lanes),
    ("div.", lambda line: short(line.divergent_branches)),
    ("req", lambda line: short(line.requests)),
    ("sect\n/req", lambda line: _per(line.sectors, line.requests)),
    ("shared\nreq", lambda line: short(line.shared_requests)),
    ("wave\n/req", lambda line: _per(line.shared_wavefronts, line.shared_requests)),
    ("conf.", lambda line: short(line.bank_conflicts)),
    ("atom.", lambda line: short(line.atomics)),
)
_MEANINGS = {
    "warps": "warps: times a warp ran it",
    "lanes": "lanes: active of 32",
    "div.": "div.: branches that split a warp",
    "req": "req: global and local requests",
    "sect\n/req": "sect/req: 32-byte sectors a request",
    "shared\nreq": "shared req: shared requests",
    "wave\n/req": "wave/req: wavefronts a shared request",
    "conf.": "conf.: bank conflicts",
    "atom.": "atom.: atomic requests",
}


def _legend(names: Sequence[str]) -> str:
    return "; ".join(_MEANINGS[name] for name in names)
