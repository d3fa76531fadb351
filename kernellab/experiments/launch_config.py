"""Launch configuration: block sizes, grids that do not fill the device, tails, and what limits resident blocks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kernellab.api_occupancy import Needs
from kernellab.catalog import kernel
from kernellab.checks import HOPPER
from kernellab.errors import SpecError
from kernellab.experiments.common import WRITE_UP, all_right, number
from kernellab.experiments.experiment import (
    HELD,
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
from kernellab.experiments.launch_points import (
    BLOCKS,
    FULL_WAVE,
    KIB,
    SHARED,
    VECTORS,
    alone,
    arithmetic,
    block,
    grid,
    launched,
    shared,
    timed,
    vectors,
)
from kernellab.experiments.picture import Bar, Bars, Picture
from kernellab.experiments.pitfalls import Pitfall
from kernellab.instruments.occupancy import Waves, multiprocessor
from kernellab.plan import bind
from kernellab.problem import Case

if TYPE_CHECKING:
    from kernellab.record import Record

WARP = 32
TAIL = 'NVIDIA, "CUDA Pro Tip: Minimize the Tail Effect"'
GUIDE = 'CUDA C++ Best Practices Guide, "Occupancy"'
EFFICIENCY = Column("warp\neff. %", "warp_efficiency_percent", 1)
RESIDENT = Column("resident\nblocks", "resident_blocks")
OCCUPIED = Column("occu-\npancy %", "occupancy_percent", 1)
SWEEPS = (
    Sweep(
        "Threads a block",
        tuple(block(threads) for threads in BLOCKS),
        (
            EFFICIENCY,
            Column("warp instr.\n/ element", "warp_instructions_per_element"),
            Column("fetched /\nneeded", "fetched_per_needed"),
            RESIDENT,
            OCCUPIED,
        ),
    ),
    Sweep(
        f"Blocks a grid, of 256 threads, on {HOPPER.multiprocessors} multiprocessors",
        tuple(
            grid(blocks) for blocks in (1, HOPPER.multiprocessors, FULL_WAVE, FULL_WAVE + 1, 2 * FULL_WAVE)
        ),
        (
            Column("busy\nmultipr.", "busy_multiprocessors"),
            Column("waves", "waves", 3),
            Column("in the\ntail", "tail_blocks"),
            Column("places\ntaken %", "places_taken_percent", 1),
        ),
    ),
    Sweep(
        "Shared memory a block, of 256 threads",
        tuple(shared(nbytes) for nbytes in SHARED),
        (RESIDENT, OCCUPIED),
    ),
    Sweep(
        "Registers a thread, in blocks of 256: more vectors in flight",
        tuple(vectors(count) for count in VECTORS),
        (Column("regs", "registers"), RESIDENT, OCCUPIED),
    ),
)


def filled(record: Record) -> Waves:
    """Return how the grid fills the device: the GPU that it ran on, or an H200."""
    needs = Needs(math.prod(record.block), int(record.value("registers")), int(record.value("shared_bytes")))
    multiprocessors = int(record.environment.get("multiprocessors", HOPPER.multiprocessors))
    return needs.occupancy(record.arch).waves(math.prod(record.grid), multiprocessors)


DERIVED = (
    Derived("warp_efficiency_percent", "%", lambda record: 100 * record.value("warp_efficiency")),
    Derived(
        "warp_instructions_per_element",
        "instructions",
        lambda record: record.value("warp_instructions") / record.sizes["n"],
    ),
    Derived(
        "fetched_per_needed",
        "1",
        lambda record: 32 * record.value("global_load_sectors") / (4 * record.sizes["n"]),
    ),
    Derived("occupancy_percent", "%", lambda record: 100 * record.value("occupancy"), ""),
    Derived(
        "busy_multiprocessors",
        "multiprocessors",
        lambda record: float(min(math.prod(record.grid), HOPPER.multiprocessors)),
        "",
    ),
    Derived("waves", "waves", lambda record: filled(record).count, ""),
    Derived("tail_blocks", "blocks", lambda record: float(filled(record).tail), ""),
    Derived("places_taken_percent", "%", lambda record: 100 * filled(record).efficiency, ""),
)


def lanes_wasted(rows: Rows) -> Found:
    """A block takes whole warps: of the last one only some lanes work."""
    for threads in BLOCKS:
        found = rows.value(f"{threads} threads", "warp_efficiency")
        wanted = threads / (WARP * -(-threads // WARP))
        if not math.isclose(found, wanted, rel_tol=1e-3):
            return (
                False,
                f"{threads} threads: {number(100 * found)} % of the lanes, {number(100 * wanted)} expected",
            )
    return (
        True,
        f"{number(rows.value('33 threads', 'warp_efficiency_percent'))} % of the lanes work in blocks of 33",
    )


def as_many_warps(rows: Rows) -> Found:
    """33 threads take as many instructions as 64, so nearly twice as many an element."""
    first, second = (rows.value(f"{threads} threads", "warp_instructions") for threads in (33, 64))
    more = rows.value("33 threads", "warp_instructions_per_element") / rows.value(
        "64 threads", "warp_instructions_per_element"
    )
    return first == second, f"{number(first)} and {number(second)} in 64 blocks: {number(more)} x an element"


def misaligned_warps(rows: Rows) -> Found:
    """Warps of blocks of 8, 16 ... threads start where a sector does; those of others within one, and take one more."""
    found = {threads: rows.value(f"{threads} threads", "fetched_per_needed") for threads in BLOCKS}
    right = all((found[threads] == 1) == (threads % 8 == 0) for threads in BLOCKS)
    return right, ", ".join(
        f"{threads}: {number(share, 3)}" for threads, share in found.items() if share != 1
    )


def one_block_idles(rows: Rows) -> Found:
    """A grid of one block leaves every multiprocessor but one idle."""
    busy = rows.value("1 blocks", "busy_multiprocessors")
    share = rows.value("1 blocks", "places_taken_percent")
    return busy == 1 and share < 1, f"{number(busy)} multiprocessor, {number(share, 3)} % of the places"


def a_tail_is_a_wave(rows: Rows) -> Found:
    """One block over a full wave starts another."""
    full, over = (filled(rows[f"{blocks} blocks"]) for blocks in (FULL_WAVE, FULL_WAVE + 1))
    if full.capacity != FULL_WAVE:
        return True, f"a full wave is {full.capacity} blocks here, these points are chosen for {FULL_WAVE}"
    text = f"{number(100 * over.efficiency, 1)} % of the places for 1 block more"
    return (full.efficiency, over.tail) == (1, 1) and over.efficiency < 0.51, text


def shared_limits(rows: Rows) -> Found:
    """Blocks share a multiprocessor's memory, of which each costs what is reserved more than it asks for."""
    records = [rows[f"{nbytes} B shared"] for nbytes in SHARED]
    chip = multiprocessor(records[0].arch)
    room = [chip.shared_bytes // (nbytes + chip.reserved_bytes) for nbytes in SHARED]
    found = [record.value("resident_blocks") for record in records]
    wanted = [min(blocks, chip.warps // 8) for blocks in room]
    return found == wanted, f"{' '.join(map(number, found))} blocks for {' '.join(map(str, SHARED))} B"


def registers_limit(rows: Rows) -> Found:
    """More vectors a thread take more registers, and leave room for fewer blocks."""
    labels = [f"{count} vectors" for count in VECTORS]
    registers, share = ([rows.value(label, name) for label in labels] for name in ("registers", "occupancy"))
    right = registers == sorted(set(registers)) and share[0] > share[-1]
    return right, "; ".join(
        f"{number(a)} registers: {number(100 * b)} %" for a, b in zip(registers, share, strict=True)
    )


def refusal(nbytes: int) -> str:
    """Return what binding a kernel says whose blocks ask for so much shared memory; nothing if it takes it."""
    try:
        bind(
            launched("horner/single", shared=nbytes),
            kernel("horner/single").problem.inputs(Case("one", {"n": 1})),
        )
    except SpecError as error:
        return str(error)
    return ""


def too_much_is_refused(rows: Rows) -> Found:
    """One byte over the limit is refused before anything runs, in a sentence with rule, value and remedy."""
    taken, refused = refusal(HOPPER.shared), refusal(HOPPER.shared + 1)
    needed = (str(HOPPER.shared + 1), str(HOPPER.shared), "horner/single", "shared memory", "; ")
    return not taken and all(word in refused for word in needed), refused or taken


def claim_clear(rows: Rows) -> tuple[str, str]:
    """Too much shared memory is said to fail with a clear error."""
    held, text = too_much_is_refused(rows)
    return HELD if held else REFUTED, text


HISTOGRAM = Case("2**22 bytes", {"n": 2**22})
PITFALLS = (
    Pitfall(
        "blocks of 33 threads, against 64, in arithmetic",
        arithmetic(33),
        arithmetic(64),
        "51.6 % of the lanes work, 1.94 x the instructions an element",
    ),
    Pitfall(
        "blocks of 33 threads, against 64, in streaming",
        timed(block(33)),
        timed(block(64)),
        "51.6 % of the lanes work; memory may hide it",
    ),
    Pitfall(
        "a grid of one block that loops over the work, against one that fills the device",
        Point("one block", launched("histogram/shared", grid=lambda at: (1,)), HISTOGRAM),
        Point("filling", kernel("histogram/shared"), HISTOGRAM),
        f"1 of {HOPPER.multiprocessors} multiprocessors works",
    ),
    Pitfall(
        "one block over a full wave of 8 blocks a multiprocessor",
        timed(grid(FULL_WAVE + 1)),
        timed(grid(FULL_WAVE)),
        "half of the places are empty, but a block that is alone runs faster",
        source=TAIL,
    ),
    Pitfall(
        "one block over a full wave of 1 block a multiprocessor",
        alone(HOPPER.multiprocessors + 1),
        alone(HOPPER.multiprocessors),
        "half of the places are empty",
        source=TAIL,
    ),
    Pitfall(
        "a stream with 1 block of 256 threads a multiprocessor, against 8",
        timed(shared(HOPPER.shared)),
        timed(shared(0)),
        "12.5 % occupancy: an eighth of the bytes in flight",
        source=GUIDE,
    ),
    Pitfall(
        "a stream with 4 blocks of 256 threads a multiprocessor, against 8",
        timed(shared(48 * KIB)),
        timed(shared(0)),
        "50 % occupancy",
        source=GUIDE,
    ),
)


def pictures(rows: Mapping[str, Rows]) -> tuple[Picture, ...]:
    """Return the lanes that work, and the places taken, by block and by grid."""
    chosen = (
        (
            "Lanes that work, by threads a block",
            [f"{threads} threads" for threads in BLOCKS],
            "warp_efficiency_percent",
        ),
        (
            "Places taken in all waves, by blocks a grid",
            [point.label for point in SWEEPS[1].points],
            "places_taken_percent",
        ),
        (
            "Occupancy, by shared memory a block",
            [point.label for point in SWEEPS[2].points],
            "occupancy_percent",
        ),
    )
    return tuple(
        Bars(
            title,
            "%",
            tuple(
                Bar(label, {language: each.value(label, name) for language, each in rows.items()})
                for label in labels
            ),
            100.0,
            100.0,
        )
        for title, labels, name in chosen
    )


EXPERIMENT = Experiment(
    name="launch-config",
    question="What do block size, grid size, registers and shared memory cost when they are chosen badly?",
    sweeps=SWEEPS,
    derived=DERIVED,
    expectations=(
        Expectation("every answer equals NumPy's", all_right()),
        Expectation(
            "blocks that are no multiple of 32 leave lanes idle, by the count of their threads", lanes_wasted
        ),
        Expectation("blocks of 33 threads take as many warp instructions as blocks of 64", as_many_warps),
        Expectation(
            "blocks that are no multiple of 8 threads start within a sector of 8 floats: most of their warps ask for "
            "5 sectors where 4 would do",
            misaligned_warps,
        ),
        Expectation("a grid of one block keeps one multiprocessor busy", one_block_idles),
        Expectation("one block over a full wave starts a second, nearly empty one", a_tail_is_a_wave),
        Expectation(
            "shared memory limits blocks, by what they ask for and what is reserved for each", shared_limits
        ),
        Expectation(
            "more vectors a thread take registers, and registers limit blocks", registers_limit, ("cuda-c",)
        ),
        Expectation(
            "one byte of shared memory over the limit is refused before any launch", too_much_is_refused
        ),
    ),
    claims=(
        Claim("shared memory above the limit fails with a clear error", WRITE_UP, claim_clear),
        *(pitfall.claim() for pitfall in PITFALLS),
    ),
    pictures=pictures,
    lessons=(
        "A block takes whole warps: 33 threads are two, and 31 lanes of the second do nothing, in every "
        "instruction. Take a multiple of 32, and let the guard handle the end of the array.",
        "Blocks go to multiprocessors as room allows; a grid that is a little over a multiple of that number ends "
        "with a wave that is nearly empty. How much it costs depends on whether a block alone is faster.",
        "`kernellab occupancy PROBLEM/RUNG --grid N` says what limits blocks and how a grid fills a device.",
    ),
)

__all__ = ["EXPERIMENT", "PITFALLS"]
