"""Fusion: one kernel against a chain of two with an array between them; launches, traffic, time."""

from __future__ import annotations

from dataclasses import dataclass

from kernellab.catalog import kernel
from kernellab.experiments.common import (
    BYTES_REQUESTED,
    WRITE_UP,
    all_right,
    has_time,
    number,
    time_over,
)
from kernellab.experiments.experiment import (
    HELD,
    NEEDS_GPU,
    REFUTED,
    Claim,
    Column,
    Expectation,
    Experiment,
    Found,
    Point,
    Rows,
    Sweep,
)
from kernellab.kernel import LANGUAGES
from kernellab.problem import Case

ROWS, COLUMNS = 8, 8192
SMALL = Case(f"{ROWS} x {COLUMNS}", {"rows": ROWS, "columns": COLUMNS})
LARGE = Case(f"16384 x {COLUMNS} float32", {"rows": 16384, "columns": COLUMNS})
"""On a GPU: rows as long as those that are counted, so that the same code runs."""
JUDGED = 256
PART = 4 * ROWS * COLUMNS
"""Bytes of one array of the small case."""


@dataclass(frozen=True)
class Pair:
    """A fusion: the rung that does it in one launch, and the one with a launch for each half.

    Attributes
    ----------
    problem, fused : str
        The chain is the rung ``unfused`` of the same problem.
    title : str
        In words.
    parts : int
        Arrays as large as the answer that must be read or written: the input, the answer, a residual.
    """

    problem: str
    fused: str
    title: str
    parts: int = 2

    @property
    def labels(self) -> tuple[str, str]:
        """The labels of the chain and of the fused kernel."""
        return f"{self.title}, chain", f"{self.title}, fused"

    @property
    def ids(self) -> tuple[str, str]:
        """The rungs: the chain, and the fused kernel."""
        return f"{self.problem}/unfused", f"{self.problem}/{self.fused}"

    @property
    def ceiling(self) -> float:
        """How many times as fast fusing can be where memory decides: the chain's bytes over the kernel's."""
        return (self.parts + 2) / self.parts


PAIRS = (
    Pair("layernorm_gelu", "registers", "LayerNorm + GeLU"),
    Pair("bias_gelu", "vectorised", "bias + GeLU"),
    Pair("residual_layernorm", "registers", "residual + LayerNorm", 3),
    Pair("softmax_dropout", "registers", "softmax + dropout"),
)
NORM_GELU = PAIRS[0]
SHOWN = (
    Column("launches", "launches"),
    Column("read\nB/elem.", "bytes_read_per_element"),
    Column("written\nB/elem.", "bytes_written_per_element"),
    Column("warp\ninstr.", "warp_instructions"),
    Column("regs", "registers"),
)
CLAIMED, CLAIMED_BYTES, CLAIMED_SECONDS, CARD = 1.84, 8.4e9, 1.23e-3, 2e12
"""The write-up: LayerNorm and GeLU, on a card of 2 TB/s."""


def sweep(pair: Pair) -> Sweep:
    """Return a chain and the kernel that fuses it."""
    points = tuple(
        Point(label, kernel(name), SMALL, large=LARGE, head=JUDGED)
        for label, name in zip(pair.labels, pair.ids, strict=True)
    )
    return Sweep(pair.title, points, SHOWN)


def one_launch(rows: Rows) -> Found:
    """Each chain takes two launches, each fused kernel one."""
    found = {pair.title: tuple(rows.value(label, "launches") for label in pair.labels) for pair in PAIRS}
    wrong = [f"{title}: {number(a)} and {number(b)}" for title, (a, b) in found.items() if (a, b) != (2, 1)]
    return not wrong, "; ".join(wrong) or f"2 and 1 in {len(found)} of {len(found)}"


def two_parts_saved(rows: Rows) -> Found:
    """What fusing saves is the array between, written once and read once, to the byte."""
    for pair in PAIRS:
        chain, fused = (rows.value(label, "bytes_requested") for label in pair.labels)
        if chain - fused != 2 * PART:
            text = f"{number((chain - fused) / PART)} times the array, 2 expected"
            return False, f"{pair.title}: the chain asks for more by {text}"
    return True, f"{2 * 4} bytes an element less in {len(PAIRS)} of {len(PAIRS)}"


def written_once(rows: Rows) -> Found:
    """The fused kernel writes its answer and nothing else."""
    for pair in PAIRS:
        chain, fused = (rows.value(label, "bytes_written_per_element") for label in pair.labels)
        if (chain, fused) != (8, 4):
            return False, f"{pair.title}: {number(chain)} and {number(fused)} bytes an element are written"
    return True, "8 bytes an element by the chains, 4 by the fused kernels"


