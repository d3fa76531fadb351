"""Columns: what the problems that add up the columns of a matrix share: twins, launches, temporaries.

The counterpart of ``kernels_cu/include/columns.cuh``.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

import math
from functools import cache
from typing import Any

from kernellab.catalog import elements, row_twins, rows
from kernellab.kernel import Geometry, Tuning, covering
from kernellab.problem import ELEMENTS, Operand, Sizes

SHAPE = {"THREADS": 256, "GROUP": 32, "ROWS": 4, "BLOCKS": 4}


def held(at: Sizes) -> int:
    """Return the columns of a tile: sixteen bytes for each lane of a group."""
    return at["GROUP"] * elements.lanes(ELEMENTS[at["ELEMENT"]])


def splits(at: Sizes) -> int:
    """Return how many blocks share a tile: as many as fill the device, and no more than have rows."""
    wanted = at["BLOCKS"] * at["multiprocessors"] // max(1, covering(at["columns"], held(at)))
    return max(1, min(covering(at["rows"], at["THREADS"] // at["GROUP"] * at["ROWS"]), wanted))


def blocks(at: Sizes) -> int:
    """Return how many blocks there are: as many for each tile."""
    return covering(at["columns"], held(at)) * splits(at)


def whole_tiles(constants: Sizes) -> str:
    """Return why a block does not suit a tile, or nothing."""
    threads = constants["THREADS"]
    if threads % 256 or not 256 <= threads <= 1024:
        return f"THREADS is {threads}, it must be a multiple of 256 up to 1024; take 256"
    if constants["GROUP"] not in (1, 2, 4, 8, 16, 32):
        return f"GROUP is {constants['GROUP']}, it must be a power of two up to 32; take 32"
    return "" if constants["ROWS"] >= 1 else f"ROWS is {constants['ROWS']}, it must be at least 1; take 4"


def shape_for(sizes: Sizes, element: str) -> dict[str, int]:
    """Return the launch shape for a row's length: no more lanes a row than it has vectors."""
    return {"GROUP": rows.part_of_a_warp(covering(sizes["columns"], elements.lanes(element)))}


def roundings(sizes: Sizes) -> int:
    """Return how many roundings a sum of so many rows may carry, and what is summed up before."""
    return 6 + math.ceil(math.log2(max(sizes["rows"], 2)))


TILES = Geometry(
    ("THREADS",), lambda at: (at["blocks"],), static_shared=lambda at: at["THREADS"] // 32 * 4 * held(at) + 1
)
TUNING = Tuning(SHAPE, shape_for)
DERIVED = {"held": held, "splits": splits, "blocks": blocks}
PARTIALS = (
    Operand("partials", "float32", ("blocks", "held"), role="scratch"),
    Operand("finished", "uint32", ("blocks",), role="scratch"),
)


def summing(THREADS: int, GROUP: int, ROWS: int, element: str, gather: Any, add: Any) -> tuple[Any, Any]:
    """Return ``place(x)`` and ``add_up(x, here, given, kept, is_aligned, y, partials, finished)``: sums down the columns of x.

    Parameters
    ----------
    THREADS, GROUP, ROWS : int
        Of a block; of those, lanes that have a row; rows that they take at once.
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
    HELD, BESIDE = GROUP * ITEMS, THREADS // GROUP
    MERGES = (32 // GROUP).bit_length() - 1
    _, from_float = elements.conversions(element)

    @cuda.jit(device=True, forceinline=True)
    def place(x):
        columns = x.shape[1]
        tiles = (columns + HELD - 1) // HELD
        tile, split = cuda.blockIdx.x % tiles, cuda.blockIdx.x // tiles
        start = tile * HELD
        return tiles, cuda.gridDim.x // tiles, tile, split, start, min(HELD, columns - start)

    @cuda.jit(device=True, forceinline=True)
    def over_groups(value, scratch):
        thread, lane = cuda.threadIdx.x, cuda.threadIdx.x % 32
        for i in range(ITEMS):
            for k in range(MERGES):
                value[i] += cuda.shfl_xor_sync(0xFFFFFFFF, value[i], GROUP << k)
            if GROUP == 32 or lane < GROUP:
                scratch[thread // 32, GROUP * i + lane] = value[i]
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
        member, slot = thread % GROUP, thread // GROUP
        total = over_groups(value, scratch)
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
            for k in range(slot, splits, BESIDE):
                for i in range(ITEMS):
                    value[i] += partials[k * tiles + tile, GROUP * i + member]
            total = over_groups(value, scratch)
            column = start + (member * ITEMS + slot if is_aligned else slot * GROUP + member)
            if thread < HELD and column < y.size:
                y[column] = from_float(total)

    @cuda.jit(device=True, forceinline=True)
    def add_up(x, here, given, kept, is_aligned, y, partials, finished):
        scratch = cuda.shared.array((WARPS, HELD), float32)
        total = cuda.local.array(ITEMS, float32)
        _, splits, _, split, start, width = here
        for i in range(ITEMS):
            total[i] = ZERO
        row, step = split * BESIDE + cuda.threadIdx.x // GROUP, splits * BESIDE
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
def sums(THREADS: int, GROUP: int, ROWS: int, element: str) -> Any:
    """Return ``(x, y, partials, finished)``: all of a kernel that adds up columns and nothing else."""
    from numba import cuda, float32

    ITEMS, ZERO = elements.lanes(element), float32(0)
    KEPT = ROWS * ITEMS
    read_row, _ = row_twins.row_access(element, GROUP, 1)
    starts_at_vectors = row_twins.starts_at_vectors(element)

    @cuda.jit(device=True, forceinline=True)
    def gather(x, r, start, held, is_aligned, value, base):
        read_row(x, r, start, held, cuda.threadIdx.x % GROUP, is_aligned, ZERO, value, base)

    @cuda.jit(device=True, forceinline=True)
    def add(x, r, start, held, is_aligned, value, base, total):
        for i in range(ITEMS):
            total[i] += value[base + i]

    place, add_up = summing(THREADS, GROUP, ROWS, element, gather, add)

    @cuda.jit(device=True, forceinline=True)
    def add_all(x, y, partials, finished):
        value = cuda.local.array(KEPT, float32)
        here = place(x)
        is_aligned = starts_at_vectors(x, x, x.shape[1])
        add_up(x, here, x, value, is_aligned, y, partials, finished)

    return add_all
