"""Launches: what each pitfall of launch and precision costs, errors with fast math, and the driver's occupancy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kernellab.errors import LabError
from kernellab.experiments import launch_config, precision_cost
from kernellab.experiments.clocked import GpuClock
from kernellab.experiments.pitfalls import Pitfall
from kernellab.instruments.clock import time_ratio
from kernellab.kernel import LANGUAGES, Language
from kernellab.measurement import measure
from kernellab.results import Results, Shown
from kernellab.suites.bench import Bench
from kernellab.suites.driver_occupancy import ask, ours

COLUMNS = (
    Shown("pitfall", "what is said to cost time"),
    Shown("language", "language"),
    Shown("seconds", "us", 1e6, 1),
    Shown("seconds_without", "us without", 1e6, 1),
    Shown("factor", "factor, same work", digits=2),
    Shown("interval", "95 %"),
    Shown("ulp", "max ulp: with, without"),
)
GROUPS: tuple[tuple[Pitfall, ...], ...] = (
    launch_config.PITFALLS,
    tuple(item for item in precision_cost.PITFALLS if not precision_cost.is_function(item)),
    tuple(item for item in precision_cost.PITFALLS if precision_cost.is_function(item)),
)
"""Pitfalls whose points are timed in turn."""


def run(bench: Bench, groups: Sequence[Sequence[Pitfall]] = GROUPS) -> Results:
    """Time each pitfall beside what is without it, in both languages; the driver's occupancy is a bar."""
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    for language in LANGUAGES:
        for group in bench.within_budget(groups, notes):
            bench.progress(f"{group[0].text} and more, {language}")
            try:
                rows += _timed(bench, group, language)
            except LabError as error:
                notes.append(f"left out: {group[0].text} and what is timed with it, {language}: {error}")
            bench.free()
    bars = {
        f"{len({row['pitfall'] for row in rows})} pitfalls are timed in both languages": _is_whole(
            rows, groups
        )
    }
    bars |= _driver(bench, rows, notes)
    points = [point for group in groups for item in group for point in (item.slow, item.fast)]
    return bench.results(
        "launches",
        "Pitfalls of launch and of precision: what each costs",
        rows,
        {point.kernel.id: point.kernel for point in points}.values(),
        columns=COLUMNS,
        bars=bars,
        notes=(
            "cold L2, median, points of a group interleaved; factor: of pairs of samples, for the same work; ulp: of "
            "one call on 2**20 arguments, against float64",
            *notes,
        ),
        lines=(
            *(
                f"{r['pitfall']} ({r['language']}): {r['factor']:.3g} x {r['interval']}"
                for r in rows
                if "factor" in r
            ),
            *notes,
        ),
    )


def _is_whole(rows: Sequence[Mapping[str, Any]], groups: Sequence[Sequence[Pitfall]]) -> bool:
    return len(rows) == len(LANGUAGES) * sum(map(len, groups))


def _timed(bench: Bench, group: Sequence[Pitfall], language: Language) -> Iterator[dict[str, Any]]:
    """Time the points of pitfalls in turn, each once, and yield a row for each pitfall."""
    points = {point.label: point for item in group for point in (item.slow, item.fast)}
    timings = GpuClock(bench.device, language).times(tuple(points.values()))
    ulps: dict[str, float] = {}
    for item in group:
        slow, fast = timings[item.slow.label], timings[item.fast.label]
        factor, low, high = (each / item.work for each in time_ratio(fast.samples, slow.samples))
        yield {
            "pitfall": item.text,
            "language": language,
            "kernel": item.slow.kernel.id,
            "kernel_without": item.fast.kernel.id,
            "case": item.slow.case.name,
            "case_without": item.fast.case.name,
            "seconds": slow.seconds,
            "seconds_without": fast.seconds,
            "factor": factor,
            "interval": f"{low:.2f} to {high:.2f}",
            "ulp": _errors(bench, item, language, ulps) if precision_cost.is_function(item) else "",
            "samples": [round(sample, 10) for sample in slow.samples],
            "samples_without": [round(sample, 10) for sample in fast.samples],
        }


def _errors(bench: Bench, item: Pitfall, language: Language, known: dict[str, float]) -> str:
    """Return the largest errors of both points' functions in one call, in ulp."""
    found = []
    for point in (item.slow, item.fast):
        if point.label not in known:
            looked_at = precision_cost.error_of(point, 2**20)
            record = measure(
                looked_at.kernel, case=looked_at.case, language=language, device=bench.device, mode=None
            )
            known[point.label] = record.verdict.max_ulp if record.verdict else 0.0
        found.append(f"{known[point.label]:.2g}")
    return ", ".join(found)


def _driver(bench: Bench, rows: list[dict[str, Any]], notes: list[str]) -> dict[str, bool]:
    """Ask the driver of many launches, and say in how many our calculator agrees."""
    bench.progress("the driver's occupancy")
    try:
        asked = list(ask(bench.device))
    except Exception as error:  # CuPy and the driver have errors of their own
        notes.append(f"the driver was not asked for occupancy: {error}")
        return {"kl.occupancy counts the blocks that the driver counts (not asked)": False}
    other = [row for row in asked if ours(row) != row["blocks"]]
    rows += [{"driver": row, "ours": ours(row)} for row in other]
    text = f"kl.occupancy counts the blocks that the driver counts in {len(asked) - len(other)} of {len(asked)} launches"
    return {text: not other}


__all__ = ["run"]
