"""Claims about time: kernels at sizes at which memory decides, timed beside each other on a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kernellab.errors import LabError, MismatchError, SpecError
from kernellab.experiments.experiment import Point, Sweep
from kernellab.instruments.clock import Rule, Timing, time_ratio
from kernellab.kernel import Language

if TYPE_CHECKING:
    from kernellab.devices.program import Run
    from kernellab.experiments.tools import Make
    from kernellab.plan import Plan
    from kernellab.record import Record
    from kernellab.workload import PlanWorkload

COPY = "cudaMemcpy"
RULE = Rule(budget=0.8)
RIDGE = 16
"""Operations a byte from which arithmetic limits and not memory: then a speed is one of operations."""
CLOSE = 2.0**-12
"""How far, relative to the largest answer, the rows that NumPy does not judge may be from each other."""


@dataclass(frozen=True)
class Ratio:
    """How many times as long one point takes as another.

    Attributes
    ----------
    value, low, high : float
        The median of pairs of samples taken in turn, and its 95 % confidence interval.
    slow, fast : float
        Seconds of each.
    """

    value: float
    low: float
    high: float
    slow: float
    fast: float

    def __str__(self) -> str:
        interval = f"95 % {self.low:.3g} to {self.high:.3g}"
        return f"{1e6 * self.slow:.1f} against {1e6 * self.fast:.1f} us, {self.value:.3g} x ({interval})"


class GpuClock:
    """Times points in one language on a GPU: cold, interleaved, answers verified before and after.

    Parameters
    ----------
    device : GpuDevice
    language : {"cuda-c", "numba"}
    inputs : dict, optional
        Where the inputs of the last case are kept, for clocks that share them.
    is_timing : bool
        False where a profiler watches: then what is looked at runs, and no more.
    """

    def __init__(
        self, device: Any, language: Language, inputs: dict[str, Any] | None = None, *, is_timing: bool = True
    ) -> None:
        self.is_timing = is_timing
        self.device = device
        self.language = language
        self.nbytes: dict[str, int] = {}
        self.flops: dict[str, int] = {}
        self._inputs = {} if inputs is None else inputs

    def ratio(self, slow: Point, fast: Point) -> Ratio:
        """Time two points and return the first's time over the second's."""
        timings = self.times((slow, fast))
        first, second = timings[slow.label], timings[fast.label]
        value, low, high = time_ratio(second.samples, first.samples)
        return Ratio(value, low, high, first.seconds, second.seconds)

    def fractions_of_copy(self, *points: Point) -> list[float]:
        """Time points beside a copy of as many bytes as the first moves; return their speed over its own."""
        timings = self.times(points, has_copy=True)
        return [timings[COPY].seconds / timings[point.label].seconds for point in points]

    def times(self, points: Sequence[Point], *, has_copy: bool = False) -> dict[str, Timing]:
        """Return the timing of each point, by its label.

        Raises
        ------
        MismatchError
            If an answer is wrong.
        """
        from kernellab.workload import Workload, copy_workload, time_workloads

        plans = [self._workload(point) for point in points]
        works: list[Workload] = [*plans]
        self.nbytes = {work.name: work.nbytes for work in plans}
        self.flops = {w.name: w.flops for w in plans if w.flops > RIDGE * w.nbytes}
        if has_copy:
            works.append(copy_workload(self.device, works[0].nbytes, COPY))
        try:
            found = time_workloads(self.device.stopwatch(), works, rule=RULE)
            if any(point.head for point in points):
                self._compare(plans)
            return found
        finally:
            plans.clear()
            works.clear()
            self.device.memory.free_pools()

    def beside(self, point: Point, name: str, make: Make, chain: Make) -> Ratio:
        """Time somebody's callable beside a point, and return its time over the point's.

        Before that its answer is compared: shape and dtype with the chain's, values with the point's.

        Raises
        ------
        MismatchError
            If they differ.
        """
        from kernellab.experiments.tools import alike
        from kernellab.workload import CallWorkload, time_workloads

        ours = self._workload(point)
        try:
            call = make(self.device.cupy, ours.buffers)
            got = call()
            alike(name, got, chain(self.device.cupy, ours.buffers)())
            if ours.before is not None:
                ours.before()
            ours.run()
            (output,) = ours.plan.outputs
            self._near(name, got.reshape(-1), ours.buffers[output].reshape(-1))
            del got
            theirs = CallWorkload(name, call, ours.nbytes)
            found = time_workloads(self.device.stopwatch(), [theirs, ours], rule=RULE)
        finally:
            del ours
            self.device.memory.free_pools()
        slow, fast = found[name], found[point.label]
        return Ratio(*time_ratio(fast.samples, slow.samples), slow.seconds, fast.seconds)

    def _near(self, name: str, one: Any, other: Any) -> None:
        """Refuse an answer that is far from another, relative to the largest."""
        away = abs(one - other).reshape(-1)
        is_near = away <= CLOSE * abs(other).max()
        if not bool(is_near.all()):  # a NaN is not near
            first = int(is_near.argmin())
            found, wanted = (float(array.reshape(-1)[first]) for array in (one, other))
            raise MismatchError(f"{name}: its answer at {first} is {found:.9g}, ours {wanted:.9g}")

    def _compare(self, works: Sequence[PlanWorkload]) -> None:
        """Refuse answers that are far from the first's, where NumPy judged only their first rows."""
        first = works[0]
        for work in works[1:]:
            for name in first.plan.outputs:
                self._near(work.name, work.buffers[name], first.buffers[name])

    def _workload(self, point: Point) -> PlanWorkload:
        from kernellab.measurement import judge, prepare
        from kernellab.workload import PlanWorkload

        kernel = point.kernel
        if self.language == "numba" and not kernel.has_twin:
            raise SpecError(f"{kernel.id}: it has no Numba twin: {kernel.twin}")
        taken = {item.name for item in kernel.parameters}
        parameters = {name: value for name, value in point.case.parameters.items() if name in taken}
        given = self._case_inputs(point)
        arrays = tuple(given[operand.name] for operand in kernel.inputs)
        plan = prepare(kernel, arrays, device=self.device, parameters=parameters).plan
        program = self.device.build(plan.kernel, self.language)
        run = self.device.run(program, plan)
        judge(*first_rows(plan, run, point.head)).require()
        return PlanWorkload(self.device, program, plan, point.label, run)

    def _case_inputs(self, point: Point) -> Mapping[str, Any]:
        key = f"{point.kernel.problem.name} {point.case}"
        if key not in self._inputs:
            self._inputs.clear()
            self._inputs[key] = point.kernel.problem.inputs(point.case)
        given: Mapping[str, Any] = self._inputs[key]
        return given


