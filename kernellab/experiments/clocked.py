"""Claims about time: kernels at sizes at which memory decides, timed beside each other on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernellab.errors import SpecError
from kernellab.experiments.experiment import Point
from kernellab.instruments.clock import Timing, time_ratio
from kernellab.kernel import Language

if TYPE_CHECKING:
    from kernellab.workload import PlanWorkload

COPY = "cudaMemcpy"


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
    """

    def __init__(self, device: Any, language: Language) -> None:
        self.device = device
        self.language = language

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

        works: list[Workload] = [self._workload(point) for point in points]
        if has_copy:
            works.append(copy_workload(self.device, works[0].nbytes, COPY))
        try:
            return time_workloads(self.device.stopwatch(), works)
        finally:
            works.clear()
            self.device.memory.free_pools()

    def _workload(self, point: Point) -> PlanWorkload:
        from kernellab.measurement import judge, prepare
        from kernellab.workload import PlanWorkload

        kernel = point.kernel
        if self.language == "numba" and not kernel.has_twin:
            raise SpecError(f"{kernel.id}: it has no Numba twin: {kernel.twin}")
        plan = prepare(kernel, (), device=self.device, case=point.case, parameters={}).plan
        program = self.device.build(plan.kernel, self.language)
        run = self.device.run(program, plan)
        judge(plan, run).require()
        return PlanWorkload(self.device, program, plan, point.label, run)
