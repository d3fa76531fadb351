"""Ladders: what each rung saves against the one before it, counted; and what that is worth in time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from kernellab.catalog import PROBLEMS, kernel, ladder
from kernellab.catalog import problem as find_problem
from kernellab.errors import SpecError
from kernellab.experiments.common import WRITE_UP, all_right, has_time, number
from kernellab.experiments.experiment import (
    HELD,
    NEEDS_GPU,
    REFUTED,
    Claim,
    Column,
    Derived,
    Expectation,
    Experiment,
    Found,
    Point,
    Rows,
    Sweep,
)
from kernellab.experiments.ladder_steps import EXTRA, FIRST, SMALL, STEPS, Step
from kernellab.kernel import LANGUAGES, Kernel, Language
from kernellab.problem import Case

if TYPE_CHECKING:
    from kernellab.record import Record

SHOWN = (
    Column("launch", "launches"),
    Column("blocks", "blocks"),
    Column("global\nloads", "global_load_requests"),
    Column("load\nsect.", "global_load_sectors"),
    Column("store\nsect.", "global_store_sectors"),
    Column("shared\nwaves", "shared_wavefronts"),
    Column("atomic\ncost", "atomic_cost"),
    Column("warp\ninstr.", "warp_instructions"),
)

LADDERS = tuple(name for name in PROBLEMS if name in STEPS or name in ("relu", "row_cumsum", "update_scale"))
"""The ladders of kernels that memory limits."""
STREAMS = ("scale", "axpy", "triad")
"""Counted with the constants for a large array, which `bind` does not choose for a small one."""
STRIDED = {"stride": 32}
ROW_PROBLEMS = ("softmax", "layernorm", "rmsnorm", "gelu", "dropout", "row_")
LARGE = (
    {"rows": 2048, "columns": 4096},
    {"rows": 2**19, "features": 16},
    {"n": 2**23, "bins": 64},
    {"n": 2**23},
    {"tiles": 2**13},
)
"""What a GPU times, by the sizes that the problem has: some 32 MiB of float32."""


def label_of(problem: str, rung: str, contents: str = "") -> str:
    """Return a point's label, such as ``sum/shuffle``."""
    return f"{problem}/{rung}" + (f", {contents}" if contents else "")


def large_case(problem: str) -> Case | None:
    """Return what a GPU times; None for a problem of other sizes."""
    sizes = find_problem(problem).cases[0].sizes
    for large in LARGE:
        if large.keys() == sizes.keys():
            name = ", ".join(f"{size} = {value}" for size, value in large.items())
            return Case(name, large, STRIDED if problem == "shared_stride" else {})
    return None


def sweep(problem: str) -> Sweep:
    """Return the rungs of a ladder, and those that a step compares on a case of its own."""
    small = FIRST.get(problem, find_problem(problem).cases[0])
    case = Case(small.name, small.sizes, STRIDED if problem == "shared_stride" else {})
    large, judged = large_case(problem), 64 if any(part in problem for part in ROW_PROBLEMS) else 0
    points = [
        Point(
            label_of(problem, rung.name),
            _shaped(rung),
            _held(rung, case),
            large=large and _held(rung, large),
            head=judged,
        )
        for rung in ladder(problem)
        if not rung.fault
    ]
    points += [
        Point(
            label_of(problem, rung, step.contents),
            _as_small(kernel(f"{problem}/{rung}"), SMALL.get(step.contents, {})),
            EXTRA[step.contents],
        )
        for step in STEPS.get(problem, ())
        if step.contents
        for rung in (step.before, step.after)
    ]
    return Sweep(f"{problem} ({case.name})", tuple(points), SHOWN)


def _held(rung: Kernel, case: Case) -> Case:
    """Return the case with elements that the rung is made for."""
    if case.element in (rung.elements or (case.element,)):
        return case
    return replace(case, name=f"{case.name}, {rung.element}", element=rung.element)


def _as_small(rung: Kernel, shape: Mapping[str, int]) -> Kernel:
    """Return the rung with those constants of `shape` that it has; as it is without any."""
    own = {name: value for name, value in shape.items() if name in rung.constants}
    return replace(rung, constants={**rung.constants, **own}, tuning=None) if own else rung


def _shaped(rung: Kernel) -> Kernel:
    return replace(rung, tuning=None) if rung.problem.name in STREAMS and rung.tuning else rung


