"""Tensor cores: the same product of matrices without them and with each way of using them."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

from kernellab.catalog import ladder, products
from kernellab.experiments.common import (
    INSTRUCTIONS,
    WRITE_UP,
    all_right,
    counted,
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
    Derived,
    Expectation,
    Experiment,
    Found,
    Point,
    Rows,
    Sweep,
)
from kernellab.kernel import LANGUAGES, Kernel
from kernellab.problem import ELEMENTS

if TYPE_CHECKING:
    from kernellab.record import Record

SIDE = 2048
"""On a GPU: products of square matrices."""
UNUSED = "blocked"
"""The rung that takes 16-bit elements and multiplies them as floats."""
WAYS = {UNUSED: "unused", "wmma": "wmma", "mma": "mma.sync", "wgmma": "wgmma"}
"""What rungs are called here."""
PRODUCTS = math.prod(products.FULL)
"""Multiplications of the small case."""
FRAGMENT = 16 * 8 * 16
"""What a warp multiplies in one instruction of its tensor core."""
TENSOR, WAVES = "tensor_instructions", "shared_load_wavefronts"
SHOWN = (
    Column("tensor\ninstr.", TENSOR),
    Column("products /\ninstr.", "products_per_instruction", 1),
    Column("products /\nshared wave", "products_per_wavefront", 1),
    Column("warp\ninstr.", INSTRUCTIONS),
    Column("regs", "registers"),
)
PUBLISHED = "published measurements of this chip's family"
WMMA_RATE, PEAK, MMA_SHARE = 60e12, 989e12, 0.65
"""Said of them: operations a second by nvcuda::wmma; the datasheet's; the share of it that mma.sync reaches."""
NEAR = 1.1


def rungs(element: str) -> dict[str, Kernel]:
    """Return the rungs that the catalogue has for an element, by what they are called here."""
    found = {kernel.name: kernel for kernel in ladder("matmul") if element in kernel.elements}
    return {title: found[name].with_element(element) for name, title in WAYS.items() if name in found}


def label_of(title: str, element: str) -> str:
    """Return a point's label, such as ``mma.sync, float16``."""
    return f"{title}, {element}"


def sweep(element: str) -> Sweep:
    """Return every way in an element."""
    case, large = products.case(*products.FULL, element), products.case(SIDE, SIDE, SIDE, element)
    points = tuple(
        Point(label_of(title, element), kernel, case, large=large) for title, kernel in rungs(element).items()
    )
    return Sweep(f"{element} ({case.name})", points, SHOWN)


def products_for(name: str) -> Callable[[Record], float]:
    """Return the formula of the multiplications for one of these; NaN where there are none."""

    def formula(record: Record) -> float:
        count = counted(record, name)
        return math.prod(record.sizes.values()) / count if count else math.nan

    return formula


def all_or_nothing(rows: Rows) -> Found:
    """Every way but `unused` leaves all multiplications to tensor cores."""
    for element in ELEMENTS[1:]:
        for title, kernel in rungs(element).items():
            wanted = 0 if kernel.name == UNUSED else 2 * PRODUCTS
            found = counted(rows[label_of(title, element)], "tensor_flops")
            if found != wanted:
                return False, f"{label_of(title, element)}: {number(found)} operations of {wanted}"
    return True, f"{2 * PRODUCTS} operations, or none"


def of_one_size(rows: Rows) -> Found:
    """What wmma and mma.sync spell is one instruction; wgmma's is larger."""
    for element in ELEMENTS[1:]:
        found = {title: counted(rows[label_of(title, element)], TENSOR) for title in rungs(element)}
        if {found["wmma"], found["mma.sync"]} != {PRODUCTS / FRAGMENT}:
            text = f"{number(found['wmma'])} and {number(found['mma.sync'])}, {PRODUCTS // FRAGMENT} expected"
            return False, f"{element}: {text}"
        if found["wgmma"] * 2 > found["mma.sync"]:
            return False, f"{element}: wgmma takes {number(found['wgmma'])}"
    return True, " ".join(f"{title} {number(count)}" for title, count in found.items())


