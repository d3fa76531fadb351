"""Timing of plans on a GPU: rotating buffers, a copy of as many bytes beside them, outputs checked after."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kernellab.buffers import Buffers, Sets, copy_calls, graph_of, make_sets, poison, set_count
from kernellab.errors import ExecutionError, SpecError
from kernellab.instruments.clock import MODES, Call, Mode, Rule, Timing, launch_seconds, time_calls
from kernellab.instruments.reading import Reading
from kernellab.verify import Verdict, verify

if TYPE_CHECKING:
    from kernellab.devices.gpu import GpuDevice
    from kernellab.devices.program import Program
    from kernellab.plan import Plan

COPY = "cudaMemcpy"
TOO_FAST = 1.05
"""Times the copy's speed, above which a cold figure is an error and no result."""
READ_FASTER = 0.09
"""How much faster than a copy memory may be that is only read."""
REPLAYS = 20
"""Runs of the work in one CUDA graph."""
DEFAULT_RULE = Rule()


@dataclass(frozen=True)
class Timed:
    """What the clock gave for one piece of work.

    Attributes
    ----------
    timing : Timing
    copy : Timing or None
        Of a copy that moves as many bytes, in the same run.
    host_seconds : float
        What queueing it costs the host.
    verdict : Verdict or None
        Of what the timed calls wrote.
    notes : tuple of str
    """

    timing: Timing
    copy: Timing | None = None
    host_seconds: float = math.nan
    verdict: Verdict | None = None
    notes: tuple[str, ...] = ()


def time_programs(
    device: GpuDevice,
    programs: Mapping[str, Program],
    plan: Plan,
    answers: Mapping[str, Mapping[str, Any]],
    *,
    mode: Mode = "cold",
    rule: Rule = DEFAULT_RULE,
) -> dict[str, Timed]:
    """Time one plan in one or several languages, interleaved, beside a copy of as many bytes.

    Parameters
    ----------
    device : GpuDevice
        With the right device and stream current.
    programs : mapping of str to Program
        By language.
    plan : Plan
        With NumPy or CuPy inputs.
    answers : mapping of str to mapping of str to numpy.ndarray
        What each wrote in a checked run: right.
    mode : {"cold", "hot", "graph"}
    rule : Rule

    Returns
    -------
    dict of str to Timed

    Raises
    ------
    ExecutionError
        If a cold figure is better than memory can give; or if CUDA reports an error.
    """
    check_mode(mode, plan.kernel.id)
    if mode == "graph":
        stream = device.capture_stream()
        device.cupy.cuda.get_current_stream().synchronize()
        with stream:
            return _time(device, programs, plan, answers, mode, rule)
    return _time(device, programs, plan, answers, mode, rule)


def check_mode(mode: str, who: str) -> None:
    """Refuse an unknown mode."""
    if mode not in MODES:
        raise SpecError(f"{who}: mode is {mode!r}, it must be one of {', '.join(MODES)}; correct it")


def _time(
    device: GpuDevice, programs: Mapping[str, Program], plan: Plan, answers: Mapping[str, Mapping[str, Any]],
    mode: Mode, rule: Rule,
) -> dict[str, Timed]:  # fmt: skip
    cost, l2_bytes = host_plan(device, plan).cost(), device.l2_bytes
    footprint = sum(_nbytes(item) for item in (*plan.inputs.values(), *plan.outputs.values()))
    footprint += sum(spec.nbytes for spec in plan.temporaries.values())
    with device.health.naming(plan.kernel.id):
        # A zeroed output stands in the L2 when the sample starts, so the L2 is evicted after that.
        is_single = mode != "cold" or plan.zeroed or plan.in_place
        room = device.memory.available()
        count = 1 if is_single else set_count(footprint + cost.nbytes, l2_bytes, room, len(programs))
        sets = make_sets(device, plan, count)
        stopwatch = device.stopwatch()
        works, repeats = _works(device, programs, plan, sets, mode)
        copies = copy_calls(device, cost.nbytes, count)
        hosted = {} if mode == "graph" else works
        host = {name: launch_seconds(stopwatch, calls[0]) for name, calls in hosted.items()}
        before: dict[str, Any] = {name: sets.restore for name in works if sets.restore}
        if mode == "cold":
            works = {**works, COPY: copies}
        options: dict[str, Any] = {"mode": mode, "rule": rule, "needs_eviction": sets.needs_eviction}
        timings = time_calls(stopwatch, works, **options, before=before, repeats=repeats)
        if mode == "hot":  # apart, as it would push the others out of the L2
            timings |= time_calls(stopwatch, {COPY: copies}, **options)
        copy = timings.pop(COPY, None)
        notes = _notes(mode, sets, footprint, l2_bytes, repeats)
        found = {}
        for name, timing in timings.items():
            if copy is not None:
                who = f"{plan.kernel.id} ({name})"
                check_ceiling(who, timing, copy, cost.nbytes, l2_bytes, cost.bytes_written)
            verdict = _recheck(device, programs[name], plan, sets, answers[name])
            found[name] = Timed(timing, copy, host.get(name, math.nan), verdict, (*notes, *timing.notes))
    return found


