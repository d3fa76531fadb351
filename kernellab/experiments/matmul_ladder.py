"""Matmul ladder: what each rung of the product of matrices spends on a multiplication, and its time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from kernellab.catalog import ladder, products
from kernellab.experiments.common import INSTRUCTIONS, all_right, counted, number
from kernellab.experiments.experiment import (
    Column,
    Derived,
    Expectation,
    Experiment,
    Found,
    Point,
    Rows,
    Sweep,
)
from kernellab.experiments.ladder_steps import LOADED, LOADS, STORED, WAVES, Step, exactly, under
from kernellab.experiments.ladders import climbs, label_of
from kernellab.kernel import LANGUAGES, Kernel
from kernellab.problem import ELEMENTS

if TYPE_CHECKING:
    from kernellab.record import Record

PROBLEM = "matmul"
SIDE = 2048
"""On a GPU: products of square matrices, small enough for the slowest rung and for NumPy."""
TENSOR, THROUGH = "tensor_instructions", "loads_through_registers"
DEEPER = 1.15
"""Times the instructions of the rung before it: what a deeper pipeline costs where k is as short as here."""
SHOWN = (
    Column("load req.\n/ 32 products", "requests_per_warp"),
    Column("load sect.\n/ 32 products", "sectors_per_warp", 3),
    Column("shared waves\n/ 32 products", "wavefronts_per_warp", 3),
    Column("instr.\n/ 32 products", "instructions_per_warp", 3),
    Column("tensor\ninstr.", TENSOR),
    Column("regs", "registers"),
)
IN_WORDS = (
    exactly("naive", "coalesced", LOADED, 5 / 33, "lanes along a row: 1 + 4 sectors in place of 32 + 1"),
    exactly("naive", "coalesced", STORED, 1 / 8, "and stores coalesce"),
    exactly("coalesced", "tiled", LOADS, 1 / 32, "a tile of 32 x 32 is loaded once for 32 uses"),
    exactly("tiled", "blocked", WAVES, 1 / 6, "8 x 8 products a thread: shared memory is read for eight"),
    under("tiled", "blocked", INSTRUCTIONS, 0.4, "so that most instructions multiply"),
    exactly("blocked", "vectorised", LOADS, 1 / 4, "16 bytes a lane: a quarter of the requests"),
    exactly("blocked", "vectorised", WAVES, 3 / 4, "from shared memory too"),
    under("blocked", "vectorised", INSTRUCTIONS, 0.8, "fewer instructions"),
    exactly("vectorised", "buffered", THROUGH, 0, "cp.async: no copy passes through registers"),
)
IN_FRAGMENTS = (
    under("blocked", "wmma", INSTRUCTIONS, 0.4, "tensor cores: a third of the instructions"),
    exactly("wmma", "mma", WAVES, 1 / 2, "ldmatrix and a swizzle: half the reads of shared memory"),
    exactly("wmma", "mma", THROUGH, 0, "cp.async: no copy passes through registers"),
    under("wmma", "mma", INSTRUCTIONS, 0.3, "larger tiles a warp: a quarter of the instructions"),
    exactly("mma", "wgmma", TENSOR, 1 / 16, "a warpgroup multiplies 64 x 128 x 16 at once"),
    under("mma", "wgmma", INSTRUCTIONS, 0.75, "and reads shared memory itself: fewer instructions"),
)
STEPS: Mapping[str, tuple[Step, ...]] = {
    element: tuple(replace(step, contents=element) for step in (IN_FRAGMENTS if i else IN_WORDS))
    for i, element in enumerate(ELEMENTS)
}
"""By element."""


def rungs(element: str) -> tuple[Kernel, ...]:
    """Return the rungs that take an element, made for it."""
    return tuple(
        kernel.with_element(element) if kernel.elements else kernel
        for kernel in ladder(PROBLEM)
        if not kernel.fault and element in (kernel.elements or ELEMENTS[:1])
    )


def sweep(element: str) -> Sweep:
    """Return every rung that takes an element."""
    case, large = products.case(*products.FULL, element), products.case(SIDE, SIDE, SIDE, element)
    points = tuple(
        Point(label_of(PROBLEM, kernel.name, element), kernel, case, large=large) for kernel in rungs(element)
    )
    return Sweep(f"{element} ({case.name})", points, SHOWN)


def per_warp(record: Record, name: str) -> float:
    """Return a count for 32 products: what a warp multiplies at once without tensor cores."""
    return 32 * counted(record, name) / math.prod(record.sizes.values())


def by_lanes(record: Record, name: str, asked: str) -> float:
    """Return a count of accesses for 32 products; NaN where no lane asks, as TMA or wgmma does it."""
    is_known = counted(record, asked) or not counted(record, TENSOR)
    return per_warp(record, name) if is_known else math.nan


def through_registers(record: Record) -> float:
    """Return the global loads that are no asynchronous copies."""
    return counted(record, LOADS) - counted(record, "async_copy_requests")


def none_more(rows: Rows) -> Found:
    """No rung executes many more instructions than the one before it."""
    least = {}
    for element in ELEMENTS:
        found = [rows.value(label_of(PROBLEM, each.name, element), INSTRUCTIONS) for each in rungs(element)]
        for before, after, kernel in zip(found, found[1:], rungs(element)[1:], strict=False):
            if after > DEEPER * before:
                return False, f"{kernel.name} {element}: {number(after)} after {number(before)}"
        least[element] = f"{number(found[0])} to {number(found[-1])}"
    return True, ", ".join(f"{element} {text}" for element, text in least.items())


def all_by_tensor_cores(rows: Rows) -> Found:
    """Rungs for 16 bits alone multiply everything by tensor cores; the others nothing."""
    count = 0
    for element in ELEMENTS:
        for kernel in rungs(element):
            record = rows[label_of(PROBLEM, kernel.name, element)]
            is_for_halves = bool(kernel.elements) and ELEMENTS[0] not in kernel.elements
            wanted = 2 * math.prod(products.FULL) if is_for_halves else 0
            found = counted(record, "tensor_flops")
            if found != wanted:
                return False, f"{kernel.name} {element}: {number(found)} of {wanted} operations"
            count += is_for_halves
    return True, f"{2 * math.prod(products.FULL)} operations in {count} of {count}"


def climbed(element: str) -> Expectation:
    """Return the expectation that every step in an element is there."""
    found = climbs(PROBLEM, STEPS[element])
    return replace(found, text=f"{element}{found.text.removeprefix(PROBLEM)}")


EXPERIMENT = Experiment(
    name="matmul-ladder",
    question="What does each rung of the product of matrices spend on a multiplication?",
    sweeps=tuple(sweep(element) for element in ELEMENTS),
    derived=(
        Derived("requests_per_warp", "requests", lambda record: by_lanes(record, LOADS, LOADS)),
        Derived("sectors_per_warp", "sectors", lambda record: by_lanes(record, LOADED, LOADS)),
        Derived("wavefronts_per_warp", "wavefronts", lambda record: by_lanes(record, WAVES, WAVES)),
        Derived(THROUGH, "requests", through_registers),
        Derived("instructions_per_warp", "instructions", lambda record: per_warp(record, INSTRUCTIONS)),
    ),
    expectations=(
        Expectation("every answer equals NumPy's", all_right()),
        *(climbed(element) for element in ELEMENTS),
        Expectation(f"no rung executes over {DEEPER} times the instructions of the one before it", none_more),
        Expectation(
            "rungs for 16 bits do all of it on tensor cores, the others nothing", all_by_tensor_cores
        ),
    ),
    lessons=(
        "A count for 32 products is what a warp spends on the products that one fma instruction makes: the "
        "multipliers are kept busy only where all the others together stay near or under one.",
        "A dash: no lane asks. TMA brings tiles, and wgmma reads shared memory by itself.",
        f"Timed on {SIDE} x {SIDE} x {SIDE}; beside cuBLAS, at three sizes: kernellab bench products.",
    ),
    languages=LANGUAGES[:1],
)
