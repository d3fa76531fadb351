"""Compare: does the comparison say equal of a kernel and itself, and slower of one that is 5 % slower?"""

from __future__ import annotations

import copy
from typing import Any

from kernellab import catalog
from kernellab.instruments.clock import is_slower
from kernellab.kernel import Kernel
from kernellab.plan import Plan
from kernellab.problem import Case
from kernellab.results import Results, Shown
from kernellab.suites.bench import Bench, scaled

TRIALS = 10
SLOWDOWN = 1.05
KERNEL = "copy/float4"
COLUMNS = (
    Shown("pair", "pair"),
    Shown("trial", "trial", digits=0),
    Shown("ratio", "ratio found", digits=4),
)


def run(bench: Bench) -> Results:
    """Compare a copy with itself, and with one of 5 % more elements, ten times each."""
    kernel = catalog.kernel(KERNEL)
    case = scaled(kernel.problem, bench.nbytes)
    more = Case("5 % more", {"n": round(case.sizes["n"] * SLOWDOWN / 4) * 4})
    plan, slower = bench.plan(kernel, case), bench.plan(kernel, more)
    rows = _trials(bench, "itself", plan, plan) + _trials(bench, "5 % slower", plan, slower)
    equal = sum(row["ratio"] == 1.0 for row in rows if row["pair"] == "itself")
    seen = sum(row["ratio"] > 1.0 for row in rows if row["pair"] != "itself")
    used: list[Kernel] = [kernel]
    return bench.results(
        "compare",
        "A kernel compared with itself, and with one that is 5 % slower",
        rows,
        used,
        columns=COLUMNS,
        bars={
            f"says equal of a kernel and itself in 10 of 10 ({equal})": equal == TRIALS,
            f"says slower of one 5 % slower in at least 9 of 10 ({seen})": seen >= TRIALS - 1,
        },
        notes=("interleaved, cold; a ratio of exactly 1 means that no difference was found",),
        lines=(f"equal {equal}/{TRIALS}; slower {seen}/{TRIALS}: " + " ".join(_ratios(rows)),),
    )


def _trials(bench: Bench, pair: str, first: Plan, second: Plan) -> list[dict[str, Any]]:
    works = [bench.workload(first, "cuda-c", "first")]
    if second is first:  # on the same arrays: where an array lies in memory makes up to 1 % of difference
        works.append(copy.copy(works[0]))
        works[1].name = "second"
    else:
        works.append(bench.workload(second, "cuda-c", "second"))
    rows = []
    for trial in range(TRIALS):
        bench.progress(f"compare: {pair}, {trial + 1} of {TRIALS}")
        timings = bench.time(works)
        first_samples, second_samples = (timings[work.name].samples for work in works)
        ratio = is_slower(first_samples, second_samples)
        raw = [[round(each, 10) for each in samples] for samples in (first_samples, second_samples)]
        rows.append({"pair": pair, "trial": trial + 1, "ratio": ratio, "samples": raw})
    return rows


def _ratios(rows: list[dict[str, Any]]) -> list[str]:
    return [f"{row['ratio']:.3f}" for row in rows if row["pair"] != "itself"]
