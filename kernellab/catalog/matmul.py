"""Product of two matrices: from one element a thread to the speed of the multipliers."""

from __future__ import annotations

from kernellab.catalog import products
from kernellab.kernel import Kernel
from kernellab.problem import ELEMENTS

PROBLEM = products.problem("matmul")

BLOCKED = Kernel(
    PROBLEM, "blocked", products.arguments(PROBLEM), products.BLOCKED, "to come", elements=ELEMENTS
)

LADDER = (BLOCKED, products.wgmma(PROBLEM, BLOCKED))
