"""Folds: the twins of sum and max, which differ in what they merge with; see `reductions.folding`."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

from typing import Any

from kernellab.catalog import elements, reductions
from kernellab.catalog.reductions import Fold


def named(function: Any, name: str) -> Any:
    """Give a twin the name of its entry."""
    function.__name__ = function.__qualname__ = name
    return function


def tree(fold: Fold, is_interleaved: bool, THREADS: int, element: str) -> tuple[Any, Any]:
    """Make the twins of interleaved and sequential: a tree in shared memory, in one or the other order."""
    from numba import cuda, float32

    to_float, from_float = elements.conversions(element)
    NONE, merge, _, _ = reductions.folding(fold)

    @cuda.jit(device=True)
    def interleaved(scratch):
        t, step = cuda.threadIdx.x, 1
        while step < THREADS:
            if t % (2 * step) == 0:
                left = scratch[t]
                right = scratch[t + step]
                scratch[t] = merge(left, right)
            cuda.syncthreads()
            step *= 2

    @cuda.jit(device=True)
    def sequential(scratch):
        t, step = cuda.threadIdx.x, THREADS // 2
        while step > 0:
            if t < step:
                left = scratch[t]
                right = scratch[t + step]
                scratch[t] = merge(left, right)
            cuda.syncthreads()
            step //= 2

    over_block = interleaved if is_interleaved else sequential

    def blocks(x, partials):
        scratch = cuda.shared.array(THREADS, float32)
        t = cuda.threadIdx.x
        i = cuda.grid(1)
        mine = NONE
        if i < x.size:
            mine = to_float(x[i])
        scratch[t] = mine
        cuda.syncthreads()
        over_block(scratch)
        if t == 0:
            partials[cuda.blockIdx.x] = scratch[0]

    def rest(partials, y):
        scratch = cuda.shared.array(THREADS, float32)
        t = cuda.threadIdx.x
        mine = NONE
        for i in range(t, partials.size, THREADS):
            mine = merge(mine, partials[i])
        scratch[t] = mine
        cuda.syncthreads()
        over_block(scratch)
        if t == 0:
            y[0] = from_float(scratch[0])

    name = f"{fold}_{'interleaved' if is_interleaved else 'sequential'}"
    return named(blocks, f"{name}_blocks"), named(rest, f"{name}_rest")


def shuffle(fold: Fold, THREADS: int, element: str) -> tuple[Any, Any]:
    """Make the twins of shuffle."""
    from numba import cuda, float32

    to_float, from_float = elements.conversions(element)
    NONE, merge, _, over_block = reductions.folding(fold)
    WARPS = THREADS // 32

    def blocks(x, partials):
        scratch = cuda.shared.array(32, float32)
        i = cuda.grid(1)
        mine = NONE
        if i < x.size:
            mine = to_float(x[i])
        mine = over_block(mine, scratch, WARPS)
        if cuda.threadIdx.x == 0:
            partials[cuda.blockIdx.x] = mine

    def rest(partials, y):
        scratch = cuda.shared.array(32, float32)
        mine = NONE
        for i in range(cuda.threadIdx.x, partials.size, THREADS):
            mine = merge(mine, partials[i])
        mine = over_block(mine, scratch, WARPS)
        if cuda.threadIdx.x == 0:
            y[0] = from_float(mine)

    return named(blocks, f"{fold}_shuffle_blocks"), named(rest, f"{fold}_shuffle_rest")


def vectorised(fold: Fold, THREADS: int, VECTORS: int, element: str) -> Any:
    """Make the twin of vectorised."""
    from numba import cuda, float32, int32

    fill, _ = elements.register_access(element)
    to_float, from_float = elements.conversions(element)
    NONE, merge, _, over_block = reductions.folding(fold)
    EACH, WARPS = elements.lanes(element), THREADS // 32
    KEPT, TILE = EACH * VECTORS, THREADS * VECTORS

    def twin(x, y, partials, finished):
        scratch = cuda.shared.array(32, float32)
        is_last = cuda.shared.array(1, int32)
        kept = cuda.local.array(KEPT, float32)
        t = cuda.threadIdx.x
        whole = x.size // EACH
        mine = NONE

        # Tiles: all loads first, then the merges.
        for start in range(cuda.blockIdx.x * TILE, whole, cuda.gridDim.x * TILE):
            for v in range(VECTORS):
                i = start + v * THREADS + t
                if i < whole:
                    fill(kept, EACH * v, x, EACH * i)
            for v in range(VECTORS):
                i = start + v * THREADS + t
                if i < whole:
                    for k in range(EACH * v, EACH * v + EACH):
                        mine = merge(mine, kept[k])
        last = EACH * whole + cuda.grid(1)
        if last < x.size:
            mine = merge(mine, to_float(x[last]))
        mine = over_block(mine, scratch, WARPS)

        # Leave the block's value where the last block will see it: fence, then count.
        if t == 0:
            partials[cuda.blockIdx.x] = mine
            cuda.threadfence()
            before = cuda.atomic.inc(finished, 0, cuda.gridDim.x - 1)
            is_last[0] = before == cuda.gridDim.x - 1
        cuda.syncthreads()
        if is_last[0]:
            mine = NONE
            for i in range(t, cuda.gridDim.x, THREADS):
                mine = merge(mine, partials[i])
            mine = over_block(mine, scratch, WARPS)
            if t == 0:
                y[0] = from_float(mine)

    return named(twin, f"{fold}_vectorised")


def row_warp(fold: Fold, VECTORS: int, element: str) -> Any:
    """Make the twin of warp: a warp a row."""
    from numba import cuda, float32

    fill, _ = elements.register_access(element)
    to_float, from_float = elements.conversions(element)
    NONE, merge, over_warp, _ = reductions.folding(fold)
    EACH = elements.lanes(element)
    KEPT = EACH * VECTORS

    def twin(x, y):
        kept = cuda.local.array(KEPT, float32)
        row = cuda.grid(1) // 32
        lane = cuda.threadIdx.x % 32
        columns = x.shape[1]
        if row < x.shape[0]:
            mine = NONE
            if columns % EACH == 0:
                whole = columns // EACH
                for start in range(lane, whole, 32 * VECTORS):
                    for v in range(VECTORS):
                        i = start + v * 32
                        if i < whole:
                            fill(kept, EACH * v, x, row * columns + EACH * i)
                    for v in range(VECTORS):
                        i = start + v * 32
                        if i < whole:
                            for k in range(EACH * v, EACH * v + EACH):
                                mine = merge(mine, kept[k])
            else:
                for i in range(lane, columns, 32):
                    mine = merge(mine, to_float(x[row, i]))
            mine = over_warp(mine)
            if lane == 0:
                y[row] = from_float(mine)

    return named(twin, f"row_{fold}_warp")


def row_split(fold: Fold, THREADS: int, VECTORS: int, element: str) -> Any:
    """Make the twin of split: as many blocks a row as ``partials`` has room for."""
    from numba import cuda, float32, int32

    fill, _ = elements.register_access(element)
    to_float, from_float = elements.conversions(element)
    NONE, merge, _, over_block = reductions.folding(fold)
    EACH, WARPS = elements.lanes(element), THREADS // 32
    KEPT, TILE = EACH * VECTORS, THREADS * VECTORS

    def twin(x, y, partials, finished):
        scratch = cuda.shared.array(32, float32)
        is_last = cuda.shared.array(1, int32)
        kept = cuda.local.array(KEPT, float32)
        t = cuda.threadIdx.x
        columns = x.shape[1]
        splits = partials.size // y.size
        row, split = cuda.blockIdx.x // splits, cuda.blockIdx.x % splits
        mine = NONE

        # Tiles of whole vectors: all loads first, then the merges. Rows that start between go by elements.
        if columns % EACH == 0:
            whole = columns // EACH
            for start in range(split * TILE, whole, splits * TILE):
                for v in range(VECTORS):
                    i = start + v * THREADS + t
                    if i < whole:
                        fill(kept, EACH * v, x, row * columns + EACH * i)
                for v in range(VECTORS):
                    i = start + v * THREADS + t
                    if i < whole:
                        for k in range(EACH * v, EACH * v + EACH):
                            mine = merge(mine, kept[k])
        else:
            for i in range(split * THREADS + t, columns, splits * THREADS):
                mine = merge(mine, to_float(x[row, i]))
        mine = over_block(mine, scratch, WARPS)

        # Leave the block's value where the row's last block will see it: fence, then count.
        if t == 0:
            partials[cuda.blockIdx.x] = mine
            cuda.threadfence()
            is_last[0] = cuda.atomic.inc(finished, row, splits - 1) == splits - 1
        cuda.syncthreads()
        if is_last[0]:
            mine = NONE
            for i in range(t, splits, THREADS):
                mine = merge(mine, partials[row * splits + i])
            mine = over_block(mine, scratch, WARPS)
            if t == 0:
                y[row] = from_float(mine)

    return named(twin, f"row_{fold}_split")
