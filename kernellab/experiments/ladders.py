"""Ladders: what each rung saves against the one before it, counted; and what that is worth in time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kernellab.catalog import PROBLEMS, kernel, ladder
from kernellab.catalog import problem as find_problem
from kernellab.checks import HOPPER
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


@dataclass(frozen=True)
class Step:
    """What a rung has less of than the one before it (or more, for blocks).

    Attributes
    ----------
    before, after : str
        Two rungs.
    reading : str
        What is compared.
    low, high : float
        Bounds of the later rung's number over the earlier one's.
    text : str
        What the step does, in a few words.
    contents : str
        On which extra case, empty for the ladder's first.
    """

    before: str
    after: str
    reading: str
    low: float
    high: float
    text: str
    contents: str = ""


def exactly(before: str, after: str, reading: str, share: float, text: str, contents: str = "") -> Step:
    """Return a step whose share is known to the last digit."""
    return Step(before, after, reading, share, share, text, contents)


def under(before: str, after: str, reading: str, share: float, text: str, contents: str = "") -> Step:
    """Return a step that leaves less than this share."""
    return Step(before, after, reading, 0.0, share, text, contents)


LOADS, LOADED = "global_load_requests", "global_load_sectors"
STORES, STORED = "global_store_requests", "global_store_sectors"
READS, WAVES = "shared_load_requests", "shared_load_wavefronts"
FEWER = 0.95

STREAM = (
    exactly("scalar", "vectorised", LOADS, 1 / 4, "16 bytes a lane: a quarter of the requests"),
    under(
        "vectorised", "unrolled", "warp_instructions", FEWER, "several vectors a thread: fewer instructions"
    ),
)
TREE = (
    under("sequential", "shuffle", READS, 1 / 20, "lanes ask each other: next to no shared memory"),
    Step("shuffle", "vectorised", LOADS, 0.25, 0.26, "16 bytes a lane: a quarter of the requests"),
    exactly("shuffle", "vectorised", "launches", 1 / 2, "the last block adds up: one launch"),
)
LONG = "one long row"
SPREAD = (Step("warp", "split", "blocks", 2, math.inf, "several blocks share a row", LONG),)
SPLIT = Step("registers", "split", "blocks", 2, math.inf, "several blocks share a long row", LONG)
STAY = "two rows a multiprocessor"
STAYS = exactly(
    "registers",
    "pipelined",
    "blocks",
    1 / 2,
    "blocks stay: the second row is on its way during the first",
    STAY,
)
FUSED = exactly("unfused", "registers", STORED, 1 / 2, "one kernel: the array between is not written")

HALVES = "float16"
GRADIENTS = "16-bit gradients"
MANY = "ten tensors"
BY_TABLE = exactly("vectorised", "multi", "launches", 1 / 10, "a table: one launch for all tensors", MANY)
STEPS: Mapping[str, tuple[Step, ...]] = {
    "copy": (exactly("scalar", "float4", LOADS, 1 / 4, "16 bytes a lane: a quarter of the requests"),),
    "transpose": (
        exactly("naive", "tiled", STORED, 1 / 8, "through a tile: stores coalesce"),
        exactly("tiled", "padded", WAVES, 1 / 32, "a column of padding: no bank conflict"),
        under(
            "padded", "swizzled", "shared_bytes", 0.999, "an XOR in place of the padding: less shared memory"
        ),
        exactly("swizzled", "vectorised", LOADS, 1 / 4, "16 bytes a lane: a quarter of the requests"),
        under(
            "vectorised", "matrices", "warp_instructions", 0.8, "ldmatrix turns: no byte is permuted", HALVES
        ),
    ),
    "shared_stride": (
        exactly("words", "padded_words", WAVES, 1 / 32, "padding: 32 banks for a column of 4 bytes"),
        exactly("pairs", "padded_pairs", WAVES, 1 / 16, "padding: 16 pairs of banks for one of 8"),
        exactly("quads", "padded_quads", WAVES, 1 / 8, "padding: 8 fours of banks for one of 16"),
    ),
    "take": (exactly("scalar", "unrolled", LOADS, 3 / 4, "indices in twos: half the requests for them"),),
    "take_rows": (
        exactly("scalar", "vectorised", LOADS, 1 / 4, "16 bytes a lane: a quarter of the requests"),
    ),
    "uneven_work": (
        under(
            "unsorted", "sorted", "warp_instructions", 0.6, "lanes that end together: half the instructions"
        ),
    ),
    "masked_rows": (
        under("branch", "compact", "warp_instructions", 0.42, "only rows with work: two passes in five"),
    ),
    "scale": STREAM,
    "axpy": STREAM,
    "triad": STREAM,
    "sum": (
        under("interleaved", "sequential", READS, 0.3, "whole warps drop out of the tree"),
        *TREE,
    ),
    "max": TREE,
    "argmax": TREE,
    "row_sum": SPREAD,
    "row_max": SPREAD,
    "row_argmax": SPREAD,
    "cumsum": (
        under("hillis_steele", "blelloch", READS, 0.5, "fewest additions: half the shared reads"),
        under("blelloch", "lookback", LOADED, 0.5, "looking back: x is read once and not twice"),
        exactly("blelloch", "lookback", "launches", 1 / 3, "looking back: one launch"),
    ),
    "histogram": (
        under("global", "shared", "global_atomic_sectors", 0.6, "a copy a block: fewer global atomics"),
        under("global", "aggregated", "global_atomic_sectors", 0.01, "equal values go as one", "equal"),
        exactly("shared", "warps", LOADS, 1 / 16, "16 bytes a lane: a sixteenth of the requests"),
        under("warps", "lanes", "shared_atomic_wavefronts", 0.4, "copies by lane: lanes seldom meet"),
    ),
    "float_histogram": (
        under("global", "shared", "global_atomic_requests", 0.05, "a copy a block: fewer global atomics"),
    ),
    "softmax": (
        exactly("three_pass", "online", LOADED, 2 / 3, "maximum and sum in one pass"),
        exactly("online", "registers", LOADED, 1 / 2, "the row stays in registers: read once"),
        SPLIT,
        STAYS,
    ),
    "layernorm": (
        exactly("three_pass", "welford", LOADED, 4 / 5, "mean and variance in one pass"),
        exactly("welford", "registers", LOADED, 3 / 4, "the row stays in registers: read once"),
        SPLIT,
        STAYS,
    ),
    "rmsnorm": (
        exactly("two_pass", "registers", LOADED, 2 / 3, "the row stays in registers: read once"),
        SPLIT,
        STAYS,
    ),
    "layernorm_gelu": (FUSED, STAYS),
    "residual_layernorm": (FUSED, STAYS),
    "bias_gelu": (
        under("scalar", "vectorised", LOADS, 0.25, "16 bytes a lane, the bias kept for several rows"),
        exactly("unfused", "vectorised", STORED, 1 / 2, "one kernel: the array between is not written"),
    ),
    "softmax_dropout": (FUSED, STAYS),
    "column_sum": (
        Step("scalar", "split", LOADS, 0.25, 0.3, "16 bytes a lane: a quarter of the requests for x"),
    ),
    "bias_gelu_backward": (
        exactly("unfused", "fused", "launches", 1 / 2, "one kernel: dx and its sums at once"),
        under("unfused", "fused", LOADED, 0.65, "one kernel: dx is not read again"),
    ),
    "softmax_cross_entropy": (
        Step("online", "registers", LOADED, 0.49, 0.51, "the row stays in registers: read once"),
    ),
    "unscale": (
        Step("scalar", "vectorised", STORES, 0.25, 0.26, "16 bytes a lane: a quarter of the requests"),
        BY_TABLE,
    ),
    "global_norm": (
        Step("atomic", "vectorised", LOADS, 0.25, 0.35, "16 bytes a lane: a quarter of the requests for x"),
        exactly("vectorised", "multi", "launches", 2 / 11, "a table: two launches for all tensors", MANY),
    ),
    "adamw": (
        exactly("scalar", "vectorised", STORES, 1 / 4, "16 bytes a lane: a quarter of the requests"),
        BY_TABLE,
        exactly(
            "multi", "mixed", STORED, 7 / 6, "16-bit parameters: 2 bytes more written, none read", GRADIENTS
        ),
    ),
}
"""By problem; strides, layouts and branches are what other experiments are about."""

LADDERS = tuple(name for name in PROBLEMS if name in STEPS or name in ("relu", "row_cumsum", "update_scale"))
"""The ladders of kernels that memory limits."""
EXTRA = {
    "equal": Case("4 Ki equal", {"n": 4096}, contents="equal"),
    LONG: Case("1 x 65536", {"rows": 1, "columns": 65536}),
    STAY: Case("two rows a multiprocessor", {"rows": 2 * HOPPER.multiprocessors, "columns": 256}),
    MANY: Case("10 tensors", {"n": 80, "tensors": 10}, contents="equal"),
    GRADIENTS: Case("16 Ki elements, float16", {"n": 2**14}, element="float16"),
    HALVES: Case("256 x 256, float16", {"rows": 256, "columns": 256}, element="float16"),
}
SMALL = {STAY: {"THREADS": 64, "GROUP": 64, "VECTORS": 1, "BLOCKS": 1}}
"""Constants with which few elements already show a step."""
FIRST = {"cumsum": Case("128 Ki elements", {"n": 2**17}), "histogram": Case("64 Ki bytes", {"n": 2**16})}
"""Where the problem's own first case is too small to show a step: a few tiles, more values than counts."""
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
    ['axpy/scalar', 'axpy/vectorised', 'axpy/unrolled']
    """
    if problem not in LADDERS:
        raise SpecError(f"ladders:{problem}: no ladder has this name; there are {', '.join(LADDERS)}")
    return experiment((problem,))


EXPERIMENT = experiment(LADDERS, LANGUAGES[:1])