def nothing_wasted(rows: Rows) -> Found:
    """No request touches a sector that it does not need."""
    for label, _ in rows.items():
        for name in ("load", "store"):
            sectors, ideal = (rows.value(label, f"global_{name}_{x}") for x in ("sectors", "ideal_sectors"))
            if sectors != ideal:
                return False, f"{label}: {number(sectors)} sectors by {name}s, {number(ideal)} needed"
    return True, "every sector that is fetched is used: fewer bytes is all that fusing can give"


def traffic(rows: Rows, pair: Pair) -> float:
    """Return the bytes of the chain over those of the kernel, weights aside, which a cache holds."""
    chain, fused = (rows.value(label, "bytes_requested") for label in pair.labels)
    return 1 + (chain - fused) / (pair.parts * PART)


def claim_half(rows: Rows) -> tuple[str, str]:
    """Fusing is said to halve the traffic."""
    found = traffic(rows, NORM_GELU)
    text = (
        f"{number(4 * NORM_GELU.parts * found)} bytes an element against {4 * NORM_GELU.parts}, weights aside"
    )
    return HELD if found == 2 else REFUTED, text


def claim_speed(rows: Rows) -> tuple[str, str]:
    """Fusing is said to be worth 1.84x."""
    return judge_time(rows, NORM_GELU, CLAIMED)


def claim_possible(rows: Rows) -> tuple[str, str]:
    """The times are said to have been measured on a card of 2 TB/s."""
    rate = CLAIMED_BYTES / CLAIMED_SECONDS
    text = f"that is {rate / 1e12:.1f} TB/s, {rate / CARD:.1f} times its memory: "
    text += f"{1e3 * CLAIMED_BYTES / CARD:.1f} ms at least; the ratio may hold, bytes or times cannot"
    return HELD if rate <= CARD else REFUTED, text


def judge_time(rows: Rows, pair: Pair, least: float = 1.0) -> tuple[str, str]:
    """Return whether fusing is worth so much in time, and how far each side is from what memory allows."""
    chain, fused = pair.labels
    ceiling = f"{number(pair.ceiling)} x the bytes"
    if not has_time(rows, chain, fused):
        return NEEDS_GPU, f"2 launches against 1, {ceiling}, which is the most that it can give"
    value, low, high = time_over(rows, chain, fused)
    # A copy of the kernel's bytes is the floor of the kernel, and `ceiling` times that the floor of the chain.
    ours = rows.value(fused, "fraction_of_copy")
    theirs = pair.ceiling * rows.value(chain, "fraction_of_copy")
    text = (
        f"{value:.3g} x (95 % {low:.3g} to {high:.3g}) of {ceiling}; at {theirs:.2f} and {ours:.2f} of a copy"
    )
    return HELD if high >= least and low > 1 else REFUTED, text


def claim_of(pair: Pair, text: str) -> Claim:
    """Return what is said of a fusion: fewer launches, nothing in between, so faster."""
    return Claim(text, WRITE_UP, lambda rows: judge_time(rows, pair))


EXPERIMENT = Experiment(
    name="fusion",
    question="What does it give to put a producer and its consumer into one kernel?",
    sweeps=tuple(sweep(pair) for pair in PAIRS),
    derived=BYTES_REQUESTED,
    unasked=LANGUAGES[:1],  # the twins take a minute to compile
    expectations=(
        Expectation("every answer equals NumPy's", all_right()),
        Expectation("a chain is two launches, the fused kernel one", one_launch),
        Expectation(
            "fusing saves the array between them, written once and read once, to the byte", two_parts_saved
        ),
        Expectation("a fused kernel writes its answer and nothing else", written_once),
        Expectation("no request of a chain or a fused kernel wastes a sector", nothing_wasted),
    ),
    claims=(
        Claim("fusing LayerNorm and GeLU halves the traffic (8.4 to 4.2 GB)", WRITE_UP, claim_half),
        Claim("fusing LayerNorm and GeLU is 1.84 times as fast (1.23 to 0.67 ms)", WRITE_UP, claim_speed),
        Claim("its 8.4 GB took 1.23 ms on a card of 2 TB/s", WRITE_UP, claim_possible),
        claim_of(PAIRS[1], "bias and activation: fewer launches, nothing in between, so faster"),
        claim_of(PAIRS[2], "LayerNorm and residual: fewer launches, nothing in between, so faster"),
        claim_of(PAIRS[3], "softmax and dropout: fewer launches, nothing in between, so faster"),
    ),
    lessons=(
        "The floor of a kernel that memory limits is its bytes over the speed of a copy. Two such kernels in a "
        "row take 4 arrays' time (5 with a residual), the fused one 2 (3): 2.00 (1.67) is the most that fusing "
        "can give, whatever the arithmetic.",
        "A measured ratio is that ceiling times the share of a copy's speed that the fused kernel reaches, over "
        "the chain's: 1.84 of 2 says that fusing cost the kernel 8 % of its speed. A slow chain flatters it.",
        "Bytes an element: 4 each for input, answer, residual, the array between; and weights, which every row "
        "asks for again and a cache gives.",
    ),
)
