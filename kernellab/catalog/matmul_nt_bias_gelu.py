"""Product with a transposed matrix, plus a bias, GeLU of that: in one kernel."""

from __future__ import annotations

from kernellab.catalog import products
from kernellab.kernel import Kernel
from kernellab.problem import ELEMENTS

PROBLEM = products.problem("matmul_nt_bias_gelu")

BLOCKED = Kernel(
    PROBLEM, "blocked", products.arguments(PROBLEM), products.BLOCKED, "to come", elements=ELEMENTS
)

LADDER = (BLOCKED, products.wgmma(PROBLEM, BLOCKED))
