"""Ways: what experiments share that hide one stage behind another: ways in turn, what breaks them, their pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from kernellab.devices.gpu_pipeline import Pass
from kernellab.experiments.common import verdict
from kernellab.experiments.picture import Bar, Bars, Picture, Timeline
from kernellab.report.numbers import language_name
from kernellab.timeline import Overlap, Span

WORK = "overlap needs enough work"
POINTS = "overlap needs few synchronisation points"
IN_ORDER = "what is on one stream runs in order"


@dataclass(frozen=True)
class Measured:
    """What a way took.

    Attributes
    ----------
    variant : object
        What was run, with a ``label``, and a ``reason`` why it overlaps no more than it does.
    samples : tuple of float
        Seconds of each round.
    overlap : Overlap
        Of the medians.
    spans : tuple of Span
        Of the last round.
    """

    digits: ClassVar[str] = ".2f"

    variant: Any
    samples: tuple[float, ...]
    overlap: Overlap
    spans: tuple[Span, ...]

    @property
    def seconds(self) -> float:
        """The median."""
        return self.overlap.seconds

    def __str__(self) -> str:
        reason = f": {self.variant.reason}" if self.variant.reason else ""
        return f"{1e3 * self.seconds:{self.digits}} ms, {self.overlap}{reason}"


Kind = TypeVar("Kind", bound=Measured)


@dataclass(frozen=True)
class Turns:
    """What works took, by name, round after round."""

    passes: Mapping[str, Sequence[Pass]]

    def samples(self, name: str) -> tuple[float, ...]:
        """Return the seconds of each round."""
        return tuple(each.seconds for each in self.passes[name])

    def median(self, name: str) -> float:
        """Return the median of them."""
        return float(np.median(self.samples(name)))

    def measured(self, kind: type[Kind], variant: Any, alone: Mapping[str, float]) -> Kind:
        """Return what a way took, beside its stages alone."""
        overlap = Overlap(self.median(variant.label), alone)
        return kind(variant, self.samples(variant.label), overlap, self.passes[variant.label][-1].spans)


def in_turn(works: Mapping[str, Callable[[], Pass]], rounds: int) -> Turns:
    """Run works one after the other, in every other round backwards."""
    passes: dict[str, list[Pass]] = {name: [] for name in works}
    for round_number in range(rounds):
        for name in list(works) if round_number % 2 == 0 else reversed(list(works)):
            passes[name].append(works[name]())
    return Turns(passes)


def broken(
    found: Mapping[str, Measured], good: Measured, cases: Mapping[str, Any]
) -> dict[str, tuple[str, str]]:
    """Judge, by claim, whether a way hides less than half of what a good one does."""
    result = {}
    for claim, variant in cases.items():
        one = found[variant.label]
        is_broken = one.overlap.hidden < good.overlap.hidden / 2
        result[claim] = verdict(is_broken), f"{variant.label}: {one}; {good.variant.label}: {good}"
    return result


def timeline(label: str, language: str, spans: tuple[Span, ...]) -> Timeline:
    """Return when the stages ran."""
    return Timeline(f"Measured, {language_name(language)}, {label}", "ms", spans, 1e3)


def bars(found: Mapping[str, Measured], language: str, stage: str) -> Picture:
    """Return how close each way comes to its longest stage alone, which is called so."""
    each = tuple(Bar(label, {language: one.overlap.of_ideal}) for label, one in found.items())
    return Bars(f"{language_name(language)}: the {stage} alone over the whole: 1 is ideal", "1", each, 1.0)
