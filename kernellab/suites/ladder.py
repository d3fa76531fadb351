"""Ladder: every kernel of the catalogue that is meant to be right, CUDA C beside Numba beside a copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernellab import catalog
from kernellab.errors import SpecError, UnavailableError
from kernellab.kernel import Kernel
from kernellab.results import Results, Shown
from kernellab.suites.bench import Bench, languages_of, plan_fields, right_kernels, timed_row

COLUMNS = (
    Shown("problem", "problem"),
    Shown("rungs", "rungs: speed as a fraction of cudaMemcpy, CUDA C / Numba"),
)


def run(bench: Bench) -> Results:
    """Time the whole catalogue at about `bench.nbytes` a launch."""
    kernels = right_kernels(catalog.kernels())
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    for kernel in bench.within_budget(kernels, notes):
        try:
            rows += time_languages(bench, kernel)
        except (SpecError, UnavailableError) as error:  # a limit, or something that is not here
            notes.append(f"left out: {error}")
    return bench.results(
        "ladder",
        f"Every kernel of the catalogue, at {bench.nbytes >> 20} MiB of compulsory traffic or a little more",
        (*summaries(rows), *rows),
        kernels,
        columns=COLUMNS,
        notes=(
            "cold L2, median; both languages and cudaMemcpy of as many bytes interleaved, outputs verified "
            "before and after; speed is compulsory bytes by time",
            *notes,
        ),
        lines=(*lines(rows), *notes),
    )


def time_languages(bench: Bench, kernel: Kernel) -> list[dict[str, Any]]:
    """Time one kernel in its languages; a row each."""
    bench.progress(kernel.id)
    plan = bench.enlarged(kernel)
    works = [bench.workload(plan, language, language) for language in languages_of(kernel)]
    copy = bench.copy(works[0].nbytes)
    timings = bench.time([*works, copy])
    return [
        timed_row(work, timings[work.name], timings[copy.name])
        | plan_fields(plan, language)
        | {"workload": f"{kernel.id} {language}"}
        for work, language in zip(works, languages_of(kernel), strict=True)
    ]


def summaries(rows: Sequence[dict[str, Any]]) -> list[dict[str, str]]:
    """Return a row a problem: its rungs, the languages of each beside each other.

    Examples
    --------
    >>> row = {"kernel": "copy/float4", "fraction_of_copy": 0.99}
    >>> summaries([row, row])
    [{'problem': 'copy', 'rungs': 'float4 0.99/0.99'}]
    """
    found: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        problem, _, rung = row["kernel"].partition("/")
        found.setdefault(problem, {}).setdefault(rung, []).append(f"{row['fraction_of_copy']:.2f}")
    return [
        {"problem": name, "rungs": ", ".join(f"{rung} {'/'.join(v)}" for rung, v in rungs.items())}
        for name, rungs in found.items()
    ]


def lines(rows: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """Return a line a problem."""
    return tuple(f"{row['problem']}: {row['rungs']}" for row in summaries(rows))
