"""Norms: references, inputs and twins' device functions of the problems that normalise rows.

The counterpart of ``kernels_cu/include/norm.cuh``.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from kernellab.catalog import elements, group_twins, row_twins, rows, twins
from kernellab.problem import Array, Case


def normalised(x: Array, weight: Array, bias: Array, eps: float) -> Array:
    """Return layernorm of each row in float64."""
    wide = x.astype(np.float64)
    if not wide.size:
        return wide
    with np.errstate(all="ignore"):
        deviation = wide - wide.mean(axis=1, keepdims=True)
        scale = 1 / np.sqrt(np.square(deviation).mean(axis=1, keepdims=True) + float(eps))
        result: Array = deviation * scale * weight.astype(np.float64) + bias.astype(np.float64)
    return result


def spread(x: Array, weight: Array, bias: Array, eps: float) -> Array:
    """Return what the error of layernorm is in proportion to: the size of what was subtracted and added.

    The eighth stands for the rounding of the row's sums, which an element near 0 inherits.
    """
    wide = x.astype(np.float64)
    if not wide.size:
        return wide
    with np.errstate(all="ignore"):
        mean = wide.mean(axis=1, keepdims=True)
        scale = 1 / np.sqrt(np.square(wide - mean).mean(axis=1, keepdims=True) + float(eps))
        size = ((np.abs(wide) + np.abs(mean)) * scale + 1 / 8) * np.abs(weight.astype(np.float64))
        result: Array = size + np.abs(bias.astype(np.float64))
    return result


def scale_of(wide: Array, eps: float) -> Array:
    """Return one over the standard deviation of each row of float64, as a column."""
    if not wide.size:
        return np.ones((len(wide), 1))
    variance = np.square(wide - wide.mean(axis=1, keepdims=True)).mean(axis=1, keepdims=True)
    result: Array = 1 / np.sqrt(variance + float(eps))
    return result


def inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Return ``x``, a weight near 1 and a bias near 0 for each column."""
    columns = case.sizes["columns"]
    return {
        "x": rows.matrix(case, rng),
        "weight": 1 + rng.standard_normal(columns, dtype=np.float32) / 8,
        "bias": rng.standard_normal(columns, dtype=np.float32) / 8,
    }


@cache
def norm_from() -> Any:
    """Return ``(mean, first, second, columns, eps) -> (mean, scale, shift)``."""
    from numba import cuda, float32

    reciprocal, rsqrtf, fmaf = cuda.libdevice.frcp_rn, cuda.libdevice.rsqrtf, cuda.libdevice.fmaf

    @cuda.jit(device=True, forceinline=True)
    def make_norm(mean, first, second, columns, eps):
        inverse = reciprocal(float32(columns))
        offset = first * inverse
        scale = rsqrtf(fmaf(-offset, offset, second * inverse) + eps)
        return mean, scale, -offset * scale

    return make_norm


@cache
def applied() -> Any:
    """Return ``(value, (mean, scale, shift)) -> value``."""
    from numba import cuda

    fmaf = cuda.libdevice.fmaf

    @cuda.jit(device=True, forceinline=True)
    def apply(value, norm):
        return fmaf(value - norm[0], norm[1], norm[2])

    return apply


@cache
def about() -> Any:
    """Return ``((mean, first, second), mean, count) -> (mean, first, second)``: deviations from another mean."""
    from numba import cuda, float32

    ZERO, TWO, fmaf = float32(0), float32(2), cuda.libdevice.fmaf  # noqa: N806

    @cuda.jit(device=True, forceinline=True)
    def moved(found, mean, count):
        apart = found[0] - mean if count > ZERO else ZERO
        shift = count * apart
        return mean, found[1] + shift, fmaf(apart, fmaf(TWO, found[1], shift), found[2])

    return moved


