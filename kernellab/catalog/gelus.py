"""GeLU in its two forms: reference and twins' device functions.

The counterpart of ``kernels_cu/include/gelu.cuh``.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from kernellab.catalog import elements, row_twins, twins
from kernellab.errors import SpecError
from kernellab.problem import Array, Parameter

ERF, TANH = 0, 1
FORM = Parameter("form", "int32", TANH, minimum=ERF, maximum=TANH)
APPROXIMATE = {"none": ERF, "tanh": TANH}
"""The forms by the names that functions take."""


def form_of(who: str, approximate: str) -> int:
    """Return a form by its name.

    Raises
    ------
    SpecError
        For a name that is neither.
    """
    if approximate not in tuple(APPROXIMATE):  # which also takes what cannot be hashed
        known = " or ".join(repr(name) for name in APPROXIMATE)
        raise SpecError(f"{who}: approximate is {approximate!r}, it must be {known}; correct it")
    return APPROXIMATE[approximate]


SLOPE = 1.5957691216057308
_erfc = np.frompyfunc(math.erfc, 1, 1)


def gelu(x: Array, form: int) -> Array:
    """Return GeLU in float64: the form with erf (0) or the one with tanh (1).

    Minus infinity gives -0, infinity itself, NaN stays.

    Examples
    --------
    >>> gelu(np.array([-np.inf, 1.0]), ERF).round(6)
    array([-0.      ,  0.841345])
    """
    wide = np.maximum(x.astype(np.float64), -100.0)
    with np.errstate(all="ignore"):
        if form == ERF:
            return 0.5 * wide * np.asarray(_erfc(-wide / math.sqrt(2)), np.float64)
        result: Array = wide / (1 + np.exp(-SLOPE * (wide + 0.044715 * wide**3)))
    return result


@cache
def twin() -> Any:
    """Return the device function ``(x, form)``."""
    from numba import cuda, float32

    libdevice = cuda.libdevice
    fmaf, fmaxf, erfcf = libdevice.fmaf, libdevice.fmaxf, libdevice.erfcf
    power_of_two = twins.approximation("ex2.approx.ftz.f32")
    reciprocal = twins.approximation("rcp.approx.ftz.f32")
    FIRST = float32(-SLOPE * math.log2(math.e))  # noqa: N806
    CUBIC = float32(-SLOPE * math.log2(math.e) * 0.044715)  # noqa: N806
    ONE, HALF, ROOT = float32(1), float32(0.5), float32(-math.sqrt(0.5))  # noqa: N806
    LOW_TANH, LOW_ERF = float32(-100), float32(-20)  # noqa: N806

    @cuda.jit(device=True, forceinline=True)
    def gelu_either(x, form):
        if form != 0:
            exponent = x * fmaf(x * x, CUBIC, FIRST)
            return fmaxf(x, LOW_TANH) * reciprocal(ONE + power_of_two(exponent))
        low = LOW_ERF if x < LOW_ERF else x
        return HALF * low * erfcf(ROOT * low)

    return gelu_either


@cache
def in_place(count: int) -> Any:
    """Return ``(value, base, more)``, which applies GeLU of the form ``more[4]`` to so many values."""
    from numba import cuda

    gelu = twin()

    @cuda.jit(device=True, forceinline=True)
    def gelu_all(value, base, more):
        for i in range(base, base + count):
            value[i] = gelu(value[i], more[4])

    return gelu_all


def streaming(threads: int, element: str, name: str) -> Any:
    """Return the twin of a stage that applies GeLU to an array, a vector of 16 bytes a thread."""
    from numba import cuda, float32

    PER = elements.lanes(element)  # noqa: N806
    HELD = threads * PER  # noqa: N806
    read_flat, write_flat = row_twins.flat_access(element, threads)
    starts_at_vectors, gelu = row_twins.starts_at_vectors(element), twin()

    def stage(h, y, form):
        value = cuda.local.array(PER, float32)
        start, thread = cuda.blockIdx.x * HELD, cuda.threadIdx.x
        held = h.size - start if h.size - start < HELD else HELD
        is_aligned = starts_at_vectors(h, y, held)
        read_flat(h, start, held, thread, is_aligned, value)
        for i in range(PER):
            value[i] = gelu(value[i], form)
        write_flat(y, start, held, thread, is_aligned, value)

    return twins.renamed(stage, name)
