"""Norms: references, inputs and twins' device functions of the problems that normalise rows.

The counterpart of ``kernels_cu/include/norm.cuh``.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from kernellab.catalog import elements, row_twins, rows
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
def row_sums(element: str, members: int, vectors: int) -> tuple[Any, Any]:
    """Return ``sum_of(value, base)`` and ``deviations_of(value, base, held, member, is_aligned, mean)``."""
    from numba import cuda, float32

    PER = elements.lanes(element)  # noqa: N806
    ITEMS, ZERO = vectors * PER, float32(0)  # noqa: N806
    fmaf = cuda.libdevice.fmaf

    @cuda.jit(device=True, forceinline=True)
    def sum_of(value, base):
        total = ZERO
        for i in range(ITEMS):
            total += value[base + i]
        return total

    @cuda.jit(device=True, forceinline=True)
    def deviations_of(value, base, held, member, is_aligned, mean):
        lead = PER * member if is_aligned else member
        step = 1 if is_aligned else members
        first, second = ZERO, ZERO
        for i in range(ITEMS):
            if lead + i // PER * PER * members + i % PER * step < held:
                deviation = value[base + i] - mean
                first += deviation
                second = fmaf(deviation, deviation, second)
        return first, second

    return sum_of, deviations_of


@cache
def row_norm(element: str, members: int, vectors: int, is_sum: bool = False) -> Any:
    """Return ``norm_of(x, residual, r, value, base, within, end, member, is_aligned, eps, scratch, pairs)``.

    It gives (mean, scale, shift) of a row of which the group holds the first columns; where `is_sum`, the
    columns beyond those are sums of both arrays.
    """
    from numba import cuda, float32

    HELD = members * vectors * elements.lanes(element)  # noqa: N806
    sum_of, deviations_of = row_sums(element, members, vectors)
    group_sum, group_sums = row_twins.exchanges(members)["sum"], row_twins.exchanges(members)["sums"]
    make_norm, fdividef, fmaf = norm_from(), cuda.libdevice.fdiv_rn, cuda.libdevice.fmaf
    beyond = beyond_of(element, is_sum)

    @cuda.jit(device=True, forceinline=True)
    def norm_of(x, residual, r, value, base, within, end, member, is_aligned, eps, scratch, pairs):
        total = sum_of(value, base)
        for c in range(HELD + member, end, members):
            total += beyond(x, residual, r, c)
        mean = fdividef(group_sum(total, scratch), float32(end))
        first, second = deviations_of(value, base, within, member, is_aligned, mean)
        for c in range(HELD + member, end, members):
            deviation = beyond(x, residual, r, c) - mean
            first += deviation
            second = fmaf(deviation, deviation, second)
        first, second = group_sums(first, second, pairs)
        return make_norm(mean, first, second, end, eps)

    return norm_of


@cache
def beyond_of(element: str, is_sum: bool) -> Any:
    """Return ``(x, residual, r, c) -> float32``: an element of ``x``, or of the sum of both."""
    from numba import cuda

    to_float, _ = elements.conversions(element)

    @cuda.jit(device=True, forceinline=True)
    def single(x, residual, r, c):
        return to_float(x[r, c])

    @cuda.jit(device=True, forceinline=True)
    def double(x, residual, r, c):
        return to_float(x[r, c]) + to_float(residual[r, c])

    return double if is_sum else single


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
    ZERO, ONE, ALL_LANES = float32(0), float32(1), row_twins.ALL_LANES  # noqa: N806

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