def share(rows: Rows, problem: str, step: Step) -> float:
    """Return the later rung's number over the earlier one's."""
    before, after = (
        rows.value(label_of(problem, rung, step.contents), step.reading) for rung in (step.before, step.after)
    )
    return after / before if before else math.nan


def climbs(problem: str, steps: Sequence[Step]) -> Expectation:
    """Return the expectation that every step of a ladder is there."""

    def check(rows: Rows) -> Found:
        found = []
        is_numba = any(record.language == "numba" for _, record in rows.items())
        for step in steps:
            if is_numba and not kernel(f"{problem}/{step.after}").has_twin:
                continue
            value = share(rows, problem, step)
            if not step.low * (1 - 1e-9) <= value <= step.high * (1 + 1e-9):
                text = f"{step.before} to {step.after}: {number(value, 3)} x the {step.reading}"
                return False, f"{text}, {number(step.low, 3)} to {number(step.high, 3)} expected"
            found.append(f"{number(value, 3)}")
        return True, " ".join(found)

    said = "; ".join(step.text for step in steps)
    return Expectation(f"{problem}: {said}", check)


WIDE = tuple(label_of(problem, "vectorised") for problem in STREAMS)


def claim_bandwidth(rows: Rows) -> tuple[str, str]:
    """Held if a vector of 16 bytes a thread reaches 95 % of a copy's speed in every streaming ladder."""
    if not has_time(rows, *WIDE):
        found = " ".join(number(rows.value(label, "sectors_per_request_load")) for label in WIDE)
        return NEEDS_GPU, f"{found} sectors a load request, all of them used"
    speeds = [rows.value(label, "fraction_of_copy") for label in WIDE]
    return HELD if min(speeds) >= 0.95 else REFUTED, " ".join(
        f"{speed:.3f}" for speed in speeds
    ) + " of a copy"


def wavefronts(record: Record) -> float:
    """Return the wavefronts of all reads and writes of shared memory."""
    return record.value("shared_load_wavefronts") + record.value("shared_store_wavefronts")


def atomic_cost(record: Record) -> float:
    """Return sectors of global atomics and wavefronts of shared ones: how often they had to take turns."""
    return record.value("global_atomic_sectors") + record.value("shared_atomic_wavefronts")


def experiment(problems: Sequence[str], languages: tuple[Language, ...] = LANGUAGES) -> Experiment:
    """Return the experiment on some of the ladders."""
    return Experiment(
        name="ladders",
        question="What does each rung of a ladder save, and what is it worth?",
        sweeps=tuple(sweep(problem) for problem in problems),
        derived=(
            Derived("blocks", "blocks", lambda record: float(math.prod(record.grid)), ""),
            Derived("shared_wavefronts", "wavefronts", wavefronts),
            Derived("atomic_cost", "1", atomic_cost),
        ),
        expectations=(
            Expectation("every answer equals NumPy's", all_right()),
            *(climbs(problem, STEPS[problem]) for problem in problems if problem in STEPS),
        ),
        claims=(
            (Claim("wide access reaches memory bandwidth: scale, axpy, triad", WRITE_UP, claim_bandwidth),)
            if {label.partition("/")[0] for label in WIDE} <= set(problems)
            else ()
        ),
        lessons=(
            "Behind each expectation stand the shares that were found, step by step: the later rung's number "
            "over the earlier one's.",
            "A step shows in time only where it removes what limits: fewer sectors do at once, fewer requests "
            "once sectors are few, fewer instructions once memory is not kept busy.",
            *(() if len(languages) > 1 else ("The twins of one ladder: kernellab run ladders:PROBLEM.",)),
        ),
        languages=languages,
    )


def restricted(problem: str) -> Experiment:
    """Return the experiment on one ladder, in both languages.

    Raises
    ------
    SpecError
        If there is no ladder of that name.

    Examples
    --------
    >>> [point.label for point in restricted("axpy").points]
    ['axpy/scalar', 'axpy/unrolled', 'axpy/vectorised']
    """
    if problem not in LADDERS:
        raise SpecError(f"ladders:{problem}: no ladder has this name; there are {', '.join(LADDERS)}")
    return experiment((problem,))


EXPERIMENT = experiment(LADDERS, LANGUAGES[:1])
