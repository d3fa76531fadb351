"""Pictures as plain data: what an experiment wants seen at a glance; `kernellab.report` draws them."""

from __future__ import annotations

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
        """When the last one ends."""
        return max((span.stop for span in self.spans), default=0.0)

    @property
    def rows(self) -> dict[str, list[Span]]:
        """The spans of each stage, in the order of stages."""
        rows: dict[str, list[Span]] = {stage: [] for stage in STAGES}
        for span in self.spans:
            rows[span.stage].append(span)
        return rows


Picture: TypeAlias = Bars | BankMap | LaneMap | Timeline


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
    bars = tuple(Bar(bar["label"], bar["values"]) for bar in data["bars"])
    return Bars(title, data["unit"], bars, data["full"], data["ideal"])
