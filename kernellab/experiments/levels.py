"""Levels: on a GPU, bandwidth by the size of a set that is read again, latency by the size of a table walked through.

Every figure is a slope: the same launch is timed with few repetitions and with many, and what does not repeat
(launch, ramp, the first pass that fills the caches) falls out of the difference. The SM clock is counted on the
device between the samples, so that a figure in cycles is one of the run's own.

A point of the sweep of sets: one block on each multiprocessor, so that nobody shares its L1; in each round the
blocks read tiles one after the other, and the next round goes on behind them. All blocks together thus pass through
the set once before any of it is read again, and each block comes to all of its tiles. A multiprocessor reads a line
again after as many other bytes as the set has (a set of fewer tiles than blocks is read by several in one round, each
past its own L1): from its L1 where that holds the set, else from what lies behind. The
L2 is asked for it again after a pass of the set, which of a set larger than it is partly there still, as nothing
makes a cache drop the oldest first: sets beyond four times the L2 are therefore read once and not again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernellab.catalog import chase, kernel, reread
from kernellab.experiments.picture import Curves, Mark, Series
from kernellab.instruments.clock import Mode, Rule, Timing
from kernellab.kernel import Kernel, Language
from kernellab.problem import Arrays, Case

KIB, MIB = 2**10, 2**20
SETS = sorted({2**k for k in range(16, 29)} | {192 * KIB, 24 * MIB, 40 * MIB, 48 * MIB, 96 * MIB})
"""Bytes of what is read: from what an L1 holds, as whole tiles of a multiprocessor, to what no L2 does."""
TABLES = sorted({*SETS, 8 * KIB, 16 * KIB, 32 * KIB, 512 * MIB})
COARSE = [4**k for k in range(8, 15)]
"""Of both, where a glance is enough."""
CONSTANTS = (KIB, 2 * KIB, 4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB)
SHARED_SET, SHARED_TABLE = 32 * KIB, 32 * KIB
BLOCKS = 4
"""Of 256 threads for each multiprocessor: eight warps a scheduler, which hide what one waits for."""
WIDE = {"TILE": BLOCKS * reread.TILE, "THREADS": BLOCKS * reread.THREADS}
"""The same warps in one block, which reads global memory."""
ALONE = {"TILE": reread.TILE * 32 // reread.THREADS, "THREADS": 32, "SUMS": 1}
"""One warp, each of whose multiply-adds waits for the one before."""
AGAIN = 4
"""Sets of more L2s than this are read once."""
READS, NEAR_READS, STEPS = (256, 512), (4096, 8192), (4096, 8192)
"""Few and many. A walk of few steps is twice round a table that the L1 holds."""
RULE = Rule(minimum=9, maximum=45, budget=0.25, queue=9)
OPERANDS = 3
"""Registers that a fused multiply-add reads; as words of 4 bytes, one result for each 8 bytes of a tile."""
BANDWIDTH, LATENCY = "bandwidth", "latency"


@dataclass(frozen=True)
class Reach:
    """One measured point.

    Attributes
    ----------
    quantity : {"bandwidth", "latency"}
    rung : str
        Of reread or chase.
    nbytes : int
        Of the set or the table; 0 for registers.
    value : float
        Bytes a second of the whole device, or seconds a step.
    hz : float
        The SM clock meanwhile.
    timings : tuple of Timing
        With few repetitions and with many.
    """

    quantity: str
    rung: str
    nbytes: int
    value: float
    hz: float
    timings: tuple[Timing, ...] = ()

    @property
    def cycles(self) -> float:
        """A step's, or the bytes of a cycle."""
        return self.value * self.hz if self.quantity == LATENCY else self.value / self.hz


def workload(
    device: Any, language: Language, rung: Kernel, arrays: Arrays, name: str, parameters: Mapping[str, Any]
) -> Any:
    """Return a kernel on its own buffers, ready to be timed: it has run once and was right."""
    from kernellab.measurement import judge, prepare
    from kernellab.workload import PlanWorkload

    given = tuple(arrays[item.name] for item in rung.inputs)
    plan = prepare(rung, given, device=device, parameters=parameters).plan
    program = device.build(plan.kernel, language)
    run = device.run(program, plan)
    judge(plan, run).require()
    return PlanWorkload(device, program, plan, name, run)


