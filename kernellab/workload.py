"""Workload: something to be timed, a kernel's plan or anybody's callable, with a check of what it wrote.

Nothing is timed before its answer is right, and the answer is looked at again after the timed loop: what the
loop left, and then what one more run writes on poison, so that work which stopped writing is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kernellab import timing
from kernellab.devices.program import Run
from kernellab.errors import ExecutionError, MismatchError, SpecError
from kernellab.instruments.clock import THROTTLED, Call, Mode, Rule, Stopwatch, Timing, time_calls
from kernellab.measurement import judge
from kernellab.verify import Verdict

if TYPE_CHECKING:
    from kernellab.devices.gpu import GpuDevice
    from kernellab.devices.program import Program
    from kernellab.plan import Plan

DEFAULT_RULE = Rule()


class Workload(Protocol):
    """What can be timed beside other workloads.

    Attributes
    ----------
    name : str
        Unique among those timed together.
    nbytes, flops : int
        Compulsory traffic and operations; 0 where unknown.
    before : callable or None
        Queued before every run and not timed.
    """

    name: str
    nbytes: int
    flops: int
    before: Call | None

    def run(self) -> object:
        """Queue the work once."""

    def poison(self) -> None:
        """Make what was written before unreadable."""

    def verify(self) -> Verdict | None:
        """Judge what the last run wrote; None where nothing is known of the answer."""


class PlanWorkload:
    """A plan on its device, inputs and outputs in device memory.

    Parameters
    ----------
    device : GpuDevice
    program : Program
        Holds the plan's kernels.
    plan : Plan
    name : str, optional
        By default the kernel's id and language.
    answer : Run, optional
        Of a run that was found right: its bits are accepted without asking NumPy again.

    Attributes
    ----------
    runs : int
        How often the plan was queued.
    """

    def __init__(
        self, device: GpuDevice, program: Program, plan: Plan, name: str = "", answer: Run | None = None
    ) -> None:
        self.device = device
        self.plan = plan
        self.name = name or f"{plan.kernel.id} {program.language}"
        self.runs = 0
        self._on_host = timing.host_plan(device, plan)
        cost = self._on_host.cost()
        self.nbytes, self.flops = cost.nbytes, cost.flops
        sets = timing.make_sets(device, plan, 1)
        self.buffers = sets.buffers[0]
        self.before: Call | None = sets.restore[0] if sets.restore else None
        self._calls = device.calls(program, plan, self.buffers)
        self._accepted: dict[str, Any] = {}
        if answer is not None:
            self._accepted = {
                key: device.on_device(array, copy=True) for key, array in answer.outputs.items()
            }

    def run(self) -> None:
        """Queue every launch of the plan."""
        self.runs += 1
        for call in self._calls:
            call()

    def poison(self) -> None:
        """Fill the outputs with poison; those that are inputs too get their contents back before each run."""
        timing.poison(self.plan, self.buffers)

    def verify(self) -> Verdict:
        """Judge what the last run wrote: against bits found right before, or else against NumPy's answer."""
        if self._accepted and self._has_accepted_bits():
            return Verdict(self.plan.kernel.id, ())
        host = {key: self.device.cupy.asnumpy(self.buffers[key]) for key in self.plan.outputs}
        verdict = judge(self._on_host, Run(host))
        if verdict.is_right:
            self._accepted = {key: self.buffers[key].copy() for key in self.plan.outputs}
        return verdict

    def _has_accepted_bits(self) -> bool:
        return all(
            int(self.device.cupy.count_nonzero(_bits(self.buffers[key]) != _bits(kept))) == 0
            for key, kept in self._accepted.items()
        )


def _bits(array: Any) -> Any:
    flat = array.reshape(-1)
    return flat.view(f"u{flat.dtype.itemsize}") if flat.size else flat


@dataclass
class CallWorkload:
    """Anybody's callable that queues work on CuPy's current stream.

    Attributes
    ----------
    name : str
    function : callable
        Called without arguments.
    nbytes, flops : int
        0 where unknown.
    written : int, optional
        How many of the bytes are written.
    check : callable, optional
        ``check() -> Verdict``, of what the last call wrote.
    spoil : callable, optional
        Makes what was written before unreadable.
    runs : int
        How often it has been called.
    result : object
        What the last call returned.
    """

    name: str
    function: Callable[[], object]
    nbytes: int = 0
    flops: int = 0
    check: Callable[[], Verdict] | None = None
    spoil: Callable[[], object] | None = None
    before: Call | None = None
    written: int | None = None
    runs: int = 0
    result: object = None

    def run(self) -> object:
        """Call it."""
        self.runs += 1
        self.result = self.function()
        return self.result

    def poison(self) -> None:
        """Spoil what it wrote, if it is known how."""
        if self.spoil is not None:
            self.spoil()

    def verify(self) -> Verdict | None:
        """Judge what it wrote, if it is known how."""
        return None if self.check is None else self.check()


