"""Ladder: every rung of the catalogue that is meant to be right, CUDA C beside its Numba twin beside a copy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kernellab import catalog
from kernellab.errors import LabError, SpecError, UnavailableError
from kernellab.kernel import Kernel, Language
from kernellab.plan import Plan
from kernellab.problem import Problem
from kernellab.results import Results, Shown
from kernellab.suites.arena import Arena
from kernellab.suites.bench import Bench, languages_of, plan_fields, right_kernels, scaled, timed_row
from kernellab.suites.facts import facts_of, plain, reasons
from kernellab.suites.precompile import precompile
from kernellab.suites.product_arena import arena_of, is_product
from kernellab.suites.products import SIDES
from kernellab.suites.race import compiled, gathered, race
from kernellab.suites.rows import USUAL

SLOWER = 1.10
"""A twin's time over that of CUDA C from which on the table says why."""
SHARE = 3.5
"""Times the bench's budget that the whole catalogue may take."""
FROM_HOST = (
    "copy", "shared_stride", "uneven_work", "masked_rows", "take", "take_rows", "float_histogram", "horner",
    "elementary",
)  # fmt: skip
"""Problems whose inputs are more than numbers, or whose references take NumPy's own arrays only."""
COLUMNS = (
    Shown("problem", "problem"),
    Shown(
        "rungs", "rungs: CUDA C of cudaMemcpy's speed (products: TFLOP/s), x the twin's time over CUDA C's"
    ),
    Shown("slower", f"twins slower by over {100 * (SLOWER - 1):.0f} %: how their machine code differs"),
)


def run(bench: Bench) -> Results:
    """Time the whole catalogue at about `bench.nbytes` a launch, each rung in its first element."""
    # Those whose inputs come from the host take longest, so they come last.
    kernels = sorted(right_kernels(catalog.kernels()), key=lambda kernel: kernel.problem.name in FROM_HOST)
    notes: list[tuple[str, str]] = []
    late: list[str] = []
    last = {heat_of(kernel): kernel for kernel in kernels}
    arenas = {heat: arena_for(bench, *heat) for heat in last}
    precompile(bench, _entries(kernels, arenas), with_sass=True)
    rows: list[dict[str, Any]] = []
    for kernel in bench.within_budget(kernels, late, SHARE):
        bench.progress(kernel.id)
        heat = heat_of(kernel)
        arena = arenas[heat]
        try:
            found = race(arena, _languages(kernel)) if arena else time_languages(bench, kernel)
            rows += explained(bench, kernel, arena, found)
        except LabError as error:  # a limit, or something that is not here
            notes.append((kernel.id, f"left out: {error}"))
        if arena:
            notes += [(kernel.id, note) for note in arena.notes]
            arena.notes.clear()
        if kernel is last[heat]:
            arenas[heat] = None  # its arrays are needed no more
            bench.free()
    told = (*gathered(notes), *late)
    return bench.results(
        "ladder",
        f"Every rung of the catalogue, at {bench.nbytes >> 20} MiB of compulsory traffic or a little more",
        (*summaries(rows), *rows),
        kernels,
        columns=COLUMNS,
        notes=(
            "float32, or the first that a rung takes; cold L2, median; both languages and cudaMemcpy of as many "
            "bytes interleaved, outputs verified before and after; speed is compulsory bytes by time, of products "
            f"at {SIDES[0]} operations by time",
            *told,
        ),
        lines=(*lines(rows), *told),
    )


def heat_of(kernel: Kernel) -> tuple[str, str]:
    """Return the problem, and the element in which a rung is timed."""
    return kernel.problem.name, kernel.cases[0].element


def arena_for(bench: Bench, name: str, element: str) -> Arena | None:
    """Return a problem's arena, or None where its inputs have to come from the host."""
    if name in FROM_HOST:
        return None
    found = catalog.problem(name)
    return arena_of(bench, found, _sizes(bench, found, element), element)


