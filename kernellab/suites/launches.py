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
    Shown("shown", "what is said to cost time"),
    Shown("cuda-c", "factor, CUDA C"),
    Shown("numba", "factor, Numba"),
    Shown("errors", "max ulp, without and with fast math"),
)
LOOKED_AT = 2**20
"""Arguments on which errors are looked at."""
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
        (*summaries(rows), *rows),
        {point.kernel.id: point.kernel for point in points}.values(),
        columns=COLUMNS,
        bars=bars,
        notes=(
            "cold L2, median, points of a group interleaved; factor: of pairs of samples; ulp: of "
            "one call on 2**20 arguments, against float64",
            *notes,
        ),
        lines=(
            *(f"{row['shown']}: {' | '.join(row[each] for each in LANGUAGES)}" for row in summaries(rows)),
            *notes,
        ),
    )


def _is_whole(rows: Sequence[Mapping[str, Any]], groups: Sequence[Sequence[Pitfall]]) -> bool:
    return sum("pitfall" in row for row in rows) == len(LANGUAGES) * sum(map(len, groups))


def _timed(bench: Bench, group: Sequence[Pitfall], language: Language) -> Iterator[dict[str, Any]]:
    """Time the points of pitfalls in turn, each once, and yield a row for each pitfall."""
    points = {point.label: point for item in group for point in (item.slow, item.fast)}
    timings = GpuClock(bench.device, language).times(tuple(points.values()))
    for item in group:
        slow, fast = timings[item.slow.label], timings[item.fast.label]
        factor, low, high = time_ratio(fast.samples, slow.samples)
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
            "low": low,
            "high": high,
            "ulp": _errors(bench, item, language) if item.fast.kernel.is_fast_math else (),
            "samples": [round(sample, 10) for sample in slow.samples],
            "samples_without": [round(sample, 10) for sample in fast.samples],
        }


def _errors(bench: Bench, item: Pitfall, language: Language) -> tuple[float, float]:
    """Return the largest errors of a function as the library has it and with fast math, in ulp, in one call."""
    points = [precision_cost.error_of(point, LOOKED_AT) for point in (item.slow, item.fast)]
    records = [
        measure(point.kernel, case=point.case, language=language, device=bench.device, mode=None)
        for point in points
    ]
    slow, fast = (record.verdict.max_ulp if record.verdict else 0.0 for record in records)
    return slow, fast


def summaries(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return a row a pitfall: its factor and interval in each language, and errors in ulp.

    Examples
    --------
    >>> one = {"pitfall": "exp", "language": "numba", "factor": 1.5, "low": 1.4, "high": 1.6, "ulp": (1.0, 2.5)}
    >>> summaries([one])
    [{'shown': 'exp', 'cuda-c': '-', 'numba': '1.50 (95 % 1.40 to 1.60)', 'errors': '1 and 2.5'}]
    """
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        if "pitfall" not in row:
            continue
        empty: dict[str, str] = {"shown": row["pitfall"], **dict.fromkeys(LANGUAGES, "-"), "errors": ""}
        shown = found.setdefault(row["pitfall"], empty)
        shown[row["language"]] = f"{row['factor']:.2f} (95 % {row['low']:.2f} to {row['high']:.2f})"
        if row["ulp"]:
            shown["errors"] = " and ".join(f"{ulp:.2g}" for ulp in row["ulp"])
    return list(found.values())


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
