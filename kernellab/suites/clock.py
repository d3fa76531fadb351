"""Clock: our clock beside Nsight Compute's, on ten kernels from 5 us to 5 ms, and a spin of known length."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any

from kernellab import catalog
from kernellab.errors import UnavailableError
from kernellab.instruments import counters
from kernellab.instruments.clock import Rule
from kernellab.kernel import Kernel
from kernellab.plan import Plan
from kernellab.problem import Case
from kernellab.results import Results, Shown
from kernellab.suites.bench import Bench, plan_fields, right_kernels, scaled, timed_row
from kernellab.suites.peers import is_comparable
from kernellab.workload import CallWorkload

SHORT = (5e-6, 1e-5, 2e-5, 4e-5, 8e-5, 1.2e-4)
"""Seconds wanted of kernels that move data."""
LONG = (5e-4, 1e-3, 2e-3, 5e-3)
"""Seconds wanted of kernels that compute, on a million elements with more or fewer steps each."""
SPIN = 1e-3
RELATIVE, ABSOLUTE = 0.02, 2e-6
REPEATS = 3
COLUMNS = (
    Shown("kernel", "kernel"),
    Shown("seconds", "kernellab us", 1e6, 2),
    Shown("ncu", "ncu us", 1e6, 2),
    Shown("difference", "difference %", 100, 2),
)


def run(bench: Bench) -> Results:
    """Time kernels of ten lengths, profile them, compare; the same cold L2 on both sides."""
    plans = tuple(_plans(bench))
    rows: list[dict[str, Any]] = []
    for plan in plans:
        bench.progress(f"clock: {plan.kernel.id}")
        work = bench.workload(plan, "cuda-c")
        rows.append(timed_row(work, bench.time([work])[work.name], None) | plan_fields(plan, "cuda-c"))
    bench.progress("clock: the same under ncu")
    jobs = [counters.Job(plan.kernel, plan.inputs, plan.parameters) for plan in plans for _ in range(REPEATS)]
    notes = ["cold L2 on both sides (evicted by reads here, flushed by ncu), clocks not locked, medians"]
    try:
        measured = counters.read_counters(jobs, ("seconds",))
        profiled = [sum(launch["seconds"] for launch in launches) for launches in measured]
        for i, row in enumerate(rows):
            beside(row, statistics.median(profiled[REPEATS * i : REPEATS * (i + 1)]))
    except UnavailableError as error:
        notes.append(str(error))
    spin = spin_row(bench)
    bars = {
        f"a gated spin of 1 ms reads 1 ms within 2 % (reads {spin['seconds'] * 1e3:.4f})": bool(
            spin["agrees"]
        )
    }
    if all("ncu" in row for row in rows):
        agreed = sum(row["agrees"] for row in rows)
        bars[f"within 2 % or 2 us of gpu__time_duration ({agreed} of {len(rows)})"] = agreed == len(rows)
    return bench.results(
        "clock",
        "kernellab's clock beside Nsight Compute's gpu__time_duration",
        (*rows, spin),
        [plan.kernel for plan in plans],
        columns=COLUMNS,
        bars=bars,
        notes=tuple(notes),
        lines=tuple(_line(row) for row in rows),
    )


def beside(row: dict[str, Any], seconds: float) -> None:
    """Put the profiler's time beside ours, and say whether they agree.

    Examples
    --------
    >>> row = {"seconds": 5e-6}
    >>> beside(row, 6.5e-6)
    >>> row["agrees"], round(row["difference"], 3)
    (True, -0.231)
    """
    row["ncu"] = seconds
    row["difference"] = row["seconds"] / seconds - 1 if seconds else math.nan
    row["agrees"] = abs(row["seconds"] - seconds) <= max(RELATIVE * seconds, ABSOLUTE)


def spin_row(bench: Bench) -> dict[str, Any]:
    """Time a kernel that spins for a known time."""
    stopwatch: Any = bench.stopwatch
    work = CallWorkload("spin of 1 ms", lambda: stopwatch.spin(SPIN))
    row = timed_row(work, bench.time([work])[work.name], None)
    row |= {"kernel": "spin of 1 ms", "ncu": math.nan, "difference": math.nan}
    row["agrees"] = abs(row["seconds"] / SPIN - 1) <= RELATIVE
    return row


def _plans(bench: Bench) -> list[Plan]:
    movers = [
        kernel
        for name in ("copy", "transpose", "relu")
        for kernel in right_kernels(catalog.ladder(name))
        if is_comparable(kernel)
    ]
    workers = right_kernels(catalog.ladder("uneven_work"))
    plans = []
    for i, seconds in enumerate(SHORT):
        plans.append(_mover(bench, movers[i * len(movers) // len(SHORT)], seconds))
    for i, seconds in enumerate(LONG):
        plans.append(_worker(bench, workers[i % len(workers)], seconds))
    return plans


def _quick(bench: Bench, plan: Plan) -> float:
    work = bench.workload(plan, "cuda-c")
    return bench.time([work], Rule(minimum=7, maximum=7, queue=7))[work.name].seconds


def _mover(bench: Bench, kernel: Kernel, seconds: float) -> Plan:
    """Bind a kernel to as many elements as take about so long, judged by a small and a large number."""
    small, large = (scaled(kernel.problem, nbytes) for nbytes in (2**20, 2**27))
    plans = [bench.plan(kernel, case) for case in (small, large)]
    low, high = (_quick(bench, plan) for plan in plans)
    sizes = {"low": plans[0].cost().nbytes, "high": plans[1].cost().nbytes}
    a_byte = max(high - low, 1e-9) / (sizes["high"] - sizes["low"])
    wanted = max(sizes["low"] / 4, sizes["low"] + (seconds - low) / a_byte)
    return bench.plan(kernel, _resized(large, wanted / sizes["high"]))


def _resized(case: Case, factor: float) -> Case:
    """Return a case with so many times the elements, every size a multiple of 64."""
    each = factor ** (1 / len(case.sizes))
    sizes = {name: max(64, round(size * each / 64) * 64) for name, size in case.sizes.items()}
    return Case("resized", sizes, case.parameters, case.contents)


def _worker(bench: Bench, kernel: Kernel, seconds: float) -> Plan:
    """Bind a kernel to a million elements whose steps are so many that they take about so long."""
    case = Case("a million", {"n": 2**20})
    arrays: Mapping[str, Any] = kernel.problem.inputs(case)
    steps = 64
    many = {**arrays, "trips": arrays["trips"] * steps}
    a_step = _quick(bench, bench.plan(kernel, case, many)) / steps
    factor = max(1, round(seconds / a_step))
    return bench.plan(kernel, case, {**arrays, "trips": arrays["trips"] * factor})


def _line(row: Mapping[str, Any]) -> str:
    text = f"{row['kernel']}: {row['seconds'] * 1e6:.2f} us"
    if "ncu" in row:
        verdict = "" if row["agrees"] else " DIFFERS"
        text += f", ncu {row['ncu'] * 1e6:.2f} us ({100 * row['difference']:+.2f} %){verdict}"
    return text