def _sizes(bench: Bench, problem: Problem, element: str) -> Mapping[str, int]:
    """Return sizes that every rung can be bound to: along the first only where limits ask it; rows of the usual length."""
    if is_product(problem):  # as many bytes would take the simplest rungs too long
        return dict.fromkeys("mnk", SIDES[0])
    first = next(case for case in problem.cases if case.element == element)
    if {"rows", "columns"} <= set(first.sizes) and problem.name != "transpose":
        along = {name for name, size in first.sizes.items() if size == first.sizes["columns"]} - {"rows"}
        usual = replace(first, sizes={**first.sizes, **dict.fromkeys(along, USUAL)})
        return scaled(problem, bench.nbytes, usual, only="rows").sizes
    whole = scaled(problem, bench.nbytes, first).sizes
    arena = arena_of(bench, problem, whole, element)
    try:
        for kernel in right_kernels(catalog.ladder(problem.name)):
            if heat_of(kernel) == (problem.name, element):
                arena.plan(kernel)
    except SpecError:
        return scaled(problem, bench.nbytes, first, only=next(iter(first.sizes))).sizes
    return whole


def _languages(kernel: Kernel) -> list[tuple[Kernel, Language]]:
    return [(kernel, language) for language in languages_of(kernel)]


def _entries(
    kernels: Iterable[Kernel], arenas: Mapping[tuple[str, str], Arena | None]
) -> list[tuple[Kernel, Language]]:
    """Return what will be compiled, with the constants that it will have."""
    found: list[tuple[Kernel, Language]] = []
    for kernel in kernels:
        arena = arenas[heat_of(kernel)]
        found += compiled(arena, _languages(kernel)) if arena else _languages(kernel)
    return found


def time_languages(bench: Bench, kernel: Kernel) -> list[dict[str, Any]]:
    """Time one kernel in its languages on arrays from the host; a row each."""
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


def explained(
    bench: Bench, kernel: Kernel, arena: Arena | None, rows: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return a rung's rows; that of the twin with its time over CUDA C's, and why where it is slower."""
    times = {row["language"]: float(row["seconds"]) for row in rows}
    for row in rows:
        if row["language"] != "numba" or not times.get("cuda-c"):
            continue
        row["twin_ratio"] = times["numba"] / times["cuda-c"]
        if row["twin_ratio"] > SLOWER:
            row |= _why(bench, arena.plan(kernel) if arena else bench.enlarged(kernel))
    return rows


def _why(bench: Bench, plan: Plan) -> dict[str, Any]:
    try:
        first, twin = (
            facts_of(bench.device.build(plan.kernel, language), plan)
            for language in languages_of(plan.kernel)
        )
    except UnavailableError as error:
        return {"why": f"unknown: {error}"}
    return {"why": reasons(first, twin), "facts": {"cuda-c": plain(first), "numba": plain(twin)}}


def summaries(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return a row a problem: its rungs, how their twins compare, and why some are slower.

    Examples
    --------
    >>> one = {"kernel": "copy/float4", "language": "cuda-c", "fraction_of_copy": 0.99}
    >>> two = one | {"language": "numba", "twin_ratio": 1.2, "why": "loads 4 B wide against 16 B"}
    >>> summaries([one, two])[0]["rungs"], summaries([one, two])[0]["slower"]
    ('float4 0.99 x1.20', 'float4: loads 4 B wide against 16 B')
    """
    rungs: dict[str, dict[str, str]] = {}
    slower: dict[str, list[str]] = {}
    for row in rows:
        problem, _, rung = row["kernel"].partition("/")
        slower.setdefault(problem, [])
        shown = rungs.setdefault(problem, {})
        if row["language"] == "cuda-c":
            shown[rung] = _speed(row)
        elif "twin_ratio" in row:
            shown[rung] += f" x{row['twin_ratio']:.2f}"
            slower[problem] += [f"{rung}: {row['why']}"] if "why" in row else []
        else:
            shown[rung] = f"- (Numba {_speed(row)})"
    return [
        {
            "problem": name,
            "rungs": ", ".join(f"{rung} {text}" for rung, text in found.items()),
            "slower": "; ".join(slower[name]),
        }
        for name, found in rungs.items()
    ]


def _speed(row: Mapping[str, Any]) -> str:
    """Return the share of a copy's speed; of a product, which arithmetic limits, operations a second."""
    if is_product(catalog.kernel(row["kernel"]).problem):
        return f"{row['flops'] / row['seconds'] / 1e12:.3g} TFLOP/s"
    return f"{row['fraction_of_copy']:.2f}"


def lines(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return a line a problem."""
    return tuple(
        f"{row['problem']}: {row['rungs']}" + (f" | {row['slower']}" if row["slower"] else "")
        for row in summaries(rows)
    )
