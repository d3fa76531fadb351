"""Results of suites as Markdown, and what stands between a README's markers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kernellab.errors import SpecError
from kernellab.experiments.picture import Picture
from kernellab.report.numbers import language_name
from kernellab.report.pictures import draw
from kernellab.results import Results, Shown, stale

END = "<!-- end -->"
TABLES = (
    "claims",
    "launches",
    "hierarchy",
    "memory",
    "rows",
    "products",
    "optimizer",
    "backward",
    "ladder",
    "peers",
    "streams",
    "all_reduce",
    "counters",
    "clock",
)
"""Suites whose tables the README shows; of the others it shows the bars."""


def replace_between(text: str, marker: str, body: str) -> str:
    r"""Return a text with what stands between ``<!-- marker -->`` and the next ``<!-- end -->`` replaced.

    Raises
    ------
    SpecError
        If the markers are not there.

    Examples
    --------
    >>> replace_between("a\n<!-- x -->\nold\n<!-- end -->\nb", "x", "new")
    'a\n<!-- x -->\nnew\n<!-- end -->\nb'
    """
    start = f"<!-- {marker} -->\n"
    before, found, rest = text.partition(start)
    _, closed, after = rest.partition(END)
    if not found or not closed:
        raise SpecError(f"readme: it has no {start.strip()} followed by {END}; add both, each on its line")
    inside = f"{body.strip()}\n" if body.strip() else ""
    return f"{before}{start}{inside}{END}{after}"


def cell(value: Any, shown: Shown) -> str:
    """Return a value as a table shows it; a dash for nothing.

    Examples
    --------
    >>> cell(1.25e-4, Shown("seconds", "us", 1e6, 1)), cell("numba", Shown("language", "language"))
    ('125.0', 'Numba')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    if isinstance(value, str):
        return language_name(value)
    return f"{value * shown.scale:,.{shown.digits}f}"


def shown_rows(results: Results) -> list[Mapping[str, Any]]:
    """Return the rows that have every column and took time; others are raw measurements behind them."""
    return [
        row
        for row in results.rows
        if all(column.key in row for column in results.columns) and not _is_void(row)
    ]


def _is_void(row: Mapping[str, Any]) -> bool:
    """Say whether work took no time between the clock's events: it ran elsewhere, and nothing is known."""
    return row.get("seconds") == 0


def voids(results: Results) -> tuple[str, ...]:
    """Return what to say of work that was not seen."""
    names = [str(row.get("workload", row.get("kernel"))) for row in results.rows if _is_void(row)]
    return (
        (f"not measured, as it did not run between the clock's events: {', '.join(names)}",) if names else ()
    )


def markdown_table(results: Results) -> str:
    """Return the rows as a Markdown table, numbers to the right; nothing where there are none."""
    rows = shown_rows(results)
    if not rows:
        return ""
    is_number = [all(not isinstance(row[column.key], str) for row in rows) for column in results.columns]
    lines = [
        _line(column.header for column in results.columns),
        _line("---:" if number else "---" for number in is_number),
        *(_line(cell(row[column.key], column) for column in results.columns) for row in rows),
    ]
    return "\n".join(lines)


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(each.replace('|', '/') for each in cells)} |"


def section(results: Sequence[Results]) -> str:
    """Return the README's section of results: machine, bars, tables; nothing without results."""
    if not results:
        return ""
    by_name = {each.name: each for each in results}
    parts = ["## Results", _machines(results)]
    old = [f"- {each.name}: {', '.join(changed)}" for each in results if (changed := _changed(each))]
    if old:
        parts.append(
            "\n".join(("**Measured before these sources changed**, and to be measured again:\n", *old))
        )
    bars = [
        f"- {'yes' if is_reached else '**no**'}: {text}"
        for each in results
        for text, is_reached in each.bars.items()
    ]
    parts += ["\n".join(bars)] if bars else []
    for name in TABLES:
        if name in by_name and (table := markdown_table(by_name[name])):
            notes = "; ".join((*by_name[name].notes, *voids(by_name[name])))
            parts.append(f"**{by_name[name].title}** ({notes}):\n\n{table}")
            parts += [fenced(each) for each in by_name[name].pictures]
    return "\n\n".join(parts)


def fenced(picture: Picture) -> str:
    """Return a picture as a block of text."""
    return "\n".join(("```", *(line.plain for line in draw(picture, 100)), "```"))


def _changed(results: Results) -> tuple[str, ...]:
    """Return the kernels whose sources are not those that were measured."""
    return tuple(dict.fromkeys(name.rpartition(" ")[0] for name in stale(results)))


def _machines(results: Sequence[Results]) -> str:
    found: dict[str, list[str]] = {}
    for each in results:
        about = each.environment
        driver = f", driver {about['driver']}" if "driver" in about else ""
        key = f"{about.get('device', 'unknown device')}{driver}, {each.made[:10]}"
        found.setdefault(key, []).append(f"[{each.name}](benchmarks/results/{each.name}.json)")
    texts = "; ".join(f"{machine}: {', '.join(names)}" for machine, names in found.items())
    return f"Measured by `kernellab bench gpu`, every raw sample in the files: {texts}."
