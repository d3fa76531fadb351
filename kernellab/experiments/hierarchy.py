"""The memory hierarchy: bandwidth and latency of registers, shared memory, constants, L1, L2 and DRAM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kernellab.catalog import kernel, reread
from kernellab.experiments import levels
from kernellab.experiments.common import SECTOR, WRITE_UP, all_right, needs_gpu, number
from kernellab.experiments.experiment import (
    HELD,
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
from kernellab.experiments.levels import BANDWIDTH, LATENCY, Reach
from kernellab.problem import Case

if TYPE_CHECKING:
    from kernellab.experiments.clocked import GpuClock

FEW, MANY = 32, 64
BLOCKS, TILES, WAVEFRONT = 2, 3, 128
SETS = {"registers": 1, "constant": 1, "shared": TILES, "global": TILES}
NODES = 1024
READ_AGAIN = (MANY - FEW) * BLOCKS * 4 * reread.TILE
"""Bytes by which the longer launches of a set read more."""
ISSUED = 16
"""Instructions that the four schedulers of a multiprocessor issue while 512 bytes of it arrive, a request's."""
COST = "latency and bandwidth need a GPU; what is counted is that every repetition asks for what it claims"


def bandwidth_point(rung: str, reads: int) -> Point:
    """Return a small set that is read so often."""
    case = Case(f"{reads} reads", {"tiles": SETS[rung], "blocks": BLOCKS}, {"reads": reads})
    return Point(f"{rung}, {reads} reads", kernel(f"reread/{rung}"), case)


def latency_point(rung: str, steps: int) -> Point:
    """Return a walk of one warp, all of whose lanes are at one place."""
    case = Case(f"{steps} steps", {"n": NODES, "walkers": 32}, {"steps": steps}, contents="one chain")
    return Point(f"{rung}, {steps} steps", kernel(f"chase/{rung}"), case)


WALKED = ("shared", "global", "constant")
REQUESTS = Column("global\nloads", "global_load_requests")
SECTORS = Column("sectors", "global_load_sectors")
WAVES = Column("shared\nwaves", "shared_load_wavefronts")
INSTRUCTIONS = Column("warp\ninstr.", "warp_instructions")
SHOWN = (REQUESTS, SECTORS, WAVES, INSTRUCTIONS)
SWEEPS = (
    Sweep(
        f"Bandwidth: {BLOCKS} blocks read tiles of {4 * reread.TILE >> 10} KiB again and again",
        tuple(bandwidth_point(rung, reads) for rung in SETS for reads in (FEW, MANY)),
        SHOWN,
    ),
    Sweep(
        "Latency: one warp walks, each step where the one before led",
        tuple(latency_point(rung, steps) for rung in WALKED for steps in (FEW, MANY)),
        SHOWN,
    ),
)


def more(rows: Rows, rung: str, what: str, reading: str) -> float:
    """Return by how much a count grows from few repetitions to many."""
    few, many = (rows.value(f"{rung}, {count} {what}", reading) for count in (FEW, MANY))
    return many - few


def every_byte_is_asked_for(rows: Rows) -> Found:
    """No load of the sets in memory was taken out or merged."""
    sectors = SECTOR * more(rows, "global", "reads", "global_load_sectors")
    waves = WAVEFRONT * more(rows, "shared", "reads", "shared_load_wavefronts")
    text = f"{number(sectors)} bytes in sectors, {number(waves)} in wavefronts, {READ_AGAIN} expected of each"
    return sectors == waves == READ_AGAIN, text


def registers_ask_nobody(rows: Rows) -> Found:
    """What is in registers or constants, or was brought to shared memory, is not loaded from global memory again."""
    held = ("registers", "constant", "shared")
    grown = {rung: more(rows, rung, "reads", "global_load_requests") for rung in held}
    local = rows.value(f"registers, {MANY} reads", "local_load_requests")
    text = f"{sum(grown.values()):.0f} more global loads for {MANY - FEW} more reads, {local:.0f} of local memory"
    return not any(grown.values()) and not local, text


def arithmetic_fills_the_loop(rows: Rows) -> Found:
    """In registers nearly every instruction is a multiply-add."""
    warps = BLOCKS * reread.THREADS // 32
    adds = (MANY - FEW) * warps * reread.TILE / (2 * reread.THREADS)
    each = more(rows, "registers", "reads", "warp_instructions") / adds
    return 1 <= each <= 1.05, f"{number(each, 3)} instructions a multiply-add"


def issue_is_no_limit(rows: Rows) -> Found:
    """Reads from memory leave the schedulers with time to spare."""
    requests = READ_AGAIN / (16 * 32)
    each = {rung: more(rows, rung, "reads", "warp_instructions") / requests for rung in ("global", "shared")}
    text = ", ".join(f"{rung} {number(value)}" for rung, value in each.items())
    return max(each.values()) <= ISSUED / 2, f"{text} instructions a request of 512 bytes, {ISSUED} fit"


