"""Strides: what the coalescing experiment counts, timed: every point of its sweeps, enlarged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kernellab.devices import device
from kernellab.experiments import load
from kernellab.experiments.experiment import Point
from kernellab.measurement import measure
from kernellab.results import Results, Shown
from kernellab.suites.bench import TIMED, Bench, languages_of, plan_fields, scaled, timed_row

COLUMNS = (
    Shown("point", "point"),
    Shown("language", "language"),
    Shown("sectors_per_request_load", "sectors a load request, counted", digits=2),
    *TIMED,
)


def run(bench: Bench) -> Results:
    """Time every right point that has no arrays of its own, both languages interleaved."""
    points = tuple(
        point
        for point in load("coalescing").points
        if not point.kernel.fault and point.arrays is None
    )  # fmt: skip
    notes: list[str] = []
    rows = [row for point in bench.within_budget(points, notes) for row in _time(bench, point)]
    lines = tuple(
        f"{row['point']}: {row['sectors_per_request_load']:.4g} sectors, {row['fraction_of_copy']:.3f}"
        for row in rows
        if row["language"] == "cuda-c"
    )
    return bench.results(
        "strides",
        "Strides, offsets, widths and layouts: sectors counted by the emulator beside measured time",
        rows,
        [point.kernel for point in points],
        columns=COLUMNS,
        notes=(
            "sectors: the experiment's own size on the emulator; time: enlarged, cold L2, median, languages "
            "interleaved with cudaMemcpy of as many bytes",
            *notes,
        ),
        lines=tuple("  |  ".join(lines[i : i + 2]) for i in range(0, len(lines), 2)),
    )


def _time(bench: Bench, point: Point) -> list[dict[str, Any]]:
    bench.progress(f"{point.kernel.id}: {point.label}")
    case = replace(point.case, sizes=scaled(point.kernel.problem, bench.nbytes).sizes)
    plan = bench.plan(point.kernel, case)
    languages = languages_of(point.kernel)
    works = [bench.workload(plan, language, language) for language in languages]
    copy = bench.copy(works[0].nbytes)
    timings = bench.time([*works, copy])
    rows = []
    for work, language in zip(works, languages, strict=True):
        counted = measure(point.kernel, case=point.case, language=language, device=device("emulator"))
        sectors = counted.value("sectors_per_request_load")
        row = timed_row(work, timings[work.name], timings[copy.name], point=point.label)
        rows.append(row | plan_fields(plan, language) | {"sectors_per_request_load": sectors})
    return rows
