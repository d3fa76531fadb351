"""Divergence: what a branch costs a warp, and what the tricks against it give and break."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kernellab.catalog import kernel, problem
from kernellab.experiments.clocked import GpuClock
from kernellab.experiments.common import (
    LOOP_LANES,
    WRITE_UP,
    WRONG_ELEMENTS,
    all_right,
    busiest_line,
    number,
)
from kernellab.experiments.experiment import (
    HELD,
    NEEDS_GPU,
    NEEDS_SASS,
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
from kernellab.experiments.picture import LaneMap, Picture, SourceLine
from kernellab.problem import Case

N = 2**12
WARP = 32
ACTIVE_SHARE = 0.4

EFFICIENCY = Column("warp\neff. %", "warp_efficiency_percent", 1)
INSTRUCTIONS = Column("warp\ninstr.", "warp_instructions")
DIVERGENT = Column("diverge", "divergent_branches")
LANES = Column("loop\nlanes", "loop_active_lanes", 1)
RELU = (INSTRUCTIONS, DIVERGENT, Column("wrong", "wrong_elements"))
LOOPS = (INSTRUCTIONS, DIVERGENT, LANES, EFFICIENCY)

SMALL = Case("4 Ki elements", {"n": N})
ROWS = Case("4 Ki rows", {"rows": N, "features": 16}, contents="2 in 5")
SPECIAL = "multiply, special"
INFINITY = "rows mult., inf"


def relu(label: str, rung: str, case: Case = SMALL) -> Point:
    """Return a relu."""
    return Point(label, kernel(f"relu/{rung}"), case)


SWEEPS = (
    Sweep(
        "Relu: `x if x > 0 else 0` as a branch, as a select, as `x * (x > 0)`",
        (
            relu("branch", "branch"),
            relu("branch-free", "branch_free"),
            relu("multiply", "multiply"),
            relu("branch, special", "branch", problem("relu").case("special values")),
            relu("free, special", "branch_free", problem("relu").case("special values")),
            relu(SPECIAL, "multiply", problem("relu").case("special values")),
        ),
        RELU,
    ),
    Sweep(
        "Uneven work: 0 to 63 steps a lane, in the order given and sorted",
        (
            Point("unsorted", kernel("uneven_work/unsorted"), SMALL),
            Point("sorted", kernel("uneven_work/sorted"), SMALL),
        ),
        LOOPS,
    ),
    Sweep(
        "Masked rows: 2 rows in 5 have work; branch round it, multiply it away, or compact",
        (
            Point("rows branch", kernel("masked_rows/branch"), ROWS),
            Point("rows multiply", kernel("masked_rows/multiply"), ROWS),
            Point("rows compact", kernel("masked_rows/compact"), ROWS),
            Point(
                INFINITY,
                kernel("masked_rows/multiply"),
                problem("masked_rows").case("infinity in a masked row"),
            ),
        ),
        LOOPS,
    ),
)


UNROLLED = (1, 2, 4, 8)


def longest_lanes(label: str, unrolled: int) -> int:
    """Return the passes of the loop that warps must make: the longest lane of each, summed.

    Parameters
    ----------
    label : str
        ``unsorted`` or ``sorted``.
    unrolled : int
        Steps that one pass of the compiled loop makes.
    """
    inputs = problem("uneven_work").inputs(SMALL)
    trips = inputs["trips"] if label == "unsorted" else inputs["trips"][inputs["order"]]
    return int((trips // unrolled).reshape(-1, WARP).max(axis=1).sum())


def branch_is_select(rows: Rows) -> Found:
    """The compiler makes a select of relu's branch."""
    labels = ("branch", "branch-free", "multiply")
    if not _is_exact(rows):
        return None, "the PTX still has the branch; the machine code would say"
    found = [int(rows.value(label, "divergent_branches")) for label in labels]
    return found == [0, 0, 0], f"{sum(found)} divergent branches in branch, branch-free and multiply"


def _is_exact(rows: Rows) -> bool:
    return rows["branch"].reading("divergent_branches").note != "approximate"