@cache
def deviating(element: str, members: int, vectors: int) -> tuple[Any, Any, Any]:
    """Return ``take``, ``meet`` and ``merge`` of `row_twins.Work`: ``Deviating`` of ``norm.cuh``.

    What they find is (count, mean, first, second).
    """
    from numba import cuda, float32, int64

    PER = elements.lanes(element)  # noqa: N806
    ITEMS, ZERO, ONE = vectors * PER, float32(0), float32(1)  # noqa: N806
    IS_REPAIRED, IS_BLOCK = element == "float32", members > 32  # noqa: N806
    LANES, WARPS, WIDTH = group_twins.team(members)  # noqa: N806
    (warp_sum, _), (last_sum, _) = group_twins.over_lanes(LANES), group_twins.over_lanes(WIDTH)
    _, _, of_three = group_twins.of_warps(members)
    add_up, moved, fmaf = twins.sum_of(ITEMS), about(), cuda.libdevice.fmaf
    divide, fmaxf = cuda.libdevice.fdiv_rn, cuda.libdevice.fmaxf

    @cuda.jit(device=True, forceinline=True)
    def count_of(held, warp, is_aligned):
        piece = PER if is_aligned else 1
        pieces = held // piece
        whole = pieces // members
        rest = pieces - whole * members - warp * LANES
        if warp >= WARPS:
            return ZERO
        return float32((whole * LANES + max(int64(0), min(rest, int64(LANES)))) * piece)

    @cuda.jit(device=True, forceinline=True)
    def take(value, base, held, member, is_aligned):
        count = count_of(held, member // LANES, is_aligned)
        mean = divide(warp_sum(add_up(value, base)), fmaxf(count, ONE))
        lead = PER * member if is_aligned else member
        step = 1 if is_aligned else members
        first, second = ZERO, ZERO
        for i in range(ITEMS):
            if lead + i // PER * PER * members + i % PER * step < held:
                deviation = value[base + i] - mean
                if IS_REPAIRED:
                    first += deviation
                second = fmaf(deviation, deviation, second)
        if IS_REPAIRED:
            first = warp_sum(first)
        return count, mean, first, warp_sum(second)

    @cuda.jit(device=True, forceinline=True)
    def meet(own, held, member, is_aligned, scratch, turn):
        if IS_BLOCK:
            found = of_three((own[1], own[2], own[3]), (ZERO, ZERO, ZERO), scratch, turn)
            count = count_of(held, cuda.threadIdx.x % WIDTH, is_aligned)
            mean = divide(last_sum(count * found[0]), float32(held))
            _, first, second = moved(found, mean, count)
            first = last_sum(first) if IS_REPAIRED else ZERO
            own = float32(held), mean, first, last_sum(second)
        return own

    @cuda.jit(device=True, forceinline=True)
    def merge(a, b):
        count = a[0] + b[0]
        mean = fmaf(b[1] - a[1], divide(b[0], fmaxf(count, ONE)), a[1])
        _, first, second = moved((a[1], a[2], a[3]), mean, a[0])
        _, third, fourth = moved((b[1], b[2], b[3]), mean, b[0])
        return count, mean, first + third, second + fourth

    return take, meet, merge


@cache
def work(
    element: str, members: int, vectors: int, is_sum: bool = False, activated: Any = None
) -> row_twins.Work:
    """Return what layernorm does with rows in registers: ``Layernorm`` of ``norm.cuh``.

    ``more`` begins with weight, bias, columns, eps; ``activated(value, base, more)`` follows in place.
    """
    from numba import cuda

    ITEMS = vectors * elements.lanes(element)  # noqa: N806
    take, meet, merge = deviating(element, members, vectors)
    weigh_row, _ = row_weighed(element, members, vectors)
    make_norm, apply = norm_from(), applied()

    @cuda.jit(device=True, forceinline=True)
    def finish(own, found, value, base, start, held, member, is_aligned, first, more):
        norm = make_norm(found[1], found[2], found[3], more[2], more[3])
        for i in range(base, base + ITEMS):
            value[i] = apply(value[i], norm)
        weigh_row(more[0], more[1], start, held, member, is_aligned, value, base)
        if activated is not None:
            activated(value, base, more)

    return row_twins.Work(0.0, 3, (0.0, 0.0, 0.0, 0.0), take, meet, merge, finish, is_sum)


@cache
def row_weighed(element: str, members: int, vectors: int) -> tuple[Any, Any]:
    """Return what multiplies a row in registers by the weight: with a bias added, and with none.

    Returns
    -------
    tuple of device functions
        ``weigh_row(weight, bias, start, held, member, is_aligned, value, base)`` and
        ``scale_row(weight, start, held, member, is_aligned, value, base)``.
    """
    from numba import cuda

    PER = elements.lanes(element)  # noqa: N806
    load, _ = elements.vector_access(element)
    to_float, _ = elements.conversions(element)
    fmaf = cuda.libdevice.fmaf

    @cuda.jit(device=True, forceinline=True)
    def weigh_row(weight, bias, start, held, member, is_aligned, value, base):
        if is_aligned:
            for v in range(vectors):
                at = (v * members + member) * PER
                if at < held:
                    w, b = load(weight, start + at), load(bias, start + at)
                    here = base + v * PER
                    for i in range(PER):
                        value[here + i] = fmaf(value[here + i], w[i], b[i])
        else:
            for i in range(vectors * PER):
                c = i * members + member
                if c < held:
                    w, b = to_float(weight[start + c]), to_float(bias[start + c])
                    value[base + i] = fmaf(value[base + i], w, b)

    @cuda.jit(device=True, forceinline=True)
    def scale_row(weight, start, held, member, is_aligned, value, base):
        if is_aligned:
            for v in range(vectors):
                at = (v * members + member) * PER
                if at < held:
                    w = load(weight, start + at)
                    here = base + v * PER
                    for i in range(PER):
                        value[here + i] *= w[i]
        else:
            for i in range(vectors * PER):
                c = i * members + member
                if c < held:
                    value[base + i] *= to_float(weight[start + c])

    return weigh_row, scale_row


@cache
def welford() -> tuple[Any, Any]:
    """Return ``include(count, mean, squares, value)`` and ``group_moments(threads)(..., scratch)``."""
    from numba import cuda, float32

    fdividef, fmaf = cuda.libdevice.fast_fdividef, cuda.libdevice.fmaf
    ZERO, ONE, ALL_LANES = float32(0), float32(1), twins.ALL_LANES  # noqa: N806

    @cuda.jit(device=True, forceinline=True)
    def include(count, mean, squares, value):
        count += ONE
        before = value - mean
        mean += fdividef(before, count)
        return count, mean, fmaf(before, value - mean, squares)

    @cuda.jit(device=True, forceinline=True)
    def merge(a, b, c, d, e, f):
        count, apart = a + d, e - b
        share = fdividef(d, count) if count > ZERO else ZERO
        return count, fmaf(apart, share, b), c + fmaf(apart * apart, a * share, f)

    @cuda.jit(device=True, forceinline=True)
    def over_warp(count, mean, squares):
        for step in (16, 8, 4, 2, 1):
            a = cuda.shfl_xor_sync(ALL_LANES, count, step)
            b = cuda.shfl_xor_sync(ALL_LANES, mean, step)
            c = cuda.shfl_xor_sync(ALL_LANES, squares, step)
            count, mean, squares = merge(count, mean, squares, a, b, c)
        return count, mean, squares

    @cache
    def group_moments(threads):
        WARPS = threads // 32  # noqa: N806

        @cuda.jit(device=True, forceinline=True)
        def over_block(count, mean, squares, scratch):
            count, mean, squares = over_warp(count, mean, squares)
            thread = cuda.threadIdx.x
            lane = thread % 32
            if lane == 0:
                scratch[thread // 32, 0] = count
                scratch[thread // 32, 1] = mean
                scratch[thread // 32, 2] = squares
            cuda.syncthreads()
            count, mean, squares = ZERO, ZERO, ZERO
            if lane < WARPS:
                count, mean, squares = scratch[lane, 0], scratch[lane, 1], scratch[lane, 2]
            count, mean, squares = over_warp(count, mean, squares)
            cuda.syncthreads()
            return count, mean, squares

        return over_block

    return include, group_moments
