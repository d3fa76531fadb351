"""Columns: what the problems that add up the columns of a matrix share: twins, launches, temporaries.

The counterpart of ``kernels_cu/include/columns.cuh``.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

import math
from functools import cache
from typing import Any

from kernellab.catalog import elements, row_twins
from kernellab.kernel import Geometry, covering
from kernellab.problem import ELEMENTS, Operand, Sizes

SHAPE = {"THREADS": 256, "ROWS": 4, "BLOCKS": 4}


def held(at: Sizes) -> int:
    """Return the columns of a tile: sixteen bytes for each lane of a warp."""
    return 32 * elements.lanes(ELEMENTS[at["ELEMENT"]])


def splits(at: Sizes) -> int:
    """Return how many blocks share a tile: as many as fill the device, and no more than have rows."""
    wanted = at["BLOCKS"] * at["multiprocessors"] // max(1, covering(at["columns"], held(at)))
    return max(1, min(covering(at["rows"], at["THREADS"] // 32 * at["ROWS"]), wanted))


def blocks(at: Sizes) -> int:
    """Return how many blocks there are: as many for each tile."""
    return covering(at["columns"], held(at)) * splits(at)


def whole_tiles(constants: Sizes) -> str:
    """Return why a block does not suit a tile, or nothing."""
    threads = constants["THREADS"]
    if threads % 256 or not 256 <= threads <= 1024:
        return f"THREADS is {threads}, it must be a multiple of 256 up to 1024; take 256"
    return "" if constants["ROWS"] >= 1 else f"ROWS is {constants['ROWS']}, it must be at least 1; take 4"


def roundings(sizes: Sizes) -> int:
    """Return how many roundings a sum of so many rows may carry, and what is summed up before."""
    return 6 + math.ceil(math.log2(max(sizes["rows"], 2)))


TILES = Geometry(
    ("THREADS",), lambda at: (at["blocks"],), static_shared=lambda at: at["THREADS"] // 32 * 4 * held(at) + 1
)
DERIVED = {"held": held, "splits": splits, "blocks": blocks}
PARTIALS = (
    Operand("partials", "float32", ("blocks", "held"), role="scratch"),
    Operand("finished", "uint32", ("blocks",), role="scratch"),
)


def summing(THREADS: int, ROWS: int, element: str, gather: Any, add: Any) -> tuple[Any, Any]:
    """Return ``place(x)`` and ``add_up(x, here, given, kept, is_aligned, y, partials, finished)``: sums down the columns of x.

    Parameters
    ----------
    THREADS, ROWS : int
        Of a block, and that a warp takes at once.
    gather, add : device function
        ``gather(given, r, start, held, is_aligned, kept, base)`` reads `held` columns of row `r` from `start`
        on into ``kept``, from `base` on; ``add(given, r, start, held, is_aligned, kept, base, total)`` adds them
        to a lane's sums once all rows are read.

    Returns
    -------
    tuple of device functions
        ``place`` gives ``(tiles, splits, tile, split, start, held)`` of this block.
    """
    from numba import cuda, float32, int32

    ITEMS, WARPS, ZERO = elements.lanes(element), THREADS // 32, float32(0)
    HELD = 32 * ITEMS
    _, from_float = elements.conversions(element)

    @cuda.jit(device=True, forceinline=True)
    def place(x):
        columns = x.shape[1]
        tiles = (columns + HELD - 1) // HELD
        tile, split = cuda.blockIdx.x % tiles, cuda.blockIdx.x // tiles
        start = tile * HELD
        return tiles, cuda.gridDim.x // tiles, tile, split, start, min(HELD, columns - start)

    @cuda.jit(device=True, forceinline=True)
    def over_warps(value, scratch):
        thread = cuda.threadIdx.x
        for i in range(ITEMS):
            scratch[thread // 32, 32 * i + thread % 32] = value[i]
        cuda.syncthreads()
        total = ZERO
        if thread < HELD:
            for w in range(WARPS):
                total += scratch[w, thread]
        cuda.syncthreads()
        return total

    @cuda.jit(device=True, forceinline=True)
    def finish(value, here, is_aligned, scratch, partials, finished, y):
        is_last = cuda.shared.array(1, int32)
        tiles, splits, tile, _, start, _ = here
        thread = cuda.threadIdx.x
        lane, item = thread % 32, thread // 32
        total = over_warps(value, scratch)
        if thread < HELD:
            partials[cuda.blockIdx.x, thread] = total
        cuda.threadfence()
        cuda.syncthreads()
        if thread == 0:
            is_last[0] = cuda.atomic.inc(finished, tile, splits - 1) == splits - 1
        cuda.syncthreads()
        if is_last[0]:
            for i in range(ITEMS):
                value[i] = ZERO
            for k in range(item, splits, WARPS):
                for i in range(ITEMS):
                    value[i] += partials[k * tiles + tile, 32 * i + lane]
            total = over_warps(value, scratch)
            column = start + (lane * ITEMS + item if is_aligned else item * 32 + lane)
            if thread < HELD and column < y.size:
                y[column] = from_float(total)

    @cuda.jit(device=True, forceinline=True)
    def add_up(x, here, given, kept, is_aligned, y, partials, finished):
        scratch = cuda.shared.array((WARPS, HELD), float32)
        total = cuda.local.array(ITEMS, float32)
        _, splits, _, split, start, width = here
        for i in range(ITEMS):
            total[i] = ZERO
        row, step = split * WARPS + cuda.threadIdx.x // 32, splits * WARPS
        while row < x.shape[0]:
            for q in range(ROWS):
                r = row + q * step
                within = width if r < x.shape[0] else 0
                gather(given, r, start, within, is_aligned, kept, q * ITEMS)
            for q in range(ROWS):
                r = row + q * step
                within = width if r < x.shape[0] else 0
                add(given, r, start, within, is_aligned, kept, q * ITEMS, total)
            row += ROWS * step
        finish(total, here, is_aligned, scratch, partials, finished, y)

    return place, add_up


@cache
def sums(THREADS: int, ROWS: int, element: str) -> Any:
    """Return ``(x, y, partials, finished)``: all of a kernel that adds up columns and nothing else."""
    from numba import cuda, float32

    ITEMS, ZERO = elements.lanes(element), float32(0)
    KEPT = ROWS * ITEMS
    read_row, _ = row_twins.row_access(element, 32, 1)
    starts_at_vectors = row_twins.starts_at_vectors(element)

    @cuda.jit(device=True, forceinline=True)
    def gather(x, r, start, held, is_aligned, value, base):
        read_row(x, r, start, held, cuda.threadIdx.x % 32, is_aligned, ZERO, value, base)

    @cuda.jit(device=True, forceinline=True)
    def add(x, r, start, held, is_aligned, value, base, total):
        for i in range(ITEMS):
            total[i] += value[base + i]

    place, add_up = summing(THREADS, ROWS, element, gather, add)

    @cuda.jit(device=True, forceinline=True)
    def add_all(x, y, partials, finished):
        value = cuda.local.array(KEPT, float32)
        here = place(x)
        is_aligned = starts_at_vectors(x, x, x.shape[1])
        add_up(x, here, x, value, is_aligned, y, partials, finished)

    return add_all