def multiply_breaks(rows: Rows) -> Found:
    """`x * (x > 0)` turns -inf, and nothing else, into NaN."""
    wrong, right = rows.value(SPECIAL, "wrong_elements"), rows.value("multiply", "wrong_elements")
    x = problem("relu").inputs(problem("relu").case("special values"))["x"]
    text = f"{number(wrong)} wrong of {x.size}; the input has {int(np.isneginf(x).sum())} -inf"
    return wrong == np.isneginf(x).sum() and right == 0, text


def warps_wait(rows: Rows) -> Found:
    """A warp makes as many passes as its longest lane, whatever the compiler unrolled the loop by."""
    labels = ("unsorted", "sorted")
    found = [busiest_line(rows[label]).warp_executions for label in labels]
    for unrolled in UNROLLED:
        if found == [longest_lanes(label, unrolled) for label in labels]:
            steps = "" if unrolled == 1 else f", each of {unrolled} steps"
            return True, f"{found[0]} passes unsorted, {found[1]} sorted{steps}"
    wanted = [longest_lanes(label, 1) for label in labels]
    return False, f"{found} passes, the longest lanes of all warps ask for {wanted}"


def sorting_fills(rows: Rows) -> Found:
    """Unsorted, half of the lanes idle; sorted, nearly none."""
    before, after = (rows.value(label, "loop_active_lanes") for label in ("unsorted", "sorted"))
    return (
        14 < before < 18 and after > 31,
        f"{number(before, 1)} lanes active unsorted, {number(after, 1)} sorted",
    )


def mask_idles(rows: Rows) -> Found:
    """Under a branch, only the rows with work have an active lane."""
    lanes = rows.value("rows branch", "loop_active_lanes")
    text = f"{number(lanes, 1)} of {WARP} lanes active: {number(100 - 100 * lanes / WARP, 1)} % idle"
    return abs(lanes - ACTIVE_SHARE * WARP) < 0.1, text


def multiply_fills(rows: Rows) -> Found:
    """Multiplying fills every lane and saves no pass of the loop."""
    lanes = rows.value("rows multiply", "loop_active_lanes")
    passes = [busiest_line(rows[label]).warp_executions for label in ("rows multiply", "rows branch")]
    text = f"{number(lanes, 1)} lanes active in {passes[0]} passes of the loop, {passes[1]} with the branch"
    return lanes == WARP and passes[0] >= passes[1], text


def compaction_saves(rows: Rows) -> Found:
    """Compaction fills every lane and needs two passes in five."""
    lanes = rows.value("rows compact", "loop_active_lanes")
    passes = [busiest_line(rows[label]).warp_executions for label in ("rows compact", "rows branch")]
    share = passes[0] / passes[1]
    text = f"{number(lanes, 1)} lanes active in {number(share)} x the passes"
    return lanes > 31 and abs(share - ACTIVE_SHARE) < 0.02, text


def multiply_poisons(rows: Rows) -> Found:
    """A masked row that holds an infinity or NaN comes out as NaN."""
    wrong, right = rows.value(INFINITY, "wrong_elements"), rows.value("rows multiply", "wrong_elements")
    return (
        wrong >= 1 and right == 0,
        f"{number(wrong)} rows wrong with an infinity masked, {number(right)} without",
    )


def claim_serialises(rows: Rows) -> tuple[str, str]:
    """Divergence serialises a warp."""
    before, after = (busiest_line(rows[label]).warp_executions for label in ("unsorted", "sorted"))
    verdict = HELD if before > 1.5 * after else REFUTED
    return verdict, f"{number(before / after)} x the passes when lanes of one warp disagree"


def claim_relu(rows: Rows) -> tuple[str, str]:
    """`x if x > 0 else 0` is said to diverge."""
    if not _is_exact(rows):
        return NEEDS_SASS, "the PTX still has the branch; the machine code would say"
    count = int(rows.value("branch", "divergent_branches"))
    return HELD if count else REFUTED, f"{count} divergent branches: the compiler selects"


def claim_same(rows: Rows) -> tuple[str, str]:
    """`x * (x > 0)` is said to be the same."""
    wrong = int(rows.value(SPECIAL, "wrong_elements"))
    return REFUTED if wrong else HELD, f"{wrong} NaN where the answer is 0: 0 * -inf"