def require(workload: Workload, when: str) -> bool:
    """Refuse a workload whose answer is wrong; say whether anything is known of its answer.

    Raises
    ------
    MismatchError
        Says what is wrong, and whether it was before or after the timed loop.
    """
    verdict = workload.verify()
    if verdict is not None and not verdict.is_right:
        raise MismatchError(f"{verdict.message} ({when} the timed loop); a wrong kernel has no speed")
    return verdict is not None


def _require_on_poison(stopwatch: Stopwatch, workload: Workload, when: str) -> None:
    """Run a workload once on poison, and refuse a wrong answer."""
    workload.poison()
    if workload.before is not None:
        workload.before()
    workload.run()
    stopwatch.wait()
    require(workload, when)


def time_workloads(
    stopwatch: Stopwatch, workloads: Sequence[Workload], *, mode: Mode = "cold", rule: Rule = DEFAULT_RULE
) -> dict[str, Timing]:
    """Verify workloads, time them interleaved, and verify them again.

    Parameters
    ----------
    stopwatch : Stopwatch
    workloads : sequence of Workload
        With names of their own.
    mode : {"cold", "hot"}
        In cold mode the L2 is evicted before every sample.
    rule : Rule
        When to stop.

    Returns
    -------
    dict of str to Timing

    Raises
    ------
    MismatchError
        If an answer is wrong, before or after.
    SpecError
        For two workloads of one name.
    """
    names = [work.name for work in workloads]
    if len(set(names)) < len(names):
        raise SpecError(f"clock: two workloads share a name ({', '.join(names)}); name them apart")
    for work in workloads:
        _require_on_poison(stopwatch, work, "before")
        work.poison()
    timings = time_calls(
        stopwatch,
        {work.name: (work.run,) for work in workloads},
        mode=mode,
        rule=rule,
        before={work.name: work.before for work in workloads if work.before is not None},
    )
    for work in workloads:
        if require(work, "after"):  # what the loop left may be the warm-up's
            _require_on_poison(stopwatch, work, "after")
    return timings


def time_rounds(
    stopwatch: Stopwatch,
    function: Callable[..., object],
    prepare: Callable[[], tuple[tuple[Any, ...], Mapping[str, Any]]],
    *,
    rounds: int,
    mode: Mode = "cold",
    finish: Callable[..., object] | None = None,
) -> tuple[Timing, object]:
    """Time exactly so many calls, each with arguments of its own, one behind each gate.

    Parameters
    ----------
    stopwatch : Stopwatch
    function : callable
        Queues the work.
    prepare : callable
        ``prepare() -> (arguments, keywords)``; called before each round and not timed. It may wait.
    rounds : int
        How many.
    mode : {"cold", "hot"}
    finish : callable, optional
        Called with the same arguments after each round, not timed.

    Returns
    -------
    tuple of Timing and object
        And what the last call returned.

    Raises
    ------
    ExecutionError
        If the gate opened by itself: the function waits for the device.
    """
    samples: list[float] = []
    clocks: list[float] = []
    result: object = None
    for _ in range(rounds):
        arguments, keywords = prepare()
        stopwatch.wait()
        stopwatch.close_gate()
        if mode == "cold":
            stopwatch.evict()
        start = stopwatch.mark()
        result = function(*arguments, **keywords)
        stop = stopwatch.mark()
        has_held = stopwatch.open_gate()
        stopwatch.wait()
        if not has_held:
            raise ExecutionError(
                "clock: the gate opened by itself, so the work waits for the device; "
                "take the synchronisation out of it"
            )
        samples.append(stopwatch.seconds(start, stop))
        clock = stopwatch.clock_hz()
        clocks += [] if clock is None else [clock]
        if finish is not None:
            finish(*arguments, **keywords)
    highest = stopwatch.highest_clock_hz()
    is_throttled = highest is not None and any(clock < 0.9 * highest for clock in clocks)
    notes = (THROTTLED,) if is_throttled else ()
    return Timing(mode, tuple(samples), tuple(clocks), is_throttled, notes), result


def copy_workload(device: GpuDevice, nbytes: int, name: str = timing.COPY) -> CallWorkload:
    """Return the driver's own copy within the device, that reads and writes `nbytes` in all."""
    (copy,) = timing.copy_calls(device, nbytes, 1)
    return CallWorkload(name, copy, nbytes)
