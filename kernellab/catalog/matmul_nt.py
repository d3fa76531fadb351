"""Product of a matrix and another that is given transposed, as the weights of a layer often are."""

from __future__ import annotations

from kernellab.catalog import product_rungs, products, warp_rungs

PROBLEM = products.problem("matmul_nt")

BLOCKED = product_rungs.blocked(PROBLEM)
BUFFERED = product_rungs.buffered(PROBLEM)

WMMA = warp_rungs.wmma(PROBLEM)
MMA = warp_rungs.mma(PROBLEM, WMMA)

LADDER = (BLOCKED, BUFFERED, WMMA, MMA, products.wgmma(PROBLEM, WMMA))
