"""Bench: the device and the clock that suites share, and what they all do with them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from kernellab.arrays import ArraySpec
from kernellab.errors import SpecError
from kernellab.instruments.clock import Rule, Stopwatch, Timing
from kernellab.kernel import LANGUAGES, Kernel, Language
from kernellab.measurement import environment, judge
from kernellab.plan import Plan, bind
from kernellab.problem import ELEMENTS, Case, Problem
from kernellab.results import Results, Shown, sources_of
from kernellab.timing import COPY
from kernellab.workload import PlanWorkload, Workload, copy_workload, time_workloads

if TYPE_CHECKING:
    from kernellab.devices.gpu import GpuDevice

Row = Mapping[str, Any]
Item = TypeVar("Item")
RULE = Rule(budget=0.4, maximum=120)
PROBES = ("chase", "reread", "tally", "update_scale")
"""Problems whose time is no matter of bytes: those that the suite `hierarchy` times, and one of a few numbers."""
TIMED = (
    Shown("gigabytes_per_second", "GB/s", digits=0),
    Shown("fraction_of_copy", "of copy", digits=3),
    Shown("seconds", "us", 1e6, 1),
)


@dataclass
class Bench:
    """What suites run on.

    Attributes
    ----------
    device : GpuDevice
    stopwatch : Stopwatch
    nbytes : int
        Traffic that timed kernels are scaled up to.
    rule : Rule
    budget : float
        Seconds of host time after which a suite leaves out what is still to come, and says so.
    progress : callable
        ``progress(what)``.
    processes : int
        That compile ahead of what is to be timed; 0 for none.
    """

    device: GpuDevice
    stopwatch: Stopwatch
    nbytes: int = 2**27
    rule: Rule = RULE
    budget: float = 90.0
    progress: Callable[[str], object] = lambda what: None
    processes: int = 0
    _inputs: dict[tuple[str, str], Any] = field(default_factory=dict)

    def inputs(self, problem: Problem, case: Case) -> Any:
        """Return a case's inputs; those of the last problem are kept."""
        key = (problem.name, repr(case))
        if key not in self._inputs:
            self._inputs.clear()
            self._inputs[key] = problem.inputs(case)
        return self._inputs[key]

    def plan(self, kernel: Kernel, case: Case, arrays: Any = None) -> Plan:
        """Bind a kernel to a case's inputs, or to arrays given."""
        given = self.inputs(kernel.problem, case) if arrays is None else arrays
        inputs = {item.name: given[item.name] for item in kernel.inputs}
        taken = {item.name for item in kernel.parameters}
        parameters: dict[str, Any] = {key: v for key, v in case.parameters.items() if key in taken}
        return bind(kernel, inputs, limits=self.device.limits, **parameters)

    def enlarged(self, kernel: Kernel) -> Plan:
        """Bind a kernel to its first case, enlarged; along the first size only where limits ask it.

        Raises
        ------
        SpecError
            If it can be bound to neither.
        """
        case = kernel.cases[0]
        try:
            return self.plan(kernel, scaled(kernel.problem, self.nbytes, case))
        except SpecError:
            first = next(iter(case.sizes))
            return self.plan(kernel, scaled(kernel.problem, self.nbytes, case, only=first))

    def workload(self, plan: Plan, language: Language, name: str = "") -> PlanWorkload:
        """Build a plan, run it once between guard bands, verify that, and make it ready to be timed."""
        program = self.device.build(plan.kernel, language)
        run = self.device.run(program, plan)
        judge(plan, run).require()
        return PlanWorkload(self.device, program, plan, name or f"{plan.kernel.id} {language}", run)

    def free(self) -> None:
        """Forget inputs, and give back the device memory that nothing uses."""
        self._inputs.clear()
        self.device.memory.free_pools()

    def within_budget(self, items: Sequence[Item], notes: list[str], share: float = 1.0) -> Iterator[Item]:
        """Yield items until so many times the budget is spent; then note how many were left out."""
        started, budget = time.monotonic(), share * self.budget
        for i, item in enumerate(items):
            if time.monotonic() - started > budget:
                notes.append(
                    f"left out: the last {len(items) - i} of {len(items)}, the {budget:g} s were over"
                )
                return
            yield item

    def copy(self, nbytes: int, name: str = COPY) -> Workload:
        """Return the driver's own copy, that moves `nbytes` in all."""
        return copy_workload(self.device, nbytes, name)

    def time(self, works: Sequence[Workload], rule: Rule | None = None) -> dict[str, Timing]:
        """Verify, time interleaved and cold, and verify again."""
        return time_workloads(self.stopwatch, works, rule=rule or self.rule)

    def results(
        self, name: str, title: str, rows: Iterable[Row], kernels: Iterable[Kernel], **more: Any
    ) -> Results:
        """Return results with this machine and the sources of those kernels that rows name, or of all."""
        about = {key: str(value) for key, value in self.device.describe().items()}
        kept = tuple(rows)
        known = sources_of(tuple({kernel.id: kernel for kernel in kernels}.values()))
        named = {f"{row.get('kernel')} {row.get('language')}" for row in kept} & known.keys()
        return Results(
            name, title, rows=kept, environment={**environment(), **about},
            sources={key: known[key] for key in known if key in named or not named}, made=datetime.now(UTC).isoformat(timespec="seconds"),
            **more,
        )  # fmt: skip


