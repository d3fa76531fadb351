"""Fused epilogue: bias and GeLU in the product's own kernel, against a chain; and the most that it can give."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from kernellab.catalog import kernel, ladder, products
from kernellab.experiments.common import WRITE_UP, all_right, bytes_of, has_time, number, time_over
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
from kernellab.kernel import LANGUAGES
from kernellab.problem import ELEMENTS

if TYPE_CHECKING:
    from kernellab.record import Record

PROBLEM = "matmul_bias_gelu"
CLAIMED, SIDE = 1.8, 2048
"""The write-up: over cuBLAS and a separate kernel, for square matrices of that side."""
CARD, CARD_FLOPS, CARD_BYTES = "A100", 312e12, 2e12
"""Its card: operations a second in 16 bits by the datasheet, and bytes a second as it says itself."""
CHAIN, PRODUCT = "chain", "product alone"
FUSED = {"wmma": "wmma, fused", "mma": "mma.sync, fused", "wgmma": "wgmma, fused"}
TENSOR, WAVES = "tensor_instructions", "shared_load_wavefronts"
SHOWN = (
    Column("launches", "launches"),
    Column("read\nB/elem.", "bytes_read_per_element"),
    Column("written\nB/elem.", "bytes_written_per_element"),
    Column("tensor\ninstr.", TENSOR),
    Column("warp\ninstr.", "warp_instructions"),
    Column("regs", "registers"),
)


def label_of(title: str, element: str) -> str:
    """Return a point's label, such as ``chain, float16``."""
    return f"{title}, {element}"


def fused(element: str) -> tuple[str, ...]:
    """Return the labels of the fused rungs that the catalogue has."""
    names = [each.name for each in ladder(PROBLEM)]
    return tuple(label_of(title, element) for name, title in FUSED.items() if name in names)


def point(title: str, name: str, element: str) -> Point:
    """Return a rung, counted on a tile and timed on the claim's sizes."""
    case, large = products.case(*products.FULL, element), products.case(SIDE, SIDE, SIDE, element)
    return Point(label_of(title, element), kernel(name).with_element(element), case, large=large)


def sweep(element: str) -> Sweep:
    """Return the chain and every kernel that fuses it."""
    names = {CHAIN: f"{PROBLEM}/unfused"}
    there = fused(element)
    names |= {
        title: f"{PROBLEM}/{name}" for name, title in FUSED.items() if label_of(title, element) in there
    }
    points = tuple(point(title, name, element) for title, name in names.items())
    return Sweep(f"{element} ({points[0].case.name})", points, SHOWN)


def one_launch(rows: Rows) -> Found:
    """The chain takes two launches, each fused kernel one."""
    for element in ELEMENTS[1:]:
        for label in (label_of(CHAIN, element), *fused(element)):
            wanted = 2 if label.startswith(CHAIN) else 1
            if rows.value(label, "launches") != wanted:
                return False, f"{label}: {number(rows.value(label, 'launches'))} launches, {wanted} expected"
    return True, f"2 and 1 in {len(fused(ELEMENTS[1])) * 2} of {len(fused(ELEMENTS[1])) * 2}"


def written_once(rows: Rows) -> Found:
    """The chain writes two arrays of 16-bit elements, the kernel with the same product one."""
    for element in ELEMENTS[1:]:
        labels = (label_of(CHAIN, element), label_of(FUSED["mma"], element))
        found = tuple(rows.value(label, "bytes_written_per_element") for label in labels)
        if found != (4, 2):
            return False, f"{element}: {number(found[0])} and {number(found[1])} bytes an element are written"
    return True, "4 bytes an element by the chain, 2 by the fused kernel"


def same_product(rows: Rows) -> Found:
    """Fusing changes nothing of the product: as many tensor instructions."""
    for element in ELEMENTS[1:]:
        labels = [label_of(title, element) for title in (PRODUCT, CHAIN, FUSED["mma"])]
        found = [rows.value(label, TENSOR) for label in labels]
        if len(set(found)) != 1:
            return False, f"{element}: {' '.join(map(number, found))} tensor instructions"
    return True, f"{number(found[0])} tensor instructions each"


