"""Product of two matrices, plus a bias, GeLU of that: in one kernel."""

from __future__ import annotations

from kernellab.catalog import product_rungs, products, warp_rungs

PROBLEM = products.problem("matmul_bias_gelu")

BLOCKED = product_rungs.blocked(PROBLEM)
BUFFERED = product_rungs.buffered(PROBLEM)

WMMA = warp_rungs.wmma(PROBLEM)
MMA = warp_rungs.mma(PROBLEM, WMMA)

LADDER = (
    BLOCKED,
    BUFFERED,
    WMMA,
    warp_rungs.unfused(PROBLEM, WMMA),
    MMA,
    products.wgmma(PROBLEM, WMMA),
    warp_rungs.wmma_faulty(PROBLEM),
)