def a_step_is_a_load(rows: Rows) -> Found:
    """Each step is one request of one sector or wavefront."""
    steps = MANY - FEW
    found = [
        more(rows, "global", "steps", "global_load_requests"),
        more(rows, "global", "steps", "global_load_sectors"),
        more(rows, "shared", "steps", "shared_load_wavefronts"),
    ]
    return found == [steps] * 3, f"{', '.join(map(number, found))} for {steps} steps"


def a_step_is_short(rows: Rows) -> Found:
    """A step is its load, at most two instructions that make an address, and a share of the loop."""
    steps = MANY - FEW
    each = {rung: more(rows, rung, "steps", "warp_instructions") / steps for rung in WALKED}
    text = ", ".join(f"{rung} {number(value)}" for rung, value in each.items())
    return all(1 <= value <= 7 for value in each.values()), f"{text} instructions a step"


ORDER = "each level nearer to the arithmetic answers sooner and gives more: registers, shared memory, L2, global memory"
PATH = ("registers", "shared", "L2", "DRAM")
GLOBAL = "global memory gives 2000 GB/s (an A100's)"
SAID = 2000e9


def judged(found: Mapping[str, Mapping[str, Reach]]) -> Mapping[str, tuple[str, str]]:
    """Return what measured levels say of the claims."""
    given = [found[BANDWIDTH][level].value for level in PATH]
    waited = [found[LATENCY][level].cycles for level in PATH]
    is_ordered = given == sorted(given, reverse=True) and waited == sorted(waited)
    rates = ", ".join(f"{level} {value / 1e12:.3g}" for level, value in zip(PATH, given, strict=True))
    cycles = ", ".join(f"{value:.3g}" for value in waited)
    return {
        ORDER: (HELD if is_ordered else REFUTED, f"{rates} TB/s; {cycles} cycles"),
        GLOBAL: (HELD if given[-1] >= SAID else REFUTED, f"{given[-1] / 1e9:.0f} GB/s on this card"),
    }


def observe(clock: GpuClock) -> Observed:
    """Sweep the size of the set on the GPU."""
    if not clock.is_timing:
        return Observed({})
    device, language = clock.device, clock.language
    measured = {
        BANDWIDTH: levels.bandwidths(device, language, levels.COARSE),
        LATENCY: levels.latencies(device, language, levels.COARSE),
    }
    found = {name: levels.plateaus(points, device.l2_bytes) for name, points in measured.items()}
    places = levels.marks(device)
    pictures = tuple(levels.curves(points, places, language) for points in measured.values())
    return Observed(judged(found), pictures)


EXPERIMENT = Experiment(
    name="hierarchy",
    question="What does each level of the memory give, and how long does it take to answer?",
    sweeps=SWEEPS,
    expectations=(
        Expectation("every answer equals NumPy's", all_right()),
        Expectation(
            "every read that is timed in global and shared memory is a read: the compiler took none out; those of "
            "constants are not counted",
            every_byte_is_asked_for,
        ),
        Expectation(
            "what registers, constants or shared memory hold is not loaded again", registers_ask_nobody
        ),
        Expectation("in registers nearly every instruction is a multiply-add", arithmetic_fills_the_loop),
        Expectation("reads from memory take at most half of what can be issued", issue_is_no_limit),
        Expectation("a step of a walk is one request of one sector or wavefront", a_step_is_a_load),
        Expectation("a step of a walk is no more than seven instructions", a_step_is_short),
    ),
    claims=(
        Claim(ORDER, WRITE_UP, needs_gpu(COST)),
        Claim(GLOBAL, WRITE_UP, needs_gpu(COST)),
    ),
    observe=observe,
    lessons=(
        "Latency and bandwidth need a GPU: without one this counts that each repetition asks for what it claims, "
        "so that no compiler has taken it out.",
        "A figure is the slope between few repetitions and many: the launch, its ramp and the pass that fills the "
        "caches fall out. Cycles are of the SM clock counted on the device between the samples.",
        "One block on a multiprocessor, and all blocks together pass through the set before any of it is read "
        "again: two in one place would find in its L1 what the other brought, and shared out for good 32 MiB would "
        "sit in the L1s of 132 multiprocessors and pass for the L2. What DRAM gives is measured on bytes that are "
        "read once: of a set four times the L2 a cache that keeps old lines still answers for some. A walk's lines "
        "are visited in random order, one node a line, so that nothing fetched early is the next.",
        "The registers are two banks of one port: of three operands two are in one bank, so that a multiply-add "
        "takes two clocks unless it shares operands with the one before (the flag .reuse in the machine code).",
    ),
)
