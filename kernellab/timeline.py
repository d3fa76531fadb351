"""Timeline: when the stages of a chunked pipeline ran on which stream, and how much they overlapped."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

STAGES = ("copy in", "compute", "copy out")
"""The stages of a chunk, in order: each has hardware of its own, which serves one chunk after the other."""
NONE = 0.1
"""Overlap below which there is none to speak of."""


@dataclass(frozen=True)
class Span:
    """One stage of one chunk.

    Attributes
    ----------
    stage : str
        One of `STAGES`.
    chunk, stream : int
        Counted from 0.
    start, stop : float
        Seconds from the start of the pipeline.
    """

    stage: str
    chunk: int
    stream: int
    start: float
    stop: float


def scheduled(seconds: Mapping[str, float], chunks: int, streams: int) -> tuple[Span, ...]:
    """Return when stages run if each lasts as long as it is said to, and nothing else delays it.

    A stage begins when its stream has done the stage before, and its hardware the chunk before.

    Parameters
    ----------
    seconds : mapping of str to float
        Of each stage of one chunk; a stage that is not there is left out.
    chunks, streams : int
        Chunk i goes to stream ``i % streams``.

    Examples
    --------
    >>> equal = dict.fromkeys(STAGES, 1.0)
    >>> [max(span.stop for span in scheduled(equal, 8, streams)) for streams in (1, 2, 3, 4)]
    [24.0, 13.0, 10.0, 10.0]
    """
    at_stream, at_stage = [0.0] * streams, dict.fromkeys(seconds, 0.0)
    spans = []
    for chunk in range(chunks):
        stream = chunk % streams
        for stage in (each for each in STAGES if each in seconds):
            start = max(at_stream[stream], at_stage[stage])
            at_stream[stream] = at_stage[stage] = start + seconds[stage]
            spans.append(Span(stage, chunk, stream, start, at_stream[stream]))
    return tuple(spans)


def spans_of(marks: Sequence[tuple[int, Mapping[str, float], Mapping[str, float]]]) -> tuple[Span, ...]:
    """Return spans from the times of events, which do not say how long a stage waited for its hardware.

    An event before a stage tells when its stream had come there. Each kind of hardware takes chunks in turn, so
    a stage has not begun before that of the chunk before it ended.

    Parameters
    ----------
    marks : sequence of (int, mapping of str to float, mapping of str to float)
        For each chunk: its stream, when that came to a stage (if not by ending the one before), when each of its
        stages was over.

    Examples
    --------
    >>> came, first, second = {"copy in": 0.0}, {"copy in": 2.0}, {"copy in": 4.0}
    >>> [(span.start, span.stop) for span in spans_of([(0, came, first), (1, came, second)])]
    [(0.0, 2.0), (2.0, 4.0)]
    """
    at_stage: dict[str, float] = {}
    spans = []
    for chunk, (stream, came, ends) in enumerate(marks):
        before = 0.0
        for stage, stop in ends.items():
            start = min(max(came.get(stage, before), at_stage.get(stage, 0.0)), stop)
            spans.append(Span(stage, chunk, stream, round(start, 9), round(stop, 9)))
            before = at_stage[stage] = stop
    return tuple(spans)


@dataclass(frozen=True)
class Overlap:
    """How much of what could overlap did.

    Attributes
    ----------
    seconds : float
        The whole.
    alone : mapping of str to float
        Seconds of each stage by itself, over all chunks.

    Examples
    --------
    >>> found = Overlap(5.0, {"copy in": 2.0, "compute": 4.0, "copy out": 1.0})
    >>> found.ideal, found.of_ideal, found.hidden
    (4.0, 0.8, 0.6666666666666666)
    >>> str(found), str(Overlap(7.0, found.alone))
    ('overlap 0.67, 0.80 of the ideal', 'overlap none (0.00), 0.57 of the ideal')
    """

    seconds: float
    alone: Mapping[str, float]

    @property
    def ideal(self) -> float:
        """Seconds of the longest stage: the others hidden behind it entirely."""
        return max(self.alone.values())

    @property
    def of_ideal(self) -> float:
        """The ideal over what it took: 1 is perfect."""
        return self.ideal / self.seconds if self.seconds else math.nan

    @property
    def hidden(self) -> float:
        """The share of what could be hidden that was: 0 for one stage after the other, 1 for the ideal."""
        most = sum(self.alone.values()) - self.ideal
        return (most + self.ideal - self.seconds) / most if most > 0 else math.nan

    def __str__(self) -> str:
        share = f"{self.hidden:.2f}" if self.hidden >= NONE else f"none ({self.hidden:.2f})"
        return f"overlap {share}, {self.of_ideal:.2f} of the ideal"