def slope(
    device: Any, language: Language, rung: Kernel, arrays: Arrays, name: str, counts: Sequence[int],
    more: Mapping[str, int] | None = None, warmed: str = "",
) -> tuple[float, float, tuple[Timing, ...]]:  # fmt: skip
    """Time a kernel with few and with many repetitions; every answer is verified.

    Parameters
    ----------
    device : GpuDevice
    language : {"cuda-c", "numba"}
    rung : Kernel
    arrays : mapping of str to numpy.ndarray
    name : str
        The parameter that says how often.
    counts : sequence of int
        Few, many.
    more : mapping of str to int, optional
        Its other parameters.
    warmed : str
        The operand that is read whole before each sample, so that the L2 holds what reading leaves of it; without
        one the L2 is evicted.

    Returns
    -------
    tuple of float, float and tuple of Timing
        Seconds a repetition, the SM clock, the samples.
    """
    from kernellab.workload import CallWorkload, time_workloads

    stopwatch = device.stopwatch()
    works: list[Any] = []
    for count in counts:
        works.append(workload(device, language, rung, arrays, str(count), {**(more or {}), name: count}))
        if warmed:
            works[-1].before = works[-1].buffers[warmed].max
    mode: Mode = "hot" if warmed else "cold"
    try:
        stopwatch.counted_hz()
        ticks = CallWorkload("SM clock", stopwatch.count_cycles)
        timings = time_workloads(stopwatch, [*works, ticks], mode=mode, rule=RULE)
        few, many = (timings[work.name] for work in works)
        return (many.seconds - few.seconds) / (counts[1] - counts[0]), stopwatch.counted_hz(), (few, many)
    finally:
        works.clear()
        device.memory.free_pools()