def languages_of(kernel: Kernel) -> tuple[Language, ...]:
    """Return the languages that a kernel exists in."""
    return tuple(each for each in LANGUAGES if each == "cuda-c" or kernel.has_twin)


def right_kernels(kernels: Iterable[Kernel]) -> tuple[Kernel, ...]:
    """Return the kernels that are meant to be right, and whose time is a matter of the bytes that they must move."""
    return tuple(kernel for kernel in kernels if not kernel.fault and kernel.problem.name not in PROBES)


def scaled(problem: Problem, nbytes: int, case: Case | None = None, only: str = "") -> Case:
    """Return a case enlarged until a kernel moves so many bytes: its largest sizes, or one only, are doubled.

    Examples
    --------
    >>> from kernellab.catalog import problem
    >>> scaled(problem("transpose"), 2**28).sizes
    {'rows': 8192, 'columns': 8192}
    >>> scaled(problem("copy"), 2**28).sizes
    {'n': 33554432}
    """
    from kernellab import catalog

    small = case or problem.cases[0]
    ladder = catalog.ladder(problem.name)
    kernel = next(rung for rung in ladder if small.element in (rung.elements or ELEMENTS[:1]))
    cost = kernel.cost or problem.cost
    dtypes = {item.name: item.at(small.element).numpy_dtype for item in kernel.inputs}
    most = max(small.sizes.values())
    grown = [only] if only else [name for name, size in small.sizes.items() if 4 * size > most]
    given = problem.inputs(small)
    now = bind(kernel, {item.name: given[item.name] for item in kernel.inputs}).cost().nbytes
    doublings = max(0, math.ceil(math.log2(nbytes / now) / len(grown)))
    sizes = {name: size * 2**doublings if name in grown else size for name, size in small.sizes.items()}

    def moved() -> int:
        known = {**kernel.constants, **sizes}
        shapes = {
            item.name: tuple(int(side) if side.isdigit() else known[side] for side in item.shape)
            for item in kernel.inputs
        }
        return cost(sizes, {name: ArraySpec(shapes[name], dtype) for name, dtype in dtypes.items()}).nbytes

    while moved() < nbytes:  # not all that grew counts
        sizes |= {name: 2 * sizes[name] for name in grown}
    return replace(small, name=f"{small.name}, enlarged", sizes=sizes)


def timed_row(work: Workload, timing: Timing, copy: Timing | None, **more: Any) -> dict[str, Any]:
    """Return a row of results: names, bytes, rates, raw samples."""
    seconds = timing.seconds
    rate = work.nbytes / seconds if seconds else math.nan
    row: dict[str, Any] = {
        "workload": work.name,
        **more,
        "nbytes": work.nbytes,
        "flops": work.flops,
        "seconds": seconds,
        "interval": timing.interval,
        "gigabytes_per_second": rate / 1e9,
        "fraction_of_copy": copy.seconds / seconds if copy is not None and seconds else math.nan,
        "is_throttled": timing.is_throttled,
        "samples": [round(sample, 10) for sample in timing.samples],
    }
    return row


def plan_fields(plan: Plan, language: Language) -> dict[str, Any]:
    """Return what ran: kernel, language, sizes, parameters, geometry."""
    launch = plan.steps[0]
    return {
        "kernel": plan.kernel.id, "language": language, "sizes": dict(plan.sizes),
        "parameters": {name: value.item() for name, value in plan.parameters.items()},
        "grid": launch.grid, "block": launch.block, "constants": dict(launch.constants),
    }  # fmt: skip
