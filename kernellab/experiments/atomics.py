"""Atomics: what additions cost that meet in one address, and what it gives to add up before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernellab.catalog import kernel, ladder, tally
from kernellab.experiments import levels
from kernellab.experiments.common import WRITE_UP, all_right, number
from kernellab.experiments.experiment import (
    HELD,
    NEEDS_GPU,
    REFUTED,
    Claim,
    Column,
    Expectation,
    Experiment,
    Found,
    Observed,
    Point,
    Rows,
    Sweep,
)
from kernellab.experiments.picture import Curves, Picture, Series
from kernellab.instruments.clock import Timing
from kernellab.kernel import Language
from kernellab.problem import Case

if TYPE_CHECKING:
    from kernellab.experiments.clocked import GpuClock

KEYS, WARP, LANES_A_SECTOR = 4096, 32, 8
WARPS = KEYS // WARP
ADDRESSES = (1, 2, 4, 8, 16, 32, 1024)
RUNGS = ("contended", "warp", "block")
MANY_KEYS = 2**22
"""That a GPU adds: 16 MiB, which stay in the L2, so that reading them is no limit."""
MANY_ADDRESSES = (1, 2, 4, 8, 32, 128, 1024, 8192, 2**17, 2**20)

REQUESTS, SECTORS = "global_atomic_requests", "global_atomic_sectors"
SHOWN = (
    Column("global\natomics", REQUESTS),
    Column("sectors", SECTORS),
    Column("shared\natomics", "shared_atomic_requests"),
    Column("shared\nwaves", "shared_atomic_wavefronts"),
    Column("warp\ninstr.", "warp_instructions"),
)
EACH = "each warp one"


def label_of(rung: str, addresses: int) -> str:
    """Return the label of a point of the first sweep."""
    return f"{rung}, {addresses} address{'es' if addresses > 1 else ''}"


def spread(addresses: int, keys: int = KEYS) -> Case:
    """Return keys of which each is its neighbour's successor, round and round."""
    return Case(f"{keys} keys", {"n": keys, "bins": addresses}, contents="spread")


AGREED = Case(f"{KEYS} keys", {"n": KEYS, "bins": WARPS}, contents="warps")
SWEEPS = (
    Sweep(
        f"{KEYS} additions, lane after lane to the next of so many addresses",
        tuple(
            Point(label_of(rung, addresses), kernel(f"tally/{rung}"), spread(addresses))
            for rung in RUNGS
            for addresses in ADDRESSES
        ),
        SHOWN,
    ),
    Sweep(
        "The lanes of a warp to one address, each warp to its own",
        tuple(Point(f"{rung}, {EACH}", kernel(f"tally/{rung}"), AGREED) for rung in RUNGS),
        SHOWN,
    ),
)


