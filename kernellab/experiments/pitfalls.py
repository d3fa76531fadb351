"""Pitfalls: two points of which one is said to cost more time, as a claim and as a row of the suite ``launches``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernellab.experiments.common import WRITE_UP, needs_gpu
from kernellab.experiments.experiment import HELD, REFUTED, Claim, Point

if TYPE_CHECKING:
    from kernellab.experiments.clocked import GpuClock

LEAST = 1.01
"""The factor from which on something costs time that can be measured."""


@dataclass(frozen=True)
class Pitfall:
    """Something that is said to cost time.

    Attributes
    ----------
    text : str
        What, against what.
    slow, fast : Point
        With it and without it.
    known : str
        What can be said without a clock.
    source : str
        Who says so.
    """

    text: str
    slow: Point
    fast: Point
    known: str
    source: str = WRITE_UP

    def timed(self, clock: GpuClock) -> tuple[str, str]:
        """Held if the slow point takes longer, by an interval that does not doubt it."""
        found = clock.ratio(self.slow, self.fast)
        return HELD if found.low > 1 and found.value > LEAST else REFUTED, str(found)

    def claim(self) -> Claim:
        """Return it as a claim, which a GPU judges."""
        return Claim(self.text, self.source, needs_gpu(self.known), self.timed)