def claim_masks(rows: Rows) -> tuple[str, str]:
    """Masks are said to have cost 60 % of warp efficiency."""
    idle = 1 - rows.value("rows branch", "loop_active_lanes") / WARP
    return (
        HELD if idle > 0.55 else REFUTED,
        f"{number(100 * idle, 1)} % of the lanes idle where 2 rows in 5 work",
    )


def claim_fewer(rows: Rows) -> tuple[str, str]:
    """A multiply is said to have needed 5 % fewer instructions."""
    before, after = (rows.value(label, "warp_instructions") for label in ("rows branch", "rows multiply"))
    change = 100 * (after / before - 1)
    return HELD if change <= -5 else REFUTED, f"{change:+.1f} % warp instructions against the branch"


def claim_faster(rows: Rows) -> tuple[str, str]:
    """Removing the branch is said to have removed the cost."""
    share = (
        busiest_line(rows["rows multiply"]).warp_executions
        / busiest_line(rows["rows branch"]).warp_executions
    )
    return NEEDS_GPU, f"all lanes are on, in {number(share)} x the passes: nothing counted here got less"


def time_faster(clock: GpuClock) -> tuple[str, str]:
    """Held if the multiply is faster than the branch by more than 1 %, which its interval does not doubt."""
    large = Case("5 Mi rows", {**kernel("masked_rows/branch").problem.cases[0].sizes, "rows": 5 * 2**20})
    branch, multiply = (Point(rung, kernel(f"masked_rows/{rung}"), large) for rung in ("branch", "multiply"))
    found = clock.ratio(branch, multiply)
    verdict = HELD if found.low > 1 and found.value > 1.01 else REFUTED
    return verdict, f"{large.name}: branch against multiply: {found}"


def pictures(rows: Mapping[str, Rows]) -> tuple[Picture, ...]:
    """Return the active lanes by source line of the loops, in the first language."""
    language = next(iter(rows))
    return tuple(
        _lane_map(label, rows[language]) for label in ("unsorted", "sorted", "rows branch", "rows compact")
    )


def _lane_map(label: str, rows: Rows) -> LaneMap:
    record = rows[label]
    lines = [line for line in record.lines if line.text.strip() not in ("", "}")]
    return LaneMap(
        f"Active lanes by line: {record.kernel}",
        tuple(
            SourceLine(line.number, line.text, line.mean_active_lanes, line.warp_executions) for line in lines
        ),
    )


EXPERIMENT = Experiment(
    name="divergence",
    question="What does a branch cost when the lanes of a warp disagree, and what helps?",
    sweeps=SWEEPS,
    derived=(
        LOOP_LANES,
        WRONG_ELEMENTS,
        Derived("warp_efficiency_percent", "%", lambda record: 100 * record.value("warp_efficiency"), "SASS"),
    ),
    expectations=(
        Expectation(
            "every answer equals NumPy's, but those that show a fault", all_right((SPECIAL, INFINITY))
        ),
        Expectation("relu's branch is compiled to a select: no warp diverges", branch_is_select),
        Expectation("x * (x > 0) turns every -inf into NaN, and nothing else", multiply_breaks),
        Expectation("a warp makes as many passes as its longest lane asks for", warps_wait),
        Expectation("half of the lanes idle unsorted, nearly none sorted", sorting_fills),
        Expectation("behind a branch, 60 % of the lanes idle when 2 rows in 5 work", mask_idles),
        Expectation("multiplying by the mask fills the lanes and saves no pass", multiply_fills),
        Expectation("multiplying by the mask lets a masked infinity through as NaN", multiply_poisons),
        Expectation("compaction fills the lanes and needs 2 passes in 5", compaction_saves),
    ),
    claims=(
        Claim("divergence serialises a warp", WRITE_UP, claim_serialises),
        Claim("x if x > 0 else 0 makes warps diverge", WRITE_UP, claim_relu),
        Claim("x * (x > 0) computes the same", WRITE_UP, claim_same),
        Claim("masks in attention cost 60 % of warp efficiency", WRITE_UP, claim_masks),
        Claim("a bit mask and a multiply need 5 % fewer instructions", WRITE_UP, claim_fewer),
        Claim("the multiply removed the cost of the mask", WRITE_UP, claim_faster, time_faster),
    ),
    pictures=pictures,
)