def first_rows(plan: Plan, run: Run, count: int) -> tuple[Plan, Run]:
    """Return a plan and its run cut to the first rows; as they are for 0."""
    from kernellab.plan import bind

    if not count:
        return plan, run
    problem = plan.kernel.problem
    axis = problem.operands[0].shape[0]
    cut = {
        name: array[:count] if problem.operand(name).shape[0] == axis else array
        for name, array in plan.inputs.items()
    }
    outputs = {name: array[:count] for name, array in run.outputs.items()}
    parameters: dict[str, Any] = dict(plan.parameters)
    return bind(plan.kernel, cut, **parameters), replace(run, outputs=outputs)


def time_sweep(sweep: Sweep, device: Any, records: Mapping[str, dict[str, Record]], notes: list[str]) -> None:
    """Add to the Records of a sweep the times of its large cases; a note says what could not be timed."""
    from kernellab.timing import Timed, readings

    points = [replace(point, case=point.large) for point in sweep.points if point.large is not None]
    kept: dict[str, Any] = {}
    for language, found in records.items():
        known = [point for point in points if point.label in found and found[point.label].is_right]
        if not known:
            continue
        clock = GpuClock(device, language, kept)  # type: ignore[arg-type]
        try:
            timings = clock.times(known, has_copy=True)
        except LabError as error:
            notes.append(f"{sweep.title}: not timed: {error}")
            continue
        for point in known:
            record, timing = found[point.label], timings[point.label]
            nbytes, flops = (known.get(point.label, 0) for known in (clock.nbytes, clock.flops))
            copy = timings[COPY] if nbytes == clock.nbytes.get(known[0].label) else None
            speeds = readings(Timed(timing, copy), nbytes, flops)
            about = f"timed on {point.case.name}"
            found[point.label] = replace(
                record,
                readings=(*record.readings, *speeds),
                timings=(*record.timings, timing),
                notes=(*record.notes, about),
            )
