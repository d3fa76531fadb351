"""Ladder: every kernel of the catalogue that is meant to be right, CUDA C beside Numba beside a copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernellab import catalog
from kernellab.kernel import Kernel
from kernellab.results import Results, Shown
from kernellab.suites.bench import Bench, languages_of, plan_fields, right_kernels, scaled, timed_row

COLUMNS = (
    Shown("kernel", "kernel"),
    Shown("cuda_c", "CUDA C GB/s", digits=0),
    Shown("numba", "Numba GB/s", digits=0),
    Shown("cuda_c_of_copy", "CUDA C of copy", digits=3),
    Shown("numba_of_copy", "Numba of copy", digits=3),
)


def run(bench: Bench) -> Results:
    """Time the whole catalogue at about `bench.nbytes` a launch."""
    kernels = right_kernels(catalog.kernels())
    rows = [row for kernel in kernels for row in time_languages(bench, kernel)]
    return bench.results(
        "ladder",
        f"Every kernel of the catalogue, at {bench.nbytes >> 20} MiB of compulsory traffic or a little more",
        rows,
        kernels,
        columns=COLUMNS,
        notes=(
            "cold L2, median; both languages and cudaMemcpy of as many bytes interleaved, outputs verified "
            "before and after; GB/s are compulsory bytes by time",
        ),
        lines=lines(rows),
    )


def time_languages(bench: Bench, kernel: Kernel) -> list[dict[str, Any]]:
    """Time one kernel in its languages; a row each."""
    bench.progress(kernel.id)
    plan = bench.plan(kernel, scaled(kernel.problem, bench.nbytes))
    works = [bench.workload(plan, language, language) for language in languages_of(kernel)]
    copy = bench.copy(works[0].nbytes)
    timings = bench.time([*works, copy])
    return [
        timed_row(work, timings[work.name], timings[copy.name])
        | plan_fields(plan, language)
        | {"workload": f"{kernel.id} {language}"}
        for work, language in zip(works, languages_of(kernel), strict=True)
    ]


def lines(rows: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """Return fractions of a copy, the languages of a kernel beside each other, three kernels a line."""
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["kernel"], []).append(f"{row['fraction_of_copy']:.3f}")
    texts = [f"{kernel} {'/'.join(values)}" for kernel, values in found.items()]
    return tuple("  ".join(texts[i : i + 3]) for i in range(0, len(texts), 3))
