"""Gradient twins: what the Numba twins of unscale, global_norm and adamw share; see ``gradients.cuh``."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
# ruff: noqa: N806

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np


@cache
def scaling() -> tuple[Any, Any]:
    """Return ``factor_of(inv_scale, norm, max_norm)`` and ``is_finite(value)``."""
    from numba import cuda, float32

    divide, magnitude = cuda.libdevice.fast_fdividef, cuda.libdevice.fabsf
    ONE, TINY, LARGEST = float32(1), float32(1e-6), float32(np.finfo(np.float32).max)

    @cuda.jit(device=True)
    def factor_of(inv_scale, norm, max_norm):
        share = divide(max_norm, norm * inv_scale + TINY)
        return inv_scale * (ONE if share >= ONE else share)

    @cuda.jit(device=True)
    def is_finite(value):
        return magnitude(value) <= LARGEST

    return factor_of, is_finite


@cache
def stepping() -> tuple[Any, Any]:
    """Return ``prepare(factor, lr, rate1, rate2, eps, weight_decay, step, skipped)`` and ``update(shared, p, g, m, v)``."""
    from numba import cuda, float32, int32

    libdevice = cuda.libdevice
    divide, root, rsqrt = libdevice.fast_fdividef, libdevice.fsqrt_rn, libdevice.rsqrtf
    expm1, log1p = libdevice.expm1f, libdevice.log1pf

    @cuda.jit(device=True)
    def correction(rate, step):
        return -expm1(float32(step) * log1p(-rate))

    @cuda.jit(device=True)
    def prepare(factor, lr, rate1, rate2, eps, weight_decay, step, skipped):
        step = max(step - skipped, int32(1))
        pace = divide(lr, correction(rate1, step))
        return factor, lr * weight_decay, rate1, rate2, pace, rsqrt(correction(rate2, step)), eps

    @cuda.jit(device=True)
    def update(shared, param, grad, mean, square):
        factor, shrink, rate1, rate2, pace, spread, eps = shared
        grad = grad * factor
        mean = mean - rate1 * mean + rate1 * grad
        square = square - rate2 * square + rate2 * grad * grad
        param = param - shrink * param
        return param - pace * divide(mean, root(square) * spread + eps), mean, square

    return prepare, update
