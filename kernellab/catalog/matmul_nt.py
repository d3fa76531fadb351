"""Product of a matrix and another that is given transposed, as the weights of a layer often are."""

from __future__ import annotations

from kernellab.catalog import products
from kernellab.kernel import Kernel
from kernellab.problem import ELEMENTS

PROBLEM = products.problem("matmul_nt")

BLOCKED = Kernel(
    PROBLEM, "blocked", products.arguments(PROBLEM), products.BLOCKED, "to come", elements=ELEMENTS
)

LADDER = (BLOCKED, products.wgmma(PROBLEM, BLOCKED))
