"""Source with its counts beside the lines, as a table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.report.numbers import plain, short
from kernellab.report.table import Column, Table

if TYPE_CHECKING:
    from kernellab.emulator.summary import Line

GAP = 4
"""Lines without code that are still shown between two lines with code."""


def source_tables(lines: Sequence[Line], label: str) -> tuple[Table, ...]:
    """Return a table a file: counts at the left, text at the right; columns without any count are left out.

    Parameters
    ----------
    lines : sequence of Line
        As a Trace or a Record has them.
    label : str
        How they were counted.
    """
    files = dict.fromkeys(line.file for line in lines)
    return tuple(_file_table(file, [line for line in lines if line.file == file], label) for file in files)


def _file_table(file: str, lines: Sequence[Line], label: str) -> Table:
    shown = [column for column in _COLUMNS if any(column[1](line) for line in lines)]
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
    columns = (
        Column("line", "", is_number=True),
        *(Column(column[0], label, is_number=True) for column in shown),
        Column(_short_path(file)),
    )
    return Table("", columns, tuple(rows), (f"{_legend([column[0] for column in shown])}; {label}",))


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


def _lanes(line: Line) -> str:
    return plain(line.mean_active_lanes, 1) if line.warp_executions else ""


def _per(above: int, below: int) -> str:
    return plain(above / below, 1) if below else ""


_COLUMNS = (
    ("warps", lambda line: short(line.warp_executions)),
    ("lanes", _lanes),
    ("diverge", lambda line: short(line.divergent_branches)),
    ("req", lambda line: short(line.requests)),
    ("sec/req", lambda line: _per(line.sectors, line.requests)),
    ("sh.req", lambda line: short(line.shared_requests)),
    ("wav/req", lambda line: _per(line.shared_wavefronts, line.shared_requests)),
    ("confl", lambda line: short(line.bank_conflicts)),
    ("atomics", lambda line: short(line.atomics)),
)
_MEANINGS = {
    "warps": "warps: times a warp ran it",
    "lanes": "lanes: active of 32",
    "diverge": "diverge: branches that split a warp",
    "req": "req: global and local requests",
    "sec/req": "sec/req: 32-byte sectors a request",
    "sh.req": "sh.req: shared requests",
    "wav/req": "wav/req: wavefronts a shared request",
    "confl": "confl: bank conflicts",
    "atomics": "atomics: atomic requests",
}


def _legend(names: Sequence[str]) -> str:
    return "; ".join(_MEANINGS[name] for name in names)