def _works(
    device: GpuDevice, programs: Mapping[str, Program], plan: Plan, sets: Sets, mode: Mode
) -> tuple[dict[str, Sequence[Call]], int]:
    """Return for each language one callable a set, and how often each does the work."""
    works: dict[str, Sequence[Call]] = {}
    repeats = 1
    count = len(sets.buffers)
    for place, (name, program) in enumerate(programs.items()):
        calls = [_sequence(device.calls(program, plan, buffers)) for buffers in sets.buffers]
        # Languages that share the sets stand as far from each other as can be.
        start = place * count // len(programs)
        works[name] = [*calls[start:], *calls[:start]]
        if mode == "graph":
            repeats = 1 if sets.restore else REPLAYS
            works[name] = [graph_of(device.cupy, calls[0], repeats)]
    return works, repeats


def _sequence(calls: Sequence[Call]) -> Call:
    if len(calls) == 1:
        return calls[0]

    def run() -> None:
        for call in calls:
            call()

    return run


def check_ceiling(
    who: str, timing: Timing, copy: Timing, nbytes: int, l2_bytes: int, written: int | None = None
) -> None:
    """Refuse a cold speed that memory cannot give.

    Parameters
    ----------
    who : str
    timing, copy : Timing
        Of the work, and of a copy of as many bytes.
    nbytes, l2_bytes : int
        The work's traffic, and the size of the L2.
    written : int, optional
        How much of the traffic is written; where it is not known, it may be nothing.

    Raises
    ------
    ExecutionError
        If more than four times the L2 moved over 5 % faster than a copy of as many bytes; memory that is
        only read need not turn round and gives up to 9 % more than a copy.
    """
    share = min(0.5, (written or 0) / max(nbytes, 1))
    limit = TOO_FAST * (1 + READ_FASTER * (1 - 2 * share))
    is_large = timing.mode == "cold" and nbytes > 4 * l2_bytes
    if is_large and timing.seconds * limit < copy.seconds:
        rate, ceiling = (nbytes / max(item.seconds, 1e-12) / 1e9 for item in (timing, copy))
        raise ExecutionError(
            f"{who}: {nbytes} bytes at {rate:.0f} GB/s are more than {limit:.3g} times what a copy gives "
            f"({ceiling:.0f} GB/s), which memory cannot; correct the cost, or see whether all the work is "
            "done"
        )


def _recheck(
    device: GpuDevice, program: Program, plan: Plan, sets: Sets, answer: Mapping[str, Any]
) -> Verdict | None:
    """Judge what the timed loop left, then what the timed calls write once more, on poison."""
    stream = device.cupy.cuda.get_current_stream()
    accepted = {name: device.on_device(array) for name, array in answer.items()}
    for i, buffers in enumerate(sets.buffers):
        wrong = _judge(device, plan, buffers, accepted)
        if wrong is None:
            poison(plan, buffers)
            if sets.restore:
                sets.restore[i]()
            _sequence(device.calls(program, plan, buffers))()
            stream.synchronize()
            wrong = _judge(device, plan, buffers, accepted)
        if wrong is not None:
            return wrong
    return None


