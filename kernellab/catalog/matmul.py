"""Product of two matrices: from one element a thread to the speed of the multipliers."""

from __future__ import annotations

from kernellab.catalog import product_rungs, products, warp_rungs

PROBLEM = products.problem("matmul")

BLOCKED = product_rungs.blocked(PROBLEM)
BUFFERED = product_rungs.buffered(PROBLEM)

WMMA = warp_rungs.wmma(PROBLEM)
MMA = warp_rungs.mma(PROBLEM, WMMA)

LADDER = (
    *product_rungs.one_element(PROBLEM),
    BLOCKED,
    product_rungs.vectorised(PROBLEM, BUFFERED),
    BUFFERED,
    WMMA,
    MMA,
    products.wgmma(PROBLEM, WMMA),
)
