"""Curves over a swept size, as lines of text and as shapes for a page."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from rich.text import Text

from kernellab.experiments.picture import Curves
from kernellab.report.numbers import plain

ROWS = 14
ROOM = 9
"""Columns for the numbers of the axis."""
SIGNS = "o+x*#@"
STYLES = ("green", "yellow", "red", "cyan", "magenta", "white")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 300, 60, 150, 30, 30
"""Of a page's picture, and of its margins."""


def size(value: float, unit: str) -> str:
    """Return a number of an axis: sizes in KiB and so on, rates in G and so on.

    Examples
    --------
    >>> size(16384, "B"), size(3 << 20, "B"), size(32, "addresses"), size(4.25e12, "B/s"), size(2e9, "additions/s")
    ('16 KiB', '3 MiB', '32', '4.25 TB/s', '2 G')
    """
    if unit == "B":
        for name, each in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
            if value >= each:
                return f"{plain(value / each, 1)} {name}"
        return f"{plain(value)} B"
    if unit.endswith("/s"):
        shown = unit if unit == "B/s" else ""
        for name, factor in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
            if value >= factor:
                return f"{plain(value / factor)} {name}{shown}"
    return plain(value, 1)


def curve_lines(picture: Curves, width: int = 80) -> list[Text]:
    """Return curves as lines of text: a sign a series, an upright bar a mark.

    Examples
    --------
    >>> from kernellab.experiments.picture import Mark, Series
    >>> flat = Curves("reads", "B", "B/s", (Series("L2", ((1024, 1e12), (4096, 1e9))),), (Mark("L1", 2048),))
    >>> print(curve_lines(flat, 40)[0].plain)
    reads (B/s, log scale): o L2
    """
    columns = max(20, min(width, 100) - ROOM - 4)
    cells = [[(" ", "")] * columns for _ in range(ROWS)]
    (left, right), (low, high) = picture.window
    names = " " * columns
    for mark in picture.marks:
        if left <= mark.x <= right:
            column = round(picture.place(mark.x, low)[0] * (columns - 1))
            for row in cells:
                row[column] = ("|", "dim")
            start = min(column, columns - len(mark.label))
            names = names[:start] + mark.label + names[start + len(mark.label) :]
    for index, series in enumerate(picture.series):
        sign = (SIGNS[index % len(SIGNS)], STYLES[index % len(STYLES)])
        for x, y in _filled([picture.place(*point) for point in series.points], columns):
            cells[round((1 - y) * (ROWS - 1))][x] = sign
    told = "   ".join(f"{SIGNS[i % len(SIGNS)]} {each.label}" for i, each in enumerate(picture.series))
    across, up = picture.axes
    lines = [Text(f"{picture.title} ({up}): {told}", "bold")]
    numbers = {0: size(high, picture.y_unit), ROWS - 1: size(low, picture.y_unit)}
    for number, row in enumerate(cells):
        lines.append(Text.assemble(f"{numbers.get(number, ''):>{ROOM + 2}} ", *row))
    if names.strip():
        lines.append(Text(f"{'':>{ROOM + 3}}{names.rstrip()}", "dim"))
    first, last = (size(value, picture.x_unit) for value in (left, right))
    middle = f"{across:^{columns - len(first) - len(last)}}"
    lines.append(Text(f"{'':>{ROOM + 3}}{first}{middle}{last}", "dim"))
    for line in lines:
        line.rstrip()
    return lines


def _filled(points: list[tuple[float, float]], columns: int) -> Iterator[tuple[int, float]]:
    """Yield a column and a height for every column from the first point to the last, straight between points."""
    placed = [(round(x * (columns - 1)), y) for x, y in points]
    yield from placed[:1]
    for (start, before), (stop, after) in pairwise(placed):
        for column in range(start + 1, stop + 1):
            yield column, before + (after - before) * (column - start) / (stop - start)


def curve_shapes(picture: Curves) -> dict[str, Any]:
    """Return curves as the lines and texts of a drawing."""

    def at(x: float, y: float) -> tuple[float, float]:
        across, up = picture.place(x, y)
        return (
            round(LEFT + across * (WIDTH - LEFT - RIGHT), 1),
            round(TOP + (1 - up) * (HEIGHT - TOP - BOTTOM), 1),
        )

    def text(x: float, y: float, words: str, anchor: str, kind: str = "dim") -> dict[str, Any]:
        return {"x": x, "y": y, "text": words, "anchor": anchor, "kind": kind}

    (left, right), (low, high) = picture.window
    across, up = picture.axes
    ruled, texts = (
        [],
        [text(4, 12, up, "start"), text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, across, "middle")],
    )
    for y in (low, high):
        (x1, height), (x2, _) = at(left, y), at(right, y)
        ruled.append({"x1": x1, "y1": height, "x2": x2, "y2": height, "kind": "axis"})
        texts.append(text(LEFT - 6, height + 4, size(y, picture.y_unit), "end"))
    for x, anchor in ((left, "start"), (right, "end")):
        texts.append(text(at(x, low)[0], HEIGHT - 8, size(x, picture.x_unit), anchor))
    for mark in picture.marks:
        if left <= mark.x <= right:
            place = at(mark.x, low)[0]
            ruled.append({"x1": place, "y1": TOP, "x2": place, "y2": HEIGHT - BOTTOM, "kind": "at"})
            texts.append(text(place, TOP - 6, mark.label, "middle"))
    drawn = [
        " ".join(f"{x},{y}" for x, y in (at(*point) for point in each.points)) for each in picture.series
    ]
    ends = sorted((at(*each.points[-1])[::-1], each.label) for each in picture.series)
    free = 0.0
    for (y, x), label in ends:  # from top to bottom, none over another
        free = max(y + 4, free + 13)
        texts.append(text(x + 8, round(free, 1), label, "start", "label"))
    return {"width": WIDTH, "height": HEIGHT, "ruled": ruled, "drawn": drawn, "texts": texts}