def order(tiles: int, blocks: int, again: bool) -> tuple[int, tuple[int, int]]:
    """Return how far a block steps, and few and many reads: no further than once through the set, unless `again`.

    Examples
    --------
    >>> order(256, 132, again=True), order(4096, 132, again=False)
    ((133, (256, 512)), (133, (15, 30)))
    """
    step = next(each for each in range(blocks, blocks + tiles + 1) if math.gcd(each, tiles) == 1)
    once = tiles // step
    return step, READS if again or once < 2 else (once // 2, once)


def _reread(
    device: Any, language: Language, rung: str, nbytes: int, blocks: int, constants: Mapping[str, int]
) -> Reach:
    each = kernel(f"reread/{rung}").with_constants(**constants)
    tile = 4 * each.constants["TILE"]
    tiles, counts, more = 1, NEAR_READS, {}
    if rung in ("shared", "global"):
        tiles, counts = nbytes // tile, READS
    if rung == "global":
        more["step"], counts = order(tiles, blocks, again=nbytes <= AGAIN * device.l2_bytes)
    elif rung == "constant":
        more["mask"] = nbytes // 16 - 1
    case = Case("set", {"tiles": tiles, "blocks": blocks, "TILE": each.constants["TILE"]})
    arrays = each.problem.inputs(case)
    seconds, hz, timings = slope(device, language, each, arrays, "reads", counts, more)
    # A tile for each read; registers are read three for two words; a constant comes once for a warp.
    share = {"registers": OPERANDS / 2, "constant": 1 / 32}.get(rung, 1.0)
    return Reach(BANDWIDTH, rung, nbytes, tile * share * blocks / seconds, hz, timings)


def bandwidths(
    device: Any, language: Language, sets: Sequence[int], say: Callable[[str], object] = lambda what: None
) -> tuple[Reach, ...]:
    """Measure registers, shared memory, constants, and global memory by the size of the set."""
    processors = device.limits.multiprocessors
    constants = [("constant", nbytes) for nbytes in CONSTANTS if nbytes <= 4 * reread.TILE]
    points = [("registers", 0), ("shared", SHARED_SET), *constants]
    found = []
    for rung, nbytes in [*points, *(("global", nbytes) for nbytes in sets)]:
        say(f"bandwidth: {rung}, {nbytes >> 10} KiB")
        blocks, wide = (processors, WIDE) if rung == "global" else (BLOCKS * processors, {})
        found.append(_reread(device, language, rung, nbytes, blocks, wide))
    return tuple(found)


def latencies(
    device: Any, language: Language, tables: Sequence[int], say: Callable[[str], object] = lambda what: None
) -> tuple[Reach, ...]:
    """Measure an instruction, shared memory, constants and global memory by the size of the table."""
    # One warp: its additions wait for each other, and no other takes its turn at the banks of the registers.
    block = _reread(device, language, "registers", 0, 1, ALONE)
    chained = ALONE["TILE"] // (
        2 * ALONE["THREADS"]
    )  # multiply-adds of a thread for each time the tile is read
    seconds = 4 * ALONE["TILE"] * OPERANDS / 2 / block.value / chained
    found = [Reach(LATENCY, "registers", 0, seconds, block.hz, block.timings)]
    points = [("shared", SHARED_TABLE), *(("constant", each) for each in CONSTANTS)]
    for rung, nbytes in [*points, *(("global", each) for each in tables)]:
        say(f"latency: {rung}, {nbytes >> 10} KiB")
        each, mask = kernel(f"chase/{rung}"), {"mask": nbytes // 4 - 1} if rung == "constant" else {}
        words = 1 if mask else nbytes // 4
        arrays = chase.PROBLEM.inputs(Case("table", {"n": words, "walkers": 32}, contents="one chain"))
        # Of a table beyond twice the L2 nearly nothing would stay: none is to.
        warmed = "next" if rung == "global" and nbytes <= 2 * device.l2_bytes else ""
        seconds, hz, timings = slope(device, language, each, arrays, "steps", STEPS, mask, warmed)
        found.append(Reach(LATENCY, rung, nbytes, seconds, hz, timings))
    return tuple(found)


def marks(device: Any) -> tuple[Mark, ...]:
    """Return the device's own sizes: shared memory of a multiprocessor, which is most of its L1; half the L2; the L2."""
    shared = int(device.describe().get("multiprocessor_shared_bytes", 0))
    places = (Mark("L1", shared), Mark("L2/2", device.l2_bytes / 2), Mark("L2", device.l2_bytes))
    return tuple(mark for mark in places if mark.x)


def plateaus(found: Sequence[Reach], l2_bytes: int) -> dict[str, Reach]:
    """Return the point that stands for each level: the L1 at 64 KiB, the L2 at a third of its size, the largest set.

    Examples
    --------
    >>> points = [Reach("latency", "global", size, 1e-9 * size, 2e9) for size in (65536, 2**24, 2**29)]
    >>> {name: point.nbytes for name, point in plateaus(points, 60 * MIB).items()}
    {'L1': 65536, 'L2': 16777216, 'DRAM': 536870912}
    """
    levels = {each.rung: each for each in found if each.rung != "global"}
    constants = [each for each in found if each.rung == "constant"]
    levels |= {"constant": constants[0]} if constants else {}
    by_size = {each.nbytes: each for each in found if each.rung == "global"}
    nearest = {"L1": 64 * KIB, "L2": l2_bytes // 3, "DRAM": max(by_size, default=0)}
    for name, wanted in nearest.items():
        fitting = [size for size in by_size if size <= wanted]
        if fitting:
            levels[name] = by_size[max(fitting)]
    return levels


def curves(found: Sequence[Reach], places: Sequence[Mark], language: str = "") -> Curves:
    """Return a picture of one quantity over the size of the set; levels of one size are a line along it."""
    quantity = found[0].quantity
    sizes = [each.nbytes for each in found if each.nbytes]
    lines: dict[str, list[tuple[float, float]]] = {}
    for each in found:
        value = each.cycles if quantity == LATENCY else each.value
        at = [each.nbytes] if each.nbytes else [min(sizes), max(sizes)]
        lines.setdefault(each.rung, []).extend((float(nbytes), value) for nbytes in at)
    unit = "cycles a step" if quantity == LATENCY else "B/s"
    series = tuple(Series(rung, tuple(points)) for rung, points in sorted(lines.items()))
    about = f", {language}" if language else ""
    return Curves(f"{quantity} by the size of the set{about}", "B", unit, series, tuple(places))


__all__ = [
    "BANDWIDTH", "LATENCY", "Reach", "bandwidths", "curves", "latencies", "marks", "plateaus", "slope", "workload",
]  # fmt: skip
