"""Folds: sum, max and argmax as device functions for twins, and their merge over a warp and a block.

The counterpart of ``kernels_cu/include/reduce.cuh``. A value is a float32, for argmax a pair (value, place).
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
# ruff: noqa: N803, N806

from __future__ import annotations

from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np

from kernellab.catalog import elements
from kernellab.catalog.twins import ALL_LANES

Fold = Literal["sum", "max", "argmax"]
NOWHERE = 2**63 - 1


class Folding(NamedTuple):
    """What a fold merges, as device functions.

    Attributes
    ----------
    none, merge : device function
        ``none()`` is the value of no element; ``merge(a, b)``.
    value_of : device function
        ``value_of(element, place)``.
    start, of, next, visit_of, found : device function
        What one thread carries through vectors: ``start()``, ``next(carried, of(kept, at), visit)``, and then
        ``found(carried, place)``, of the first element of the vector that it saw at ``visit_of(carried)``.
    fetch, keep : device function
        ``fetch(slots, i)``, ``keep(slots, i, value)``: in an array, for argmax in two.
    """

    none: Any
    merge: Any
    value_of: Any
    start: Any
    of: Any
    next: Any
    visit_of: Any
    found: Any
    fetch: Any
    keep: Any


@cache
def folding(fold: Fold, EACH: int = 1) -> Folding:
    """Return the functions of one fold, for vectors of `EACH` elements."""
    return _places(EACH) if fold == "argmax" else _values(fold, EACH)


@cache
def _largest(EACH: int) -> Any:
    from numba import cuda, float32
    from numba.cuda import libdevice

    NAN = float32(np.nan)

    @cuda.jit(device=True)
    def largest(kept, at):
        # fmaxf is one instruction, and one more looks at two elements for NaN.
        top = kept[at]
        last = kept[at + EACH - 1]
        has_nan = top != top or last != last
        for k in range(at + 1, at + EACH):
            top = libdevice.fmaxf(top, kept[k])
        for k in range(at + 1, at + EACH - 1, 2):
            has_nan |= kept[k] != kept[k] or kept[k + 1] != kept[k + 1]
        return NAN if has_nan else top

    return largest


def _values(fold: Fold, EACH: int) -> Folding:
    from numba import cuda, float32, int32

    NONE, NO_VISIT = float32(0 if fold == "sum" else -np.inf), int32(0)

    @cuda.jit(device=True)
    def none():
        return NONE

    @cuda.jit(device=True)
    def add(a, b):
        return a + b

    @cuda.jit(device=True)
    def larger(a, b):
        # NaN wins, as in NumPy.
        return a if a > b or a != a else b

    merge = add if fold == "sum" else larger

    @cuda.jit(device=True)
    def value_of(element, place):
        return element

    @cuda.jit(device=True)
    def total(kept, at):
        mine = kept[at]
        for k in range(at + 1, at + EACH):
            mine += kept[k]
        return mine

    @cuda.jit(device=True)
    def following(carried, value, visit):
        return merge(carried, value)

    @cuda.jit(device=True)
    def visit_of(carried):
        return NO_VISIT

    @cuda.jit(device=True)
    def found(carried, place):
        return carried

    @cuda.jit(device=True)
    def fetch(slots, i):
        return slots[i]

    @cuda.jit(device=True)
    def keep(slots, i, value):
        slots[i] = value

    of = total if fold == "sum" else _largest(EACH)
    return Folding(none, merge, value_of, none, of, following, visit_of, found, fetch, keep)


def _places(EACH: int) -> Folding:
    from numba import cuda, float32, int32, int64

    LOWEST, NO_PLACE, NO_VISIT = float32(-np.inf), int64(NOWHERE), int32(0)

    @cuda.jit(device=True)
    def none():
        return LOWEST, NO_PLACE

    @cuda.jit(device=True)
    def better(one, other):
        value, place = one
        other_value, other_place = other
        # With `or` and `and` these were branches, and lanes would diverge.
        is_tie = (value == other_value) | ((value != value) & (other_value != other_value))
        is_first = (value > other_value) | ((value != value) & (other_value == other_value))
        is_one = is_first | (is_tie & (place < other_place))
        return value if is_one else other_value, place if is_one else other_place

    @cuda.jit(device=True)
    def value_of(element, place):
        return element, int64(place)

    @cuda.jit(device=True)
    def start():
        return LOWEST, NO_VISIT

    @cuda.jit(device=True)
    def following(carried, value, visit):
        # Vectors are visited in the order of places: only a larger value, or the first NaN, takes over.
        best, seen = carried
        is_better = (not (value <= best)) & (best == best)
        return value if is_better else best, visit if is_better else seen

    @cuda.jit(device=True)
    def visit_of(carried):
        return carried[1]

    @cuda.jit(device=True)
    def found(carried, place):
        return carried[0], int64(place)

    @cuda.jit(device=True)
    def fetch(slots, i):
        return slots[0][i], slots[1][i]

    @cuda.jit(device=True)
    def keep(slots, i, best):
        slots[0][i] = best[0]
        slots[1][i] = best[1]

    return Folding(none, better, value_of, start, _largest(EACH), following, visit_of, found, fetch, keep)


@cache
def over_threads(fold: Fold) -> tuple[Any, Any]:
    """Return ``over_warp(value)``, in lane 0, and ``over_block(value, scratch, warps)``, in thread 0."""
    from numba import cuda

    functions = folding(fold)
    none, merge, fetch, keep = functions.none, functions.merge, functions.fetch, functions.keep

    @cuda.jit(device=True)
    def lower_value(value, step):
        return cuda.shfl_down_sync(ALL_LANES, value, step)

    @cuda.jit(device=True)
    def lower_best(best, step):
        value = cuda.shfl_down_sync(ALL_LANES, best[0], step)
        return value, cuda.shfl_down_sync(ALL_LANES, best[1], step)

    from_lane_below = lower_best if fold == "argmax" else lower_value

    @cuda.jit(device=True)
    def over_warp(value):
        for step in (16, 8, 4, 2, 1):
            value = merge(value, from_lane_below(value, step))
        return value

    @cuda.jit(device=True)
    def over_block(value, scratch, warps):
        t = cuda.threadIdx.x
        value = over_warp(value)
        if t % 32 == 0:
            keep(scratch, t // 32, value)
        cuda.syncthreads()
        of_warp = none()
        if t < warps:
            of_warp = fetch(scratch, t)
        cuda.syncthreads()
        return over_warp(of_warp)

    return over_warp, over_block


@cache
def over_line(fold: Fold, THREADS: int, VECTORS: int, element: str) -> Any:
    """Return ``find(x, is_wide, t, first, step)``: what thread `t` of THREADS finds in its share of a line.

    Tiles are ``first``, ``first + step``, ...; `is_wide` says whether the line starts at 16 bytes.
    """
    from numba import cuda, float32, int32

    EACH = elements.lanes(element)
    fill, _ = elements.register_access(element)
    to_float, _ = elements.conversions(element)
    functions = folding(fold, EACH)
    merge, start_of, of, following = functions.merge, functions.start, functions.of, functions.next
    visit_of, found = functions.visit_of, functions.found
    KEPT, TILE = EACH * VECTORS, THREADS * VECTORS
    FIRST_VISIT = int32(0)

    @cuda.jit(device=True)
    def in_vectors(x, whole, t, first, step):
        kept = cuda.local.array(KEPT, float32)
        mine, visit = start_of(), FIRST_VISIT
        # All loads of a tile first, then the merges. A `range` with such a step would divide for its length.
        start = first * TILE
        while start < whole:
            for v in range(VECTORS):
                i = start + v * THREADS + t
                if i < whole:
                    fill(kept, EACH * v, x, EACH * i)
            for v in range(VECTORS):
                i = start + v * THREADS + t
                if i < whole:
                    mine = following(mine, of(kept, EACH * v), int32(visit + v))
            visit = int32(visit + VECTORS)
            start += step * TILE
        at = visit_of(mine)
        i = (first + at // VECTORS * step) * TILE + at % VECTORS * THREADS + t
        return found(mine, i * EACH if i < whole else NOWHERE)

    @cuda.jit(device=True)
    def in_elements(x, begin, step):
        mine, visit = start_of(), FIRST_VISIT
        i = begin
        while i < x.size:
            mine = following(mine, to_float(x[i]), visit)
            visit = int32(visit + 1)
            i += step
        return found(mine, begin + visit_of(mine) * step if begin < x.size else NOWHERE)

    @cuda.jit(device=True)
    def find(x, is_wide, t, first, step):
        whole = x.size // EACH if is_wide else 0
        mine = in_vectors(x, whole, t, first, step)
        return merge(mine, in_elements(x, whole * EACH + first * THREADS + t, step * THREADS))

    return find


@cache
def answering(fold: Fold, element: str) -> tuple[Any, Any]:
    """Return ``put(y, i, value)``, and ``put_exact(y, i, value, line)`` for a whole warp.

    The latter first looks where in the vector at its place the best value stands.
    """
    from numba import cuda

    EACH = elements.lanes(element)
    to_float, from_float = elements.conversions(element)

    @cuda.jit(device=True)
    def put_value(y, i, value):
        y[i] = from_float(value)

    @cuda.jit(device=True)
    def put_once(y, i, value, line):
        if cuda.threadIdx.x % 32 == 0:
            y[i] = from_float(value)

    @cuda.jit(device=True)
    def put_place(y, i, best):
        y[i] = best[1]

    @cuda.jit(device=True)
    def put_exact(y, i, best, line):
        value = cuda.shfl_sync(ALL_LANES, best[0], 0)
        place = cuda.shfl_sync(ALL_LANES, best[1], 0)
        lane = cuda.threadIdx.x % 32
        is_it = False
        if lane < EACH and place + lane < line.size:
            seen = to_float(line[place + lane])
            is_it = seen == value or (seen != seen and value != value)
        exact = place + cuda.ffs(cuda.ballot_sync(ALL_LANES, is_it)) - 1
        if lane == 0:
            y[i] = exact

    return (put_place, put_exact) if fold == "argmax" else (put_value, put_once)