def meeting(addresses: int) -> int:
    """Return the sectors of a warp's additions: for each sector, its most wanted address counts.

    Examples
    --------
    >>> [meeting(addresses) for addresses in ADDRESSES]
    [32, 16, 8, 4, 4, 4, 4]
    """
    wanted = min(addresses, WARP)
    return -(-wanted // LANES_A_SECTOR) * (WARP // wanted)


def apart(addresses: int) -> int:
    """Return the sectors of a warp's additions that meet no more: those that its addresses lie in."""
    return -(-min(addresses, WARP) // LANES_A_SECTOR)


def follows(rung: str, sectors: Callable[[int], int]) -> Callable[[Rows], Found]:
    """Return a check of a rung's sectors at every number of addresses, and where each warp has its own."""

    def check(rows: Rows) -> Found:
        wanted = {label_of(rung, each): sectors(each) for each in ADDRESSES}
        wanted[f"{rung}, {EACH}"] = sectors(1)
        for label, each in wanted.items():
            found = rows.value(label, SECTORS) / WARPS
            if found != each or rows.value(label, REQUESTS) != WARPS:
                return False, f"{label}: {number(found)} sectors a warp, {each} expected"
        return True, f"{len(wanted)} of {len(wanted)} as predicted"

    return check


def match_for_nothing(rows: Rows) -> Found:
    """Where no lanes meet, finding out costs instructions and saves no sector."""
    before, after = (label_of(rung, 1024) for rung in ("contended", "warp"))
    sectors = [rows.value(label, SECTORS) for label in (before, after)]
    longer = rows.value(after, "warp_instructions") / rows.value(before, "warp_instructions")
    return sectors[0] == sectors[1] and longer > 1, f"{number(longer)} x the instructions for as many sectors"


def one_addition_a_block(rows: Rows) -> Found:
    """A block adds once to each count."""
    blocks = KEYS // kernel("tally/block").constants["THREADS"]
    for addresses in (each for each in ADDRESSES if each <= WARP):
        label = label_of("block", addresses)
        found, wanted = (rows.value(label, name) for name in (REQUESTS, SECTORS)), blocks * apart(addresses)
        requests, sectors = found
        if (requests, sectors) != (blocks, wanted):
            return False, f"{label}: {number(requests)} requests of {number(sectors)} sectors"
    return True, f"{blocks} blocks, {blocks} global requests for up to {WARP} addresses"


def shared_counts_lanes(rows: Rows) -> Found:
    """Adding 1 in shared memory takes one wavefront however many lanes meet."""
    found = {
        rows.value(label_of("block", each), "shared_atomic_wavefronts") / WARPS
        for each in ADDRESSES
        if each <= WARP
    }
    return found == {1.0}, f"{', '.join(map(number, sorted(found)))} wavefronts a warp"


def pictures(rows: Mapping[str, Rows]) -> tuple[Picture, ...]:
    """Return sectors by the number of addresses, in the first language."""
    first = next(iter(rows.values()))
    series = tuple(
        Series(rung, tuple((float(each), first.value(label_of(rung, each), SECTORS)) for each in ADDRESSES))
        for rung in RUNGS
    )
    return (
        Curves(f"sectors of {KEYS} additions by the addresses they go to", "addresses", "sectors", series),
    )


@dataclass(frozen=True)
class Rate:
    """How fast a rung adds.

    Attributes
    ----------
    rung, pattern : str
        Of tally.
    addresses : int
    timing : Timing
    """

    rung: str
    pattern: str
    addresses: int
    timing: Timing

    @property
    def value(self) -> float:
        """Additions a second."""
        return MANY_KEYS / self.timing.seconds


def rates(
    device: Any, language: Language, say: Callable[[str], object] = lambda what: None
) -> tuple[Rate, ...]:
    """Time every rung at every number of addresses, side by side and hot: the keys stay in the L2."""
    from kernellab.workload import time_workloads

    cases = [("spread", each) for each in MANY_ADDRESSES] + [("warps", MANY_KEYS // WARP)]
    found = []
    for pattern, addresses in cases:
        say(f"atomics: {addresses} addresses, {pattern}")
        case = Case("many", {"n": MANY_KEYS, "bins": addresses}, contents=pattern)
        arrays = tally.PROBLEM.inputs(case)
        rungs = [each for each in ladder("tally") if not (each.refusal and each.refusal(case.sizes))]
        works = [levels.workload(device, language, each, arrays, each.name, {}) for each in rungs]
        timings = time_workloads(device.stopwatch(), works, mode="hot", rule=levels.RULE)
        found += [Rate(name, pattern, addresses, timing) for name, timing in timings.items()]
        works.clear()
        device.memory.free_pools()
    return tuple(found)


def rate_curves(found: Sequence[Rate], language: str = "") -> Curves:
    """Return a picture of the rates where keys are spread."""
    points: dict[str, list[tuple[float, float]]] = {}
    for each in found:
        if each.pattern == "spread":
            points.setdefault(each.rung, []).append((float(each.addresses), each.value))
    about = f", {language}" if language else ""
    series = tuple(Series(rung, tuple(line)) for rung, line in points.items())
    return Curves(f"additions by the addresses they go to{about}", "addresses", "additions/s", series)


COSTS = "atomics that meet cost a measurable factor"
HELPS = "adding up in the warp or the block before takes that cost away"


def judged(found: Sequence[Rate]) -> Mapping[str, tuple[str, str]]:
    """Return what measured rates say of the claims."""
    at = {(each.rung, each.addresses): each.value for each in found if each.pattern == "spread"}
    free = max(value for (rung, _), value in at.items() if rung == "contended")
    met = at["contended", 1]
    best = max(at["warp", 1], at["block", 1])
    return {
        COSTS: (
            HELD if free > 1.1 * met else REFUTED,
            f"one address {met / 1e9:.3g} G/s, apart {free / 1e9:.3g}: {free / met:.3g} x",
        ),
        HELPS: (
            HELD if best >= free else REFUTED,
            f"one address, warp {at['warp', 1] / 1e9:.3g}, block {at['block', 1] / 1e9:.3g} G/s, "
            f"against {free / 1e9:.3g} apart and {met / 1e9:.3g} met",
        ),
    }


def observe(clock: GpuClock) -> Observed:
    """Time additions on the GPU."""
    if not clock.is_timing:
        return Observed({})
    found = rates(clock.device, clock.language)
    return Observed(judged(found), (rate_curves(found, clock.language),))


def claim_costs(rows: Rows) -> tuple[str, str]:
    """Meeting is said to cost a factor."""
    met, free = (rows.value(label_of("contended", each), SECTORS) for each in (1, 1024))
    return NEEDS_GPU, f"{number(met / free)} x the sectors"


def claim_helps(rows: Rows) -> tuple[str, str]:
    """Adding up before is said to take it away."""
    met, warp, block = (rows.value(label_of(rung, 1), SECTORS) for rung in RUNGS)
    return NEEDS_GPU, f"{number(met / warp)} and {number(met / block)} times fewer sectors"


EXPERIMENT = Experiment(
    name="atomics",
    question="What do additions cost that meet in one address, and what gives it to add up before?",
    sweeps=SWEEPS,
    pictures=pictures,
    observe=observe,
    expectations=(
        Expectation("every answer equals NumPy's", all_right()),
        Expectation(
            "an address that k lanes want costs its sector k times over", follows("contended", meeting)
        ),
        Expectation("added up in the warp, each of its addresses is wanted once", follows("warp", apart)),
        Expectation("where no lanes meet, matching them saves nothing", match_for_nothing),
        Expectation("added up in the block, each count is one addition a block", one_addition_a_block),
        Expectation(
            "adding 1 in shared memory is one wavefront however many lanes meet", shared_counts_lanes
        ),
    ),
    claims=(
        Claim(COSTS, WRITE_UP, claim_costs),
        Claim(HELPS, WRITE_UP, claim_helps),
    ),
    lessons=(
        "Sectors are what the L2 works through: those of one address one after the other. How fast needs a GPU.",
        "Shared memory counts lanes that add 1 by an instruction of its own (ATOMS.POPC.INC); adding anything "
        "else there takes lanes that meet one after the other.",
    ),
)
