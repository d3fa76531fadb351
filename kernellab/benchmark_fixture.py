"""What ``cuda_benchmark`` does: verify, then time on the device, or count on the emulator."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kernellab import workload
from kernellab.benchmark_settings import Settings, check_keywords
from kernellab.errors import SpecError
from kernellab.instruments import trace as counts
from kernellab.instruments.clock import MODES, Mode, Timing
from kernellab.intake import find_kernel
from kernellab.kernel import LANGUAGES, Kernel, Language
from kernellab.measurement import Job, judge, prepare
from kernellab.record import plain
from kernellab.source_code import source_hash
from kernellab.timing import check_ceiling, host_plan
from kernellab.trace_fixture import counted, summary

if TYPE_CHECKING:
    from kernellab.devices.program import Device, Run
    from kernellab.instruments.clock import Stopwatch
    from kernellab.trace import Trace


class CudaBenchmark:
    """The fixture's value: call it once in a test, like pytest-benchmark's ``benchmark``.

    Attributes
    ----------
    mode, nbytes, flops, language, rule
        As in `Settings`; may be assigned before the call.
    extra_info : dict
        Goes into the JSON; kernellab adds device, mode, calls, bytes, rates and counts.
    timing : Timing or None
        The device's samples; None where nothing was timed.
    calls : int
        How often the function, or the kernel's plan, was really run.
    is_counted_only : bool
        There was no GPU: counts, and no time.
    """

    def __init__(
        self,
        benchmark: Any,
        clock: Any,
        device: Device,
        settings: Settings,
        note: Callable[[str], object] = lambda text: None,
    ) -> None:
        self.benchmark = benchmark
        self.extra_info: dict[str, Any] = benchmark.extra_info
        self.device = device
        self.mode: Mode = settings.mode
        self.nbytes, self.flops = settings.nbytes, settings.flops
        self.language: Language = settings.language
        self.rule = settings.rule
        self.timing: Timing | None = None
        self.calls = 0
        self.is_counted_only = False
        self._clock = clock
        self._note = note
        self._job: Job | None = None
        self._traces: tuple[Trace, ...] = ()
        self._is_used = self._is_told = False

    @property
    def stats(self) -> Any:
        """pytest-benchmark's statistics of the device's samples; None where nothing was timed."""
        return self.benchmark.stats

    # -- counts
    @property
    def traces(self) -> tuple[Trace, ...]:
        """What the emulator counted, one trace a launch; after a timed run counted when first asked for.

        Raises
        ------
        SpecError
            Before the call, or for a callable, which the emulator cannot see into.
        """
        if not self._traces:
            if self._job is None:
                raise SpecError(
                    "cuda_benchmark: there is no trace of a callable; benchmark a kernel of the catalogue, "
                    "or trace your own with the fixture cuda_trace"
                )
            self._traces = counted(self._job, self.language)
            self.extra_info["counts"] = plain(dict(counts.totals(self._traces)))
        return self._traces

    @property
    def trace(self) -> Trace:
        """The trace of a kernel with one launch: ``trace.line(42).bank_conflicts``, ``trace.totals``.

        Raises
        ------
        SpecError
            If there are several; `traces` holds them.
        """
        found = self.traces
        if len(found) != 1:
            raise SpecError(f"cuda_benchmark: there are {len(found)} traces, `trace` is one; take traces[i]")
        return found[0]

    # -- calls
    def __call__(self, function: str | Kernel | Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Measure a kernel or a callable until the median is known.

        Parameters
        ----------
        function : str, Kernel or callable
            The id of a kernel, which is verified before and after; or a callable that queues work on CuPy's
            current stream and does not wait for it.
        *args, **kwargs
            The kernel's arrays and parameters (``case="..."`` in place of arrays); or the callable's own.

        Returns
        -------
        object
            The kernel's outputs as NumPy arrays; or what the callable returned last.

        Raises
        ------
        MismatchError
            If a kernel's answer is wrong, before or after the timed loop.
        SpecError
            For a second call in one test, or a mode that does not exist.
        """
        self._begin()
        if isinstance(function, str | Kernel):
            return self._kernel(find_kernel(function), args, kwargs)
        check_keywords(function, kwargs)
        stopwatch = self._stopwatch(function)
        work = workload.CallWorkload(
            _name(function), lambda: function(*args, **kwargs), self.nbytes, self.flops
        )
        if not self.is_enabled:
            return self._once(work, stopwatch)
        self._time(work, stopwatch)
        return work.result

    def pedantic(
        self,
        target: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        setup: Callable[[], Any] | None = None,
        teardown: Callable[..., Any] | None = None,
        rounds: int = 15,
        warmup_rounds: int = 1,
        iterations: int = 1,
    ) -> Any:
        """Time exactly `rounds` calls after exactly `warmup_rounds`, as pytest-benchmark's ``pedantic``.

        Parameters
        ----------
        target : callable
            Queues work on CuPy's current stream.
        args, kwargs
            Its arguments, unless `setup` returns them.
        setup : callable, optional
            Called before every round, not timed; may return ``(args, kwargs)``. It may wait for the device.
        teardown : callable, optional
            Called with the same arguments after every round, not timed.
        rounds, warmup_rounds : int
            Nothing else calls `target`.
        iterations : int
            Must be 1: every sample is one call.

        Returns
        -------
        object
            What the last call returned.

        Raises
        ------
        SpecError
            For other iterations, fewer than one round, or arguments given twice.
        """
        self._begin()
        if iterations != 1 or rounds < 1 or warmup_rounds < 0:
            raise SpecError(
                f"cuda_benchmark: rounds is {rounds}, warmup_rounds {warmup_rounds} and iterations "
                f"{iterations}; they must be at least 1, at least 0, and 1; correct them"
            )
        stopwatch = self._stopwatch(target)

        def arguments() -> tuple[tuple[Any, ...], Mapping[str, Any]]:
            given = setup() if setup is not None else None
            if given is None:
                return tuple(args), kwargs or {}
            if args or kwargs:
                raise SpecError("cuda_benchmark: setup returns arguments and args are given; leave one out")
            return tuple(given[0]), given[1]

        count = rounds + warmup_rounds if self.is_enabled else 1
        timing, result = workload.time_rounds(
            stopwatch, target, arguments, rounds=count, mode=self.mode, finish=teardown
        )
        self.calls = count
        if self.is_enabled:
            kept = replace(timing, samples=timing.samples[warmup_rounds:])
            self._tell(kept, None, _name(target), self.nbytes, self.flops)
        else:
            self._leave_out()
        return result

    # -- inside
    @property
    def is_enabled(self) -> bool:
        """Whether pytest-benchmark measures: not under --benchmark-disable, nor under xdist."""
        return not self.benchmark.disabled

    def _begin(self) -> None:
        if self._is_used:
            raise SpecError("cuda_benchmark: it was called before, a test calls it once; write another")
        self._is_used = True
        if self.mode not in MODES[:2]:
            raise SpecError(f"cuda_benchmark: mode is {self.mode!r}, it must be cold or hot; correct it")
        if self.language not in LANGUAGES:
            known = " or ".join(map(repr, LANGUAGES))
            raise SpecError(f"cuda_benchmark: language is {self.language!r}, it must be {known}; correct it")

    def _stopwatch(self, function: Callable[..., Any]) -> Stopwatch:
        if self.device.name == "emulator":
            pytest.skip(
                f"cuda_benchmark: there is no GPU here to time {_name(function)} on; "
                "a kernel of the catalogue would be counted on the emulator"
            )
        return self.device.stopwatch()  # type: ignore[attr-defined,no-any-return]

    def _once(self, work: workload.CallWorkload, stopwatch: Stopwatch) -> Any:
        result = work.run()
        stopwatch.wait()
        self.calls = work.runs
        self._leave_out()
        return result

    def _kernel(self, kernel: Kernel, arrays: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        check_keywords(kernel, keywords)
        case = keywords.pop("case", None)
        job = prepare(kernel, arrays, device=self.device, case=case, parameters=keywords)
        with job.scope(self.device):
            return self._measure(job)

    def _measure(self, job: Job) -> Any:
        plan = job.plan
        program = self.device.build(plan.kernel, self.language)
        run = self.device.run(program, plan)
        self.calls = 1
        on_host = host_plan(self.device, plan)
        judge(on_host, run).require()
        self._job = replace(job, plan=on_host)
        cost = on_host.cost()
        self.nbytes, self.flops = cost.nbytes, cost.flops
        launch = plan.steps[0] if plan.steps else None
        self.extra_info |= {
            "kernel": plan.kernel.id, "language": self.language, "arch": program.arch,
            "sizes": dict(plan.sizes), "source_hash": source_hash(plan.kernel, self.language),
            "grid": list(launch.grid) if launch else [], "block": list(launch.block) if launch else [],
            "device": str(self.device.describe()["device"]), "nbytes": self.nbytes, "flops": self.flops,
        }  # fmt: skip
        if self.device.name == "emulator":
            self._count_only(run)
        elif not self.is_enabled:
            self._leave_out()
        else:
            work = workload.PlanWorkload(self.device, program, plan, answer=run)  # type: ignore[arg-type]
            self._time(work, self.device.stopwatch())  # type: ignore[attr-defined]
        results = tuple(run.outputs.values())
        return results[0] if len(results) == 1 else results

    def _time(self, work: workload.CallWorkload | workload.PlanWorkload, stopwatch: Stopwatch) -> None:
        """Time a workload, beside a copy of as many bytes where they are known."""
        copy = workload.copy_workload(self.device, work.nbytes) if work.nbytes else None  # type: ignore[arg-type]
        works = [work] if copy is None or self.mode == "hot" else [work, copy]
        options: dict[str, Any] = {"mode": self.mode, "rule": self.rule}
        timings = workload.time_workloads(stopwatch, works, **options)
        if copy is not None and self.mode == "hot":  # apart, as it would push the other out of the L2
            timings |= workload.time_workloads(stopwatch, [copy], **options)
        self.calls += work.runs
        beside = None if copy is None else timings[copy.name]
        self._tell(timings[work.name], beside, work.name, work.nbytes, work.flops)

    def _count_only(self, run: Run) -> None:
        self.is_counted_only = True
        self._traces = run.traces
        totals = dict(counts.totals(run.traces)) if run.traces else {}
        self.extra_info |= {"mode": "counted only", "counts": plain(totals)}
        self._leave_out()
        self._note(summary(totals))

    def _tell(self, timing: Timing, copy: Timing | None, name: str, nbytes: int, flops: int) -> None:
        """Hand the samples to pytest-benchmark, and what follows from them to extra_info."""
        seconds = timing.seconds
        if copy is not None:
            check_ceiling(name, timing, copy, nbytes, int(getattr(self.device, "l2_bytes", 0)))
        self.timing = timing
        self.extra_info |= {
            "device": str(self.device.describe()["device"]), "mode": timing.mode, "calls": self.calls,
            "median_seconds": seconds, "median_interval": list(timing.interval),
            "clock_hz": min(timing.clock_hz, default=math.nan), "is_throttled": timing.is_throttled,
        }  # fmt: skip
        if flops and seconds:
            self.extra_info["flops_per_second"] = flops / seconds
        if nbytes and seconds:
            self.extra_info |= {"nbytes": nbytes, "bytes_per_second": nbytes / seconds}
            if copy is not None:
                self.extra_info["fraction_of_copy"] = copy.seconds / seconds
        self._is_told = True
        self._clock.load(timing.samples)
        self.benchmark.pedantic(self._clock.advance, rounds=len(timing.samples), iterations=1)

    def _leave_out(self) -> None:
        self._is_told = True
        leave_out(self.benchmark)

    def finish(self) -> None:
        """Turn what stands in extra_info into plain values: no NaN, no infinity, no NumPy scalar.

        A test that failed before it had samples has used the fixture, and pytest-benchmark is told so.
        """
        if self._is_used and not self._is_told:
            self._leave_out()
        for key, value in list(self.extra_info.items()):
            self.extra_info[key] = plain(_python(value))


def leave_out(benchmark: Any) -> None:
    """Let pytest-benchmark know that its fixture was used, and that there are no samples to keep."""
    benchmark.disabled = True
    benchmark.pedantic(lambda: None)


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", None) or getattr(function, "name", None) or repr(function))


def _python(value: Any) -> Any:
    """Return NumPy scalars and arrays as Python's own."""
    if isinstance(value, Mapping):
        return {key: _python(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_python(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value