def ceiling(side: int, flops: float, nbytes: float, kernels: int = 1) -> float:
    """Return how many times as fast fusing can be: the product at full speed hides what follows it entirely.

    Parameters
    ----------
    side : int
        Of square matrices of 16-bit elements.
    flops, nbytes : float
        What the card does in a second.
    kernels : int
        That follow the product, each reading and writing the array.

    Examples
    --------
    >>> f"{ceiling(2048, 312e12, 2e12):.2f} {ceiling(2048, 312e12, 2e12, 2):.2f}"
    '1.15 1.30'
    """
    product, array = 2 * side**3 / flops, 2 * side**2 / nbytes
    return 1 + kernels * 2 * array / product


def claim_possible(rows: Rows) -> tuple[str, str]:
    """1.8x is said of an A100, at 2048."""
    one, two = (ceiling(SIDE, CARD_FLOPS, CARD_BYTES, kernels) for kernels in (1, 2))
    text = f"{one:.2f} x at most with one kernel after the product, {two:.2f} x with two, launches aside; "
    text += f"{CLAIMED} x needs k under {SIDE * (one - 1) / (CLAIMED - 1):.0f}"
    return HELD if one >= CLAIMED else REFUTED, text


def claim_speed(rows: Rows) -> tuple[str, str]:
    """Fusing is said to be worth 1.8x at 2048."""
    element = ELEMENTS[1]
    chain, kernel_label, alone = (label_of(title, element) for title in (CHAIN, FUSED["mma"], PRODUCT))
    if not has_time(rows, chain, kernel_label, alone):
        return NEEDS_GPU, "2 launches against 1; the product is the floor of both"
    value, low, high = time_over(rows, chain, kernel_label)
    most = rows[chain].timings[-1].seconds / rows[alone].timings[-1].seconds
    text = f"{value:.3g} x (95 % {low:.3g} to {high:.3g}) of {most:.3g} x: the chain over its product alone"
    return HELD if high >= CLAIMED else REFUTED, text


def per_element(name: str, access: str) -> Derived:
    """Return the bytes that lanes ask for, for an element of the answer; NaN where TMA moves the tiles."""

    def formula(record: Record) -> float:
        asked, stored = bytes_of(access)(record), bytes_of("store")(record)
        return asked / (record.sizes["m"] * record.sizes["n"]) if stored else math.nan

    return Derived(f"bytes_{name}_per_element", "B", formula)


EXPERIMENT = Experiment(
    name="fused-epilogue",
    question="What does it give to add the bias and apply GeLU in the product's own kernel?",
    sweeps=(
        *(sweep(element) for element in ELEMENTS[1:]),
        *(
            Sweep(f"{PRODUCT}, {element}", (point(PRODUCT, "matmul/mma", element),), SHOWN)
            for element in ELEMENTS[1:]
        ),
    ),
    derived=(per_element("read", "load"), per_element("written", "store")),
    expectations=(
        Expectation("every answer equals NumPy's", all_right()),
        Expectation("the chain is two launches, a fused kernel one", one_launch),
        Expectation(
            "the chain writes the array between and its answer, a fused kernel its answer", written_once
        ),
        Expectation("the product is the same in all: as many tensor instructions", same_product),
    ),
    claims=(
        Claim(
            f"fused is {CLAIMED} times as fast at {SIDE} as a product and a separate kernel",
            WRITE_UP,
            claim_speed,
        ),
        Claim(f"that was measured on an {CARD}", WRITE_UP, claim_possible),
    ),
    lessons=(
        "A product of side n takes 2 n^3 operations, what follows it 4 n^2 bytes a kernel: the ceiling of fusing is "
        "1 plus the second time over the first, and falls as 1 / n. A slow chain, or a slow product, hides it.",
        "A dash: no lane asks, TMA moves tiles.",
        "Beside cuBLAS and cuBLASLt's own epilogue, at three sizes: kernellab bench products.",
    ),
    languages=LANGUAGES[:1],
)
