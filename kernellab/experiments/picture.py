"""Pictures as plain data: what an experiment wants seen at a glance; `kernellab.report` draws them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from kernellab.timeline import STAGES, Span


@dataclass(frozen=True)
class Bar:
    """One bar.

    Attributes
    ----------
    label : str
        What it stands for.
    values : mapping of str to float
        Its length by language.
    """

    label: str
    values: Mapping[str, float]


@dataclass(frozen=True)
class Bars:
    """Numbers beside each other on one scale.

    Attributes
    ----------
    title, unit : str
        What is drawn and in what.
    bars : tuple of Bar
        From top to bottom.
    full : float
        The value of a whole bar.
    ideal : float
        The value without waste; 0 for none.
    """

    title: str
    unit: str
    bars: tuple[Bar, ...]
    full: float
    ideal: float = 0.0


@dataclass(frozen=True)
class BankMap:
    """Which lane is served by which bank, wavefront after wavefront.

    Attributes
    ----------
    title : str
        Which access.
    wavefronts : tuple of tuple of int
        A row a wavefront, 32 banks a row; a lane's number, or -1 for an idle bank.
    """

    title: str
    wavefronts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class SourceLine:
    """A line of a kernel and how full its warps were."""

    number: int
    text: str
    lanes: float
    executions: int


@dataclass(frozen=True)
class LaneMap:
    """Mean active lanes by source line.

    Attributes
    ----------
    title : str
        Which kernel.
    lines : tuple of SourceLine
        In the order of the source.
    """

    title: str
    lines: tuple[SourceLine, ...]


@dataclass(frozen=True)
class Timeline:
    """When the stages of a pipeline's chunks ran; a row a stage, so that what overlaps stands above each other.

    Attributes
    ----------
    title, unit : str
        What ran, and what time is shown in.
    spans : tuple of Span
        In seconds, or in steps of a schedule.
    scale : float
        What a span's times are multiplied by to be shown.
    """

    title: str
    unit: str
    spans: tuple[Span, ...]
    scale: float = 1.0

    @property
    def total(self) -> float:
        """When the last one ends; 1 where nothing took any time."""
        return max((span.stop for span in self.spans), default=0.0) or 1.0

    @property
    def rows(self) -> dict[str, list[Span]]:
        """The spans of each stage: of a pipeline in the order of its stages, else by name."""
        known = {span.stage for span in self.spans}
        rows: dict[str, list[Span]] = {
            stage: [] for stage in (STAGES if known <= {*STAGES} else sorted(known))
        }
        for span in self.spans:
            rows[span.stage].append(span)
        return rows


@dataclass(frozen=True)
class Series:
    """One curve: a label, and its points from left to right."""

    label: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Mark:
    """A place on the axis along which something is swept, such as the size of a cache."""

    label: str
    x: float


@dataclass(frozen=True)
class Curves:
    """What something comes to as a size is swept, on a scale of logarithms.

    Attributes
    ----------
    title, x_unit, y_unit : str
        What is drawn, and in what; sizes in ``"B"`` are written as KiB, MiB and GiB.
    series : tuple of Series
        Values above 0.
    marks : tuple of Mark
        Places worth a line.
    is_x_log : bool
        Whether the axis along which something is swept is one of logarithms too.
    """

    title: str
    x_unit: str
    y_unit: str
    series: tuple[Series, ...]
    marks: tuple[Mark, ...] = ()
    is_x_log: bool = True

    @property
    def axes(self) -> tuple[str, str]:
        """What stands along each axis: its unit, and its scale if that is not even."""
        return f"{self.x_unit}, log scale" if self.is_x_log else self.x_unit, f"{self.y_unit}, log scale"

    @property
    def window(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """The least and the largest along each axis."""
        points = [point for series in self.series for point in series.points]
        xs, ys = ([point[axis] for point in points] for axis in (0, 1))
        return (min(xs), max(xs)), (min(ys), max(ys))

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Return where a point stands in the window, from 0 to 1 along each axis; in the middle of no width."""
        (left, right), (low, high) = self.window
        if self.is_x_log:
            x, left, right = math.log(x), math.log(left), math.log(right)
        y, low, high = math.log(y), math.log(low), math.log(high)
        across, up = (
            (value - first) / (last - first) if last > first else 0.5
            for value, first, last in ((x, left, right), (y, low, high))
        )
        return across, up


Picture: TypeAlias = Bars | BankMap | LaneMap | Timeline | Curves


def picture_to_dict(picture: Picture) -> dict[str, Any]:
    """Return a picture as plain values for JSON."""
    return {"kind": type(picture).__name__, **asdict(picture)}


def picture_from_dict(data: Mapping[str, Any]) -> Picture:
    """Return the picture that `picture_to_dict` wrote."""
    title = data["title"]
    if data["kind"] == "BankMap":
        return BankMap(title, tuple(tuple(row) for row in data["wavefronts"]))
    if data["kind"] == "LaneMap":
        return LaneMap(title, tuple(SourceLine(**line) for line in data["lines"]))
    if data["kind"] == "Timeline":
        return Timeline(title, data["unit"], tuple(Span(**span) for span in data["spans"]), data["scale"])
    if data["kind"] == "Curves":
        series = tuple(Series(each["label"], tuple(map(tuple, each["points"]))) for each in data["series"])
        marks = tuple(Mark(**mark) for mark in data["marks"])
        return Curves(title, data["x_unit"], data["y_unit"], series, marks, data.get("is_x_log", True))
    bars = tuple(Bar(bar["label"], bar["values"]) for bar in data["bars"])
    return Bars(title, data["unit"], bars, data["full"], data["ideal"])