def each_saves(rows: Rows) -> Found:
    """Every way executes fewer instructions than the one before it, and reads shared memory less."""
    for element in ELEMENTS[1:]:
        for name in (INSTRUCTIONS, WAVES):
            found = [counted(rows[label_of(title, element)], name) for title in rungs(element)]
            if any(after >= before for before, after in pairwise(found)):
                return False, f"{element}: {name} {' '.join(map(number, found))}"
    found = [rows.value(label_of(title, ELEMENTS[1]), INSTRUCTIONS) for title in rungs(ELEMENTS[1])]
    return True, f"{' '.join(map(number, found))} instructions for {PRODUCTS} products"


def claim_factor(rows: Rows) -> tuple[str, str]:
    """Not to use tensor cores is said to cost a measurable factor."""
    slow, fast = (label_of(title, ELEMENTS[1]) for title in (WAYS[UNUSED], list(rungs(ELEMENTS[1]))[-1]))
    if not has_time(rows, slow, fast):
        share = rows.value(slow, INSTRUCTIONS) / rows.value(fast, INSTRUCTIONS)
        return NEEDS_GPU, f"{number(share)} x the instructions"
    value, low, high = time_over(rows, slow, fast)
    return HELD if low > 1 else REFUTED, f"{value:.3g} x the time (95 % {low:.3g} to {high:.3g})"


def claim_rate(title: str, most: float) -> Callable[[Rows], tuple[str, str]]:
    """Return the judge of a way that is said to end at a speed."""

    def judge(rows: Rows) -> tuple[str, str]:
        label = label_of(title, ELEMENTS[1])
        if not has_time(rows, label):
            return NEEDS_GPU, f"{number(most / PEAK)} of {PEAK / 1e12:.0f} TFLOP/s"
        rate = rows.value(label, "flops_per_second")
        text = f"{rate / 1e12:.0f} TFLOP/s by our rung, {number(rate / PEAK)} of {PEAK / 1e12:.0f}"
        return HELD if rate <= most * NEAR else REFUTED, text

    return judge


EXPERIMENT = Experiment(
    name="tensor-cores",
    question="What are tensor cores worth, and what each way of using them?",
    sweeps=tuple(sweep(element) for element in ELEMENTS[1:]),
    derived=(
        Derived("products_per_instruction", "products", products_for(INSTRUCTIONS)),
        Derived("products_per_wavefront", "products", products_for(WAVES)),
    ),
    expectations=(
        Expectation("every answer equals NumPy's", all_right()),
        Expectation("tensor cores do all multiplications, or none where they are unused", all_or_nothing),
        Expectation(
            f"wmma and mma.sync are one instruction, for {FRAGMENT} products; wgmma's is for more",
            of_one_size,
        ),
        Expectation("each way executes fewer instructions than the one before, and reads less", each_saves),
    ),
    claims=(
        Claim("tensor cores that are not used cost a measurable factor", WRITE_UP, claim_factor),
        Claim("the WMMA interface ends near 60 TFLOP/s", PUBLISHED, claim_rate("wmma", WMMA_RATE)),
        Claim(
            f"mma.sync ends at {100 * MMA_SHARE:.0f} % of the peak",
            PUBLISHED,
            claim_rate("mma.sync", MMA_SHARE * PEAK),
        ),
    ),
    lessons=(
        "An fma instruction of a warp makes 32 products, one of its tensor core 2048, one of a warpgroup 64 times "
        "its columns times 16: what is left to the other instructions is to bring operands.",
        "wmma hides where a lane's elements lie, so that everything passes through memory in its order; mma.sync "
        "defines it, so that ldmatrix and a swizzle bring fragments without a conflict, and the answer can be "
        "changed in registers. wgmma reads shared memory by itself: no lane asks.",
    ),
    languages=LANGUAGES[:1],
)
