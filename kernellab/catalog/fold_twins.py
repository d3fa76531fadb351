"""Fold twins: the rungs of sum, max and argmax in Numba, which differ in what they merge; see `folds`."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
# ruff: noqa: N803, N806

from __future__ import annotations

from typing import Any

from kernellab.catalog import elements, folds, twins
from kernellab.catalog.folds import Fold


def named(fold: Fold, plain: Any, placed: Any, name: str) -> Any:
    """Return the twin that takes the arrays of this fold, with the name of its entry."""
    return twins.renamed(placed if fold == "argmax" else plain, name)


def tree(fold: Fold, is_interleaved: bool, THREADS: int, element: str) -> tuple[Any, Any]:
    """Make the twins of interleaved and sequential: a tree in shared memory, in one or the other order."""
    from numba import cuda

    functions = folds.folding(fold)
    merge, fetch, keep = functions.merge, functions.fetch, functions.keep

    @cuda.jit(device=True)
    def interleaved(scratch):
        t, step = cuda.threadIdx.x, 1
        while step < THREADS:
            if t % (2 * step) == 0:
                keep(scratch, t, merge(fetch(scratch, t), fetch(scratch, t + step)))
            cuda.syncthreads()
            step *= 2

    @cuda.jit(device=True)
    def sequential(scratch):
        t, step = cuda.threadIdx.x, THREADS // 2
        while step > 0:
            if t < step:
                keep(scratch, t, merge(fetch(scratch, t), fetch(scratch, t + step)))
            cuda.syncthreads()
            step //= 2

    climb = interleaved if is_interleaved else sequential

    @cuda.jit(device=True)
    def over_block(mine, scratch):
        keep(scratch, cuda.threadIdx.x, mine)
        cuda.syncthreads()
        climb(scratch)
        return mine

    @cuda.jit(device=True)
    def answer(mine, scratch):
        return fetch(scratch, 0)

    name = f"{fold}_{'interleaved' if is_interleaved else 'sequential'}"
    return _two_launches(fold, name, (over_block, answer), THREADS, THREADS, element)


def shuffle(fold: Fold, THREADS: int, element: str) -> tuple[Any, Any]:
    """Make the twins of shuffle."""
    from numba import cuda

    _, over_warps = folds.over_threads(fold)
    WARPS = THREADS // 32

    @cuda.jit(device=True)
    def over_block(mine, scratch):
        return over_warps(mine, scratch, WARPS)

    @cuda.jit(device=True)
    def answer(mine, scratch):
        return mine

    return _two_launches(fold, f"{fold}_shuffle", (over_block, answer), THREADS, 32, element)


def _two_launches(
    fold: Fold, name: str, block: tuple[Any, Any], THREADS: int, WORDS: int, element: str
) -> tuple[Any, Any]:
    """Make the twins of a rung of two launches, whose scratch has so many words.

    `block` holds ``over_block(mine, scratch)``, for all threads, and ``answer(mine, scratch)``, for thread 0.
    """
    from numba import cuda, float32, int64

    to_float, _ = elements.conversions(element)
    functions = folds.folding(fold)
    none, merge, value_of, fetch, keep = (
        functions.none,
        functions.merge,
        functions.value_of,
        functions.fetch,
        functions.keep,
    )
    put, _ = folds.answering(fold, element)
    over_block, answer = block

    @cuda.jit(device=True)
    def leave(x, slots, scratch):
        i = cuda.grid(1)
        mine = none()
        if i < x.size:
            mine = value_of(to_float(x[i]), i)
        mine = over_block(mine, scratch)
        if cuda.threadIdx.x == 0:
            keep(slots, cuda.blockIdx.x, answer(mine, scratch))

    @cuda.jit(device=True)
    def merge_all(slots, count, y, scratch):
        mine = none()
        for i in range(cuda.threadIdx.x, count, THREADS):
            mine = merge(mine, fetch(slots, i))
        mine = over_block(mine, scratch)
        if cuda.threadIdx.x == 0:
            put(y, 0, answer(mine, scratch))

    def blocks(x, partials):
        leave(x, partials, cuda.shared.array(WORDS, float32))

    def blocks_placed(x, partials, places):
        scratch = cuda.shared.array(WORDS, float32)
        scratch_places = cuda.shared.array(WORDS, int64)
        leave(x, (partials, places), (scratch, scratch_places))

    def rest(partials, y):
        merge_all(partials, partials.size, y, cuda.shared.array(WORDS, float32))

    def rest_placed(partials, places, y):
        scratch = cuda.shared.array(WORDS, float32)
        scratch_places = cuda.shared.array(WORDS, int64)
        merge_all((partials, places), partials.size, y, (scratch, scratch_places))

    return named(fold, blocks, blocks_placed, f"{name}_blocks"), named(
        fold, rest, rest_placed, f"{name}_rest"
    )


def _last_block(fold: Fold, THREADS: int, element: str) -> Any:
    """Return ``finish(mine, slots, scratch, finished, row, count, line, y)``, which ends a rung of one launch.

    Each of `count` blocks leaves its value; the last one of them merges all and answers.
    """
    from numba import cuda, int32

    functions = folds.folding(fold)
    none, merge, fetch, keep = functions.none, functions.merge, functions.fetch, functions.keep
    _, over_block = folds.over_threads(fold)
    _, put = folds.answering(fold, element)
    WARPS = THREADS // 32

    @cuda.jit(device=True)
    def finish(mine, slots, scratch, finished, row, count, line, y):
        is_last = cuda.shared.array(1, int32)
        t = cuda.threadIdx.x
        mine = over_block(mine, scratch, WARPS)
        # Leave the block's value where the last block will see it: fence, then count.
        if t == 0:
            keep(slots, cuda.blockIdx.x, mine)
            cuda.threadfence()
            is_last[0] = cuda.atomic.inc(finished, row, count - 1) == count - 1
        cuda.syncthreads()
        if is_last[0]:
            mine = none()
            for i in range(t, count, THREADS):
                mine = merge(mine, fetch(slots, row * count + i))
            mine = over_block(mine, scratch, WARPS)
            if t < 32:
                put(y, row, mine, line)

    return finish


def vectorised(fold: Fold, THREADS: int, VECTORS: int, element: str) -> Any:
    """Make the twin of vectorised."""
    from numba import cuda, float32, int64

    find = folds.over_line(fold, THREADS, VECTORS, element)
    finish = _last_block(fold, THREADS, element)

    def plain(x, y, partials, finished):
        scratch = cuda.shared.array(32, float32)
        mine = find(x, True, cuda.threadIdx.x, cuda.blockIdx.x, cuda.gridDim.x)
        finish(mine, partials, scratch, finished, 0, cuda.gridDim.x, x, y)

    def placed(x, y, partials, places, finished):
        scratch = cuda.shared.array(32, float32), cuda.shared.array(32, int64)
        mine = find(x, True, cuda.threadIdx.x, cuda.blockIdx.x, cuda.gridDim.x)
        finish(mine, (partials, places), scratch, finished, 0, cuda.gridDim.x, x, y)

    return named(fold, plain, placed, f"{fold}_vectorised")


def row_warp(fold: Fold, VECTORS: int, element: str) -> Any:
    """Make the twin of warp: a warp a row."""
    from numba import cuda

    find = folds.over_line(fold, 32, VECTORS, element)
    over_warp, _ = folds.over_threads(fold)
    _, put = folds.answering(fold, element)
    EACH = elements.lanes(element)

    def twin(x, y):
        row = cuda.grid(1) // 32
        if row < x.shape[0]:
            line = x[row]
            mine = find(line, x.shape[1] % EACH == 0, cuda.threadIdx.x % 32, 0, 1)
            put(y, row, over_warp(mine), line)

    return named(fold, twin, twin, f"row_{fold}_warp")


def row_split(fold: Fold, THREADS: int, VECTORS: int, element: str) -> Any:
    """Make the twin of split: as many blocks a row as ``partials`` has room for."""
    from numba import cuda, float32, int64

    find = folds.over_line(fold, THREADS, VECTORS, element)
    finish = _last_block(fold, THREADS, element)
    EACH = elements.lanes(element)

    def plain(x, y, partials, finished):
        scratch = cuda.shared.array(32, float32)
        splits = partials.size // y.size
        row, split = cuda.blockIdx.x // splits, cuda.blockIdx.x % splits
        line = x[row]
        mine = find(line, x.shape[1] % EACH == 0, cuda.threadIdx.x, split, splits)
        finish(mine, partials, scratch, finished, row, splits, line, y)

    def placed(x, y, partials, places, finished):
        scratch = cuda.shared.array(32, float32), cuda.shared.array(32, int64)
        splits = partials.size // y.size
        row, split = cuda.blockIdx.x // splits, cuda.blockIdx.x % splits
        line = x[row]
        mine = find(line, x.shape[1] % EACH == 0, cuda.threadIdx.x, split, splits)
        finish(mine, (partials, places), scratch, finished, row, splits, line, y)

    return named(fold, plain, placed, f"row_{fold}_split")
