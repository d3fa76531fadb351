"""Picks: the twins of argmax, which carry a value and its place; see `reductions.picking`."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

from typing import Any

from kernellab.catalog import elements, reductions


def sequential(THREADS: int, element: str) -> tuple[Any, Any]:
    """Make the twins of argmax/sequential."""
    from numba import cuda, float32, int64

    to_float, _ = elements.conversions(element)
    LOWEST, NOWHERE = float32(float("-inf")), int64(2**63 - 1)
    better, _, _ = reductions.picking()

    @cuda.jit(device=True)
    def over_block(scratch, scratch_places):
        t, step = cuda.threadIdx.x, THREADS // 2
        while step > 0:
            if t < step:
                value, place = scratch[t], scratch_places[t]
                other, other_place = scratch[t + step], scratch_places[t + step]
                value, place = better(value, place, other, other_place)
                scratch[t], scratch_places[t] = value, place
            cuda.syncthreads()
            step //= 2

    def argmax_sequential_blocks(x, partials, places):
        scratch = cuda.shared.array(THREADS, float32)
        scratch_places = cuda.shared.array(THREADS, int64)
        t = cuda.threadIdx.x
        i = cuda.grid(1)
        value, place = LOWEST, NOWHERE
        if i < x.size:
            value, place = to_float(x[i]), int64(i)
        scratch[t], scratch_places[t] = value, place
        cuda.syncthreads()
        over_block(scratch, scratch_places)
        if t == 0:
            partials[cuda.blockIdx.x] = scratch[0]
            places[cuda.blockIdx.x] = scratch_places[0]

    def argmax_sequential_rest(partials, places, y):
        scratch = cuda.shared.array(THREADS, float32)
        scratch_places = cuda.shared.array(THREADS, int64)
        t = cuda.threadIdx.x
        value, place = LOWEST, NOWHERE
        for i in range(t, partials.size, THREADS):
            value, place = better(value, place, partials[i], places[i])
        scratch[t], scratch_places[t] = value, place
        cuda.syncthreads()
        over_block(scratch, scratch_places)
        if t == 0:
            # The value is read too, as a struct of C is.
            y[0] = scratch_places[0]

    return argmax_sequential_blocks, argmax_sequential_rest


def shuffle(THREADS: int, element: str) -> tuple[Any, Any]:
    """Make the twins of argmax/shuffle."""
    from numba import cuda, float32, int64

    to_float, _ = elements.conversions(element)
    LOWEST, NOWHERE = float32(float("-inf")), int64(2**63 - 1)
    better, _, over_block = reductions.picking()
    WARPS = THREADS // 32

    def argmax_shuffle_blocks(x, partials, places):
        scratch = cuda.shared.array(32, float32)
        scratch_places = cuda.shared.array(32, int64)
        i = cuda.grid(1)
        value, place = LOWEST, NOWHERE
        if i < x.size:
            value, place = to_float(x[i]), int64(i)
        value, place = over_block(value, place, scratch, scratch_places, WARPS)
        if cuda.threadIdx.x == 0:
            partials[cuda.blockIdx.x] = value
            places[cuda.blockIdx.x] = place

    def argmax_shuffle_rest(partials, places, y):
        scratch = cuda.shared.array(32, float32)
        scratch_places = cuda.shared.array(32, int64)
        value, place = LOWEST, NOWHERE
        for i in range(cuda.threadIdx.x, partials.size, THREADS):
            value, place = better(value, place, partials[i], places[i])
        value, place = over_block(value, place, scratch, scratch_places, WARPS)
        if cuda.threadIdx.x == 0:
            y[0] = place

    return argmax_shuffle_blocks, argmax_shuffle_rest


def vectorised(THREADS: int, VECTORS: int, element: str) -> Any:
    """Make the twin of argmax/vectorised."""
    from numba import cuda, float32, int32, int64

    fill, _ = elements.register_access(element)
    to_float, _ = elements.conversions(element)
    LOWEST, NOWHERE = float32(float("-inf")), int64(2**63 - 1)
    better, _, over_block = reductions.picking()
    EACH, WARPS = elements.lanes(element), THREADS // 32
    KEPT, TILE = EACH * VECTORS, THREADS * VECTORS

    def argmax_vectorised(x, y, partials, places, finished):
        scratch = cuda.shared.array(32, float32)
        scratch_places = cuda.shared.array(32, int64)
        is_last = cuda.shared.array(1, int32)
        kept = cuda.local.array(KEPT, float32)
        t = cuda.threadIdx.x
        whole = x.size // EACH
        value, place = LOWEST, NOWHERE

        # Tiles: all loads first, then the merges.
        for start in range(cuda.blockIdx.x * TILE, whole, cuda.gridDim.x * TILE):
            for v in range(VECTORS):
                i = start + v * THREADS + t
                if i < whole:
                    fill(kept, EACH * v, x, EACH * i)
            for v in range(VECTORS):
                i = start + v * THREADS + t
                if i < whole:
                    for k in range(EACH):
                        value, place = better(value, place, kept[EACH * v + k], int64(i * EACH + k))
        last = EACH * whole + cuda.grid(1)
        if last < x.size:
            value, place = better(value, place, to_float(x[last]), int64(last))
        value, place = over_block(value, place, scratch, scratch_places, WARPS)

        # Leave the block's value where the last block will see it: fence, then count.
        if t == 0:
            partials[cuda.blockIdx.x] = value
            places[cuda.blockIdx.x] = place
            cuda.threadfence()
            before = cuda.atomic.inc(finished, 0, cuda.gridDim.x - 1)
            is_last[0] = before == cuda.gridDim.x - 1
        cuda.syncthreads()
        if is_last[0]:
            value, place = LOWEST, NOWHERE
            for i in range(t, cuda.gridDim.x, THREADS):
                value, place = better(value, place, partials[i], places[i])
            value, place = over_block(value, place, scratch, scratch_places, WARPS)
            if t == 0:
                y[0] = place

    return argmax_vectorised


def row_warp(VECTORS: int, element: str) -> Any:
    """Make the twin of row_argmax/warp."""
    from numba import cuda, float32, int64

    fill, _ = elements.register_access(element)
    to_float, _ = elements.conversions(element)
    LOWEST, NOWHERE = float32(float("-inf")), int64(2**63 - 1)
    better, over_warp, _ = reductions.picking()
    EACH = elements.lanes(element)
    KEPT = EACH * VECTORS

    def row_argmax_warp(x, y):
        kept = cuda.local.array(KEPT, float32)
        row = cuda.grid(1) // 32
        lane = cuda.threadIdx.x % 32
        columns = x.shape[1]
        if row < x.shape[0]:
            value, place = LOWEST, NOWHERE
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
                            for k in range(EACH):
                                value, place = better(value, place, kept[EACH * v + k], int64(i * EACH + k))
            else:
                for i in range(lane, columns, 32):
                    value, place = better(value, place, to_float(x[row, i]), int64(i))
            value, place = over_warp(value, place)
            if lane == 0:
                y[row] = place

    return row_argmax_warp


def row_split(THREADS: int, VECTORS: int, element: str) -> Any:
    """Make the twin of row_argmax/split: as many blocks a row as ``partials`` has room for."""
    from numba import cuda, float32, int32, int64

    fill, _ = elements.register_access(element)
    to_float, _ = elements.conversions(element)
    LOWEST, NOWHERE = float32(float("-inf")), int64(2**63 - 1)
    better, _, over_block = reductions.picking()
    EACH, WARPS = elements.lanes(element), THREADS // 32
    KEPT, TILE = EACH * VECTORS, THREADS * VECTORS

    def row_argmax_split(x, y, partials, places, finished):
        scratch = cuda.shared.array(32, float32)
        scratch_places = cuda.shared.array(32, int64)
        is_last = cuda.shared.array(1, int32)
        kept = cuda.local.array(KEPT, float32)
        t = cuda.threadIdx.x
        columns = x.shape[1]
        splits = partials.size // y.size
        row, split = cuda.blockIdx.x // splits, cuda.blockIdx.x % splits
        value, place = LOWEST, NOWHERE

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
                        for k in range(EACH):
                            value, place = better(value, place, kept[EACH * v + k], int64(i * EACH + k))
        else:
            for i in range(split * THREADS + t, columns, splits * THREADS):
                value, place = better(value, place, to_float(x[row, i]), int64(i))
        value, place = over_block(value, place, scratch, scratch_places, WARPS)

        # Leave the block's value where the row's last block will see it: fence, then count.
        if t == 0:
            partials[cuda.blockIdx.x] = value
            places[cuda.blockIdx.x] = place
            cuda.threadfence()
            is_last[0] = cuda.atomic.inc(finished, row, splits - 1) == splits - 1
        cuda.syncthreads()
        if is_last[0]:
            value, place = LOWEST, NOWHERE
            for i in range(t, splits, THREADS):
                value, place = better(value, place, partials[row * splits + i], places[row * splits + i])
            value, place = over_block(value, place, scratch, scratch_places, WARPS)
            if t == 0:
                y[row] = place

    return row_argmax_split
