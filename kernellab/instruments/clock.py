"""The clock: how long work takes on a device, and when to stop measuring.

Work is queued behind a closed gate and timed by the device's own events, so that the host's launch latency
is outside. Cold is the default: every sample runs on another set of buffers, and what the last one left in
the L2 is evicted. The loop here knows no CUDA: a `Stopwatch` does, so that it can be tested on a fake one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from kernellab.errors import SpecError, UnavailableError

Mode = Literal["cold", "hot", "graph"]
MODES: tuple[Mode, ...] = ("cold", "hot", "graph")
Call = Callable[[], object]

THROTTLED = "throttled: the SM clock fell under 90 % of its highest"
UNGATED = "the work waits for the device by itself: timed without a gate, the host's latency is in its time"


class Stopwatch(Protocol):
    """What a device gives the clock."""

    def now(self) -> float:
        """Seconds on the host."""

    def close_gate(self) -> None:
        """Hold what is queued from now on."""

    def open_gate(self) -> bool:
        """Let it run; False if the gate had opened by itself, because the host was too slow."""

    def mark(self) -> Any:
        """Queue an event."""

    def seconds(self, start: Any, stop: Any) -> float:
        """Device time between two events that have passed."""

    def wait(self) -> None:
        """Wait for everything queued."""

    def evict(self) -> None:
        """Queue reads that push everything else out of the L2; nothing is left dirty."""

    def clock_hz(self) -> float | None:
        """The SM clock now, None when unknown."""

    def highest_clock_hz(self) -> float | None:
        """The SM clock that the device may reach."""


@dataclass(frozen=True)
class Rule:
    """When to stop.

    Attributes
    ----------
    precision : float
        Relative half-width of the median's 95 % confidence interval that is good enough.
    minimum, maximum : int
        Samples to take at least and at most.
    budget : float
        Seconds of host time, after which the minimum is enough.
    queue : int
        Samples held behind one gate.
    """

    precision: float = 0.005
    minimum: int = 15
    maximum: int = 400
    budget: float = 1.0
    queue: int = 24


@dataclass(frozen=True)
class Timing:
    """Samples of one piece of work.

    Attributes
    ----------
    mode : str
        ``cold``, ``hot`` or ``graph``.
    samples : tuple of float
        Seconds, in the order taken.
    clock_hz : tuple of float
        SM clock at the end of each gate.
    is_throttled : bool
        The clock fell under 90 % of the highest during the run.
    notes : tuple of str
    """

    mode: Mode
    samples: tuple[float, ...]
    clock_hz: tuple[float, ...] = ()
    is_throttled: bool = False
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """The median."""
        return float(np.median(self.samples)) if self.samples else math.nan

    @property
    def quartiles(self) -> tuple[float, float]:
        """First and third quartile; not a number below three samples."""
        if len(self.samples) < 3:
            return math.nan, math.nan
        low, high = np.quantile(self.samples, (0.25, 0.75))
        return float(low), float(high)

    @property
    def interval(self) -> tuple[float, float]:
        """95 % confidence interval of the median, by ranks; not a number below six samples."""
        return median_interval(self.samples)


def median_interval(samples: Sequence[float]) -> tuple[float, float]:
    """Return the distribution-free 95 % confidence interval of a median.

    Examples
    --------
    >>> median_interval(range(1, 101))
    (40.0, 61.0)
    """
    n = len(samples)
    if n < 6:
        return math.nan, math.nan
    ordered = np.sort(np.asarray(samples, np.float64))
    half = 1.96 * math.sqrt(n) / 2
    low, high = max(math.floor(n / 2 - half) - 1, 0), min(math.ceil(n / 2 + half), n - 1)
    return float(ordered[low]), float(ordered[high])


def is_settled(samples: Sequence[float], rule: Rule) -> bool:
    """Say whether a median is known well enough."""
    if len(samples) < rule.minimum:
        return False
    low, high = median_interval(samples)
    middle = float(np.median(samples))
    return bool(high - low <= 2 * rule.precision * middle)


def time_calls(
    stopwatch: Stopwatch,
    works: Mapping[str, Sequence[Call]],
    *,
    mode: Mode = "cold",
    rule: Rule = Rule(),
    needs_eviction: bool = True,
    repeats: int = 1,
    before: Mapping[str, Call | Sequence[Call]] | None = None,
    is_gated: bool = True,
) -> dict[str, Timing]:
    """Time pieces of work against each other, interleaved.

    Parameters
    ----------
    stopwatch : Stopwatch
    works : mapping of str to sequence of callables
        For each piece of work one callable a set of buffers; each queues the same work.
    mode : {"cold", "hot", "graph"}
        Cold takes the sets in turn; hot uses the first one only. A graph's callable replays it.
    rule : Rule
    needs_eviction : bool
        In cold mode: evict the L2 before every sample, as the sets together do not fill it twice.
    repeats : int
        How often a callable does the work; a sample is divided by it.
    before : mapping of str to callable or sequence of callable, optional
        Queued before each sample and not timed, such as zeroing an accumulator; one a set of buffers, or one
        for all.
    is_gated : bool
        False for work that waits for the device by itself: the host's latency is then in its time, which is
        noted.

    Returns
    -------
    dict of str to Timing

    Raises
    ------
    SpecError
        For an unknown mode.
    UnavailableError
        If the gate never holds: the work waits for the device by itself.
    """
    if mode not in MODES:
        raise SpecError(f"clock: mode is {mode!r}, it must be one of {', '.join(MODES)}")
    first = {name: _each(what) for name, what in (before or {}).items()}
    for name, calls in works.items():
        for i, call in enumerate(
            calls[: 1 if mode != "cold" else None]
        ):  # compiles, loads, fills pools: not timed
            _prepare(first, name, i)
            call()
    stopwatch.wait()
    samples: dict[str, list[float]] = {name: [] for name in works}
    clocks: list[float] = []
    start = stopwatch.now()
    round_number, queue = 0, rule.queue
    while True:
        marks = _queue_round(stopwatch, works, mode, round_number, queue, needs_eviction, first, is_gated)
        if marks is None:
            if queue == 1:
                raise UnavailableError(
                    "clock: the gate opened by itself every time, so the work waits for the device; "
                    "take the synchronisation out of it"
                )
            queue = max(1, queue // 4)  # perhaps there was just too much of it for the host
            continue
        round_number += queue
        for name, begin, end in marks:
            samples[name].append(stopwatch.seconds(begin, end) / repeats)
        clock = stopwatch.clock_hz()
        if clock is not None:
            clocks.append(clock)
        count = min(map(len, samples.values()))
        if all(is_settled(values, rule) for values in samples.values()) or count >= rule.maximum:
            break
        if stopwatch.now() - start > rule.budget and count >= rule.minimum:
            break
    highest = stopwatch.highest_clock_hz()
    is_throttled = highest is not None and any(clock < 0.9 * highest for clock in clocks)
    notes = (*((THROTTLED,) if is_throttled else ()), *(() if is_gated else (UNGATED,)))
    return {
        name: Timing(mode, tuple(values), tuple(clocks), is_throttled, notes)
        for name, values in samples.items()
    }


def _queue_round(
    stopwatch: Stopwatch, works: Mapping[str, Sequence[Call]], mode: Mode, first: int, queue: int,
    needs_eviction: bool, before: Mapping[str, Sequence[Call]], is_gated: bool,
) -> list[tuple[str, Any, Any]] | None:  # fmt: skip
    """Queue samples of every piece of work behind one gate; None when the gate did not hold."""
    marks: list[tuple[str, Any, Any]] = []
    if is_gated:
        stopwatch.close_gate()
    names = list(works)
    for i in range(first, first + queue):
        for name in names if i % 2 == 0 else reversed(names):
            calls = works[name]
            _prepare(before, name, i if mode == "cold" else 0)
            if mode == "cold" and needs_eviction:
                stopwatch.evict()
            start = stopwatch.mark()
            calls[i % len(calls) if mode == "cold" else 0]()
            marks.append((name, start, stopwatch.mark()))
    has_held = stopwatch.open_gate() if is_gated else True
    stopwatch.wait()
    return marks if has_held else None


def _each(what: Call | Sequence[Call]) -> Sequence[Call]:
    return (what,) if callable(what) else what


def _prepare(before: Mapping[str, Sequence[Call]], name: str, i: int) -> None:
    calls = before.get(name)
    if calls:
        calls[i % len(calls)]()


def waits_for_device(stopwatch: Stopwatch, call: Call) -> bool:
    """Say whether a piece of work waits for the device by itself: behind a closed gate it then cannot end.

    Takes as long as the gate holds if it does. Run the work once before, as its first run may well wait.
    """
    stopwatch.wait()
    stopwatch.close_gate()
    call()
    has_held = stopwatch.open_gate()
    stopwatch.wait()
    return not has_held


def launch_seconds(stopwatch: Stopwatch, call: Call, count: int = 64, rounds: int = 5) -> float:
    """Measure what one call costs the host: queued behind a closed gate, so that the device does nothing.

    Returns
    -------
    float
        Seconds of host time a call, the median of some rounds; not a number if the gate does not hold.
    """
    found = []
    call()  # compiles and loads, which must not happen behind a closed gate
    for _ in range(rounds):
        stopwatch.wait()
        stopwatch.close_gate()
        start = stopwatch.now()
        for _ in range(count):
            call()
        stop = stopwatch.now()
        if stopwatch.open_gate():
            found.append((stop - start) / count)
        else:  # the queue of the device was full, so the host had to wait
            count = max(1, count // 8)
        stopwatch.wait()
    return float(np.median(found)) if found else math.nan


def time_ratio(first: Sequence[float], second: Sequence[float]) -> tuple[float, float, float]:
    """Return the median of second / first, pair by pair, and its 95 % confidence interval.

    Parameters
    ----------
    first, second : sequence of float
        Samples taken alternately.

    Examples
    --------
    >>> time_ratio([1.0] * 10, [2.0] * 10)
    (2.0, 2.0, 2.0)
    """
    count = min(len(first), len(second))
    ratios = np.asarray(second[:count], np.float64) / np.asarray(first[:count], np.float64)
    low, high = median_interval(ratios.tolist())
    return float(np.median(ratios)) if count else math.nan, low, high


def is_slower(first: Sequence[float], second: Sequence[float], least: float = 0.025) -> float:
    """Compare interleaved samples pair by pair.

    Parameters
    ----------
    first, second : sequence of float
        Samples taken alternately.
    least : float
        Relative difference below which two are called equal.

    Returns
    -------
    float
        The median ratio second / first where it differs from 1 by more than `least` and its confidence
        interval excludes 1; else exactly 1.0.

    Examples
    --------
    >>> is_slower([1.0, 1.1, 0.9] * 10, [1.0, 1.1, 0.9] * 10)
    1.0
    """
    middle, low, high = time_ratio(first, second)
    if math.isnan(low) or low <= 1.0 <= high or abs(middle - 1) <= least:
        return 1.0
    return middle
