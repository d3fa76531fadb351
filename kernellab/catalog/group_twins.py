"""Groups for twins: exchanges within a warp, and between the warps of a block, as ``rows.cuh`` has them."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from kernellab.catalog.twins import ALL_LANES


@cache
def over_lanes(width: int) -> tuple[Any, Any]:
    """Return ``sum(value)`` and ``max(value)`` over so many neighbouring lanes, a power of two."""
    from numba import cuda

    STEPS = tuple(step for step in (16, 8, 4, 2, 1) if step < width)  # noqa: N806
    fmaxf = cuda.libdevice.fmaxf
    if not STEPS:  # one lane; Numba refuses a loop over an empty tuple

        @cuda.jit(device=True, forceinline=True)
        def alone(value):
            return value

        return alone, alone

    @cuda.jit(device=True, forceinline=True)
    def total(value):
        for step in STEPS:
            value += cuda.shfl_xor_sync(ALL_LANES, value, step)
        return value

    @cuda.jit(device=True, forceinline=True)
    def largest(value):
        for step in STEPS:
            value = fmaxf(value, cuda.shfl_xor_sync(ALL_LANES, value, step))
        return value

    return total, largest


def team(members: int) -> tuple[int, int, int]:
    """Return the lanes of a group's warp, its warps, and the lanes that cover them.

    Examples
    --------
    >>> team(8), team(96), team(1024)
    ((8, 1, 1), (32, 3, 4), (32, 32, 32))
    """
    warps = max(1, members // 32)
    return min(members, 32), warps, 1 << (warps - 1).bit_length()


@cache
def of_warps(members: int) -> tuple[Any, Any, Any]:
    """Return what gives lane i, i + WIDTH, ... what warp i has found: of one, two and three numbers.

    They are ``(value, none, scratch, turn)`` on numbers or tuples; ``scratch[turn]`` is shared memory for 32.
    """
    from numba import cuda

    _, WARPS, WIDTH = team(members)  # noqa: N806

    @cuda.jit(device=True, forceinline=True)
    def of_one(value, none, scratch, turn):
        thread = cuda.threadIdx.x
        if thread % 32 == 0:
            scratch[turn, thread // 32] = value
        cuda.syncthreads()
        value = none
        if thread % WIDTH < WARPS:
            value = scratch[turn, thread % WIDTH]
        return value

    @cuda.jit(device=True, forceinline=True)
    def of_two(value, none, scratch, turn):
        thread = cuda.threadIdx.x
        if thread % 32 == 0:
            scratch[turn, thread // 32, 0] = value[0]
            scratch[turn, thread // 32, 1] = value[1]
        cuda.syncthreads()
        a, b = none
        if thread % WIDTH < WARPS:
            a, b = scratch[turn, thread % WIDTH, 0], scratch[turn, thread % WIDTH, 1]
        return a, b

    @cuda.jit(device=True, forceinline=True)
    def of_three(value, none, scratch, turn):
        thread = cuda.threadIdx.x
        if thread % 32 == 0:
            scratch[turn, thread // 32, 0] = value[0]
            scratch[turn, thread // 32, 1] = value[1]
            scratch[turn, thread // 32, 2] = value[2]
        cuda.syncthreads()
        a, b, c = none
        if thread % WIDTH < WARPS:
            at = thread % WIDTH
            a, b, c = scratch[turn, at, 0], scratch[turn, at, 1], scratch[turn, at, 2]
        return a, b, c

    return of_one, of_two, of_three


@cache
def exchanges(members: int) -> dict[str, Any]:
    """Return device functions that merge a value over a block of so many threads, as ``rows.cuh`` does.

    Parameters
    ----------
    members : int
        Whole warps. ``scratch`` is shared memory for 32 values, (1, 32) or (1, 32, 2) float32.

    Returns
    -------
    dict of str to device function
        ``sum(value, scratch)``, ``max(value, scratch)`` and ``sums(first, second, scratch)``.
    """
    from numba import cuda, float32

    ZERO, LOWEST = float32(0), float32(-np.inf)  # noqa: N806
    lanes, _, width = team(members)
    IS_BLOCK = members > 32  # noqa: N806
    (warp_sum, warp_max), (last_sum, last_max) = over_lanes(lanes), over_lanes(width)
    of_one, of_two, _ = of_warps(members)

    @cuda.jit(device=True, forceinline=True)
    def group_sum(value, scratch):
        value = warp_sum(value)
        if IS_BLOCK:
            value = last_sum(of_one(value, ZERO, scratch, 0))
            cuda.syncthreads()
        return value

    @cuda.jit(device=True, forceinline=True)
    def group_max(value, scratch):
        value = warp_max(value)
        if IS_BLOCK:
            value = last_max(of_one(value, LOWEST, scratch, 0))
            cuda.syncthreads()
        return value

    @cuda.jit(device=True, forceinline=True)
    def group_sums(first, second, scratch):
        first, second = warp_sum(first), warp_sum(second)
        if IS_BLOCK:
            first, second = of_two((first, second), (ZERO, ZERO), scratch, 0)
            first, second = last_sum(first), last_sum(second)
            cuda.syncthreads()
        return first, second

    return {"sum": group_sum, "max": group_max, "sums": group_sums}
