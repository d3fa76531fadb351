"""Side by side: works verified, timed interleaved, verified again; one that fails is noted and stops no other."""

from __future__ import annotations

from collections.abc import Sequence

from kernellab.errors import LabError
from kernellab.instruments.clock import Call, Rule, Timing, time_calls, waits_for_device
from kernellab.suites.bench import Bench
from kernellab.timing import check_ceiling
from kernellab.workload import CallWorkload, require

RULE = Rule(budget=0.2, maximum=60)
QUEUED = 160
"""Samples behind one gate, of all works together: what the driver's queue holds without waiting."""


def time_side_by_side(
    bench: Bench, works: Sequence[CallWorkload], notes: list[str], rule: Rule = RULE
) -> dict[str, Timing]:
    """Verify works, time them interleaved, verify them again; one that fails is noted and has no time.

    A work that waits for the device by itself is timed apart, the host's latency in its time, and noted.
    """
    ready = [work for work in works if _passes(bench, work, notes)]
    waiting = [work for work in ready if waits_for_device(bench.stopwatch, _whole(work))]
    together = [work for work in ready if work not in waiting]
    timings: dict[str, Timing] = {}
    for group in (together, *([work] for work in waiting)):
        is_gated = group is together
        if not is_gated:
            notes.append(f"{group[0].name} waits for the device: the host's latency is in its time")
        try:
            timings |= _time(bench, group, rule, is_gated) if group else {}
        except Exception as error:  # a peer's library may raise anything
            notes += [f"{work.name} was left out: {reason_of(error)}" for work in group]
    for work in ready:
        timing = timings.get(work.name)
        if timing is not None and not timing.seconds > 0:
            notes.append(f"{work.name} was left out: no time passed between the clock's events")
            timings.pop(work.name)
        elif timing is not None and not (
            _is_right(work, "after", notes) and _passes(bench, work, notes, "after")
        ):
            timings.pop(work.name)
    return timings


def _whole(work: CallWorkload) -> Call:
    def call() -> None:
        if work.before is not None:
            work.before()
        work.run()

    return call


def _passes(bench: Bench, work: CallWorkload, notes: list[str], when: str = "before") -> bool:
    """Run a work once on poison, and say whether its answer is right."""
    try:
        work.poison()
        for _ in range(2):  # an output of the second is allocated while the first one's is held
            _whole(work)()
        bench.stopwatch.wait()
        is_right = _is_right(work, when, notes)
        work.poison()
    except Exception as error:  # a peer's library may raise anything
        notes.append(f"{work.name} was left out: {reason_of(error)}")
        return False
    return is_right


def _is_right(work: CallWorkload, when: str, notes: list[str]) -> bool:
    try:
        require(work, when)
    except LabError as error:
        notes.append(f"WRONG: {error}")
        return False
    return True


def reason_of(error: Exception) -> str:
    """Return what an error of any library says, on one line."""
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words[:160]}"


def _time(bench: Bench, works: Sequence[CallWorkload], rule: Rule, is_gated: bool) -> dict[str, Timing]:
    queue = max(1, min(rule.queue, QUEUED // len(works)))
    return time_calls(
        bench.stopwatch,
        {work.name: (work.run,) for work in works},
        rule=Rule(rule.precision, rule.minimum, rule.maximum, rule.budget, queue),
        before={work.name: work.before for work in works if work.before is not None},
        is_gated=is_gated,
    )


def too_fast(bench: Bench, work: CallWorkload, timing: Timing, copy: Timing, notes: list[str]) -> bool:
    """Say whether a speed is more than memory can give, and note it."""
    try:
        check_ceiling(work.name, timing, copy, work.nbytes, bench.device.l2_bytes, work.written)
    except LabError as error:
        notes.append(f"{work.name} was left out: {error}")
        return True
    return False


__all__ = ["QUEUED", "RULE", "reason_of", "time_side_by_side", "too_fast"]