def _judge(device: GpuDevice, plan: Plan, buffers: Buffers, accepted: Buffers) -> Verdict | None:
    """Return what is wrong with a set's outputs: bits are compared on the device, then values here."""
    if all(_has_bits(device.cupy, buffers[name], array) for name, array in accepted.items()):
        return None
    outputs = {n: device.cupy.asnumpy(buffers[n]).view(s.dtype) for n, s in plan.outputs.items()}
    found = verify(host_plan(device, plan), outputs)
    if found.is_right:
        return None
    late = tuple(
        replace(item, message=f"{item.message} (after the timed loop)") if item.wrong else item
        for item in found.comparisons
    )
    return Verdict(found.who, late)


def _has_bits(cupy: Any, array: Any, accepted: Any) -> bool:
    if not array.size:
        return True
    first, second = (item.reshape(-1).view(np.uint8) for item in (array, accepted))
    return int(cupy.count_nonzero(first != second)) == 0


def host_plan(device: Any, plan: Plan) -> Plan:
    """Return the plan with its inputs on the host, for NumPy's answer."""
    if all(isinstance(array, np.ndarray) for array in plan.inputs.values()):
        return plan
    inputs = {
        name: array if isinstance(array, np.ndarray) else device.cupy.asnumpy(array)
        for name, array in plan.inputs.items()
    }
    return replace(plan, inputs=inputs)


def _nbytes(item: Any) -> int:
    return int(item.nbytes)


def _notes(mode: Mode, sets: Sets, footprint: int, l2_bytes: int, repeats: int) -> tuple[str, ...]:
    if mode == "hot":
        return (f"hot: one set of {footprint} bytes, over and over; the L2 has {l2_bytes}",)
    if mode == "graph":
        return (f"graph: {repeats} runs one after the other in a CUDA graph, on one set of buffers",)
    if sets.needs_eviction:
        return (f"cold: the L2 ({l2_bytes} bytes) was evicted by reads before each sample",)
    return (f"cold: {len(sets.buffers)} sets of {footprint} bytes in turn; the L2 has {l2_bytes}",)


def readings(timed: Timed, nbytes: int, flops: int) -> tuple[Reading, ...]:
    """Return a timing as Readings.

    Parameters
    ----------
    timed : Timed
    nbytes, flops : int
        Compulsory traffic and work; a rate is given where there is any.
    """
    timing = timed.timing
    found = [Reading(f"seconds_{timing.mode}", timing.seconds, "s", "measured", spread(timing))]
    if nbytes:
        rate = nbytes / timing.seconds if timing.seconds else math.nan
        found.append(Reading("bytes_per_second", rate, "B/s", "measured", f"{nbytes} compulsory bytes"))
    if flops:
        rate = flops / timing.seconds if timing.seconds else math.nan
        found.append(Reading("flops_per_second", rate, "flop/s", "measured", f"{flops} operations"))
    if timed.copy is not None and nbytes and timing.seconds:
        share = timed.copy.seconds / timing.seconds
        note = f"of {COPY}, as many bytes, same run"
        found.append(Reading("fraction_of_copy", share, "1", "measured", note))
    if not math.isnan(timed.host_seconds):
        note = "host time to queue it, device busy"
        found.append(Reading("seconds_launch", timed.host_seconds, "s", "measured", note))
    if timing.clock_hz:
        found.append(Reading("sm_clock", float(np.median(timing.clock_hz)), "Hz", "measured"))
    found.append(Reading("throttled", float(timing.is_throttled), "1", "measured"))
    return tuple(found)


def spread(timing: Timing) -> str:
    """Return a timing's samples, quartiles and confidence interval in words; n/a where there are too few."""
    low, high = timing.quartiles
    first, last = timing.interval
    parts = [f"median of {len(timing.samples)}"]
    parts.append("quartiles n/a" if math.isnan(low) else f"quartiles {low:.4g}..{high:.4g}")
    parts.append("95 % n/a" if math.isnan(first) else f"95 % {first:.4g}..{last:.4g}")
    return ", ".join(parts)


__all__ = [
    "COPY",
    "Timed",
    "check_ceiling",
    "check_mode",
    "copy_calls",
    "graph_of",
    "host_plan",
    "make_sets",
    "poison",
    "readings",
    "set_count",
    "time_programs",
]
