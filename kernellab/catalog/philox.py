"""Philox 4x32-10 and dropout by it: the same bits in NumPy, in CUDA C and in Numba.

The counterpart of ``kernels_cu/include/philox.cuh``.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from kernellab.catalog import elements
from kernellab.problem import Array, Parameter

P = Parameter("p", "float32", 0.1, minimum=0, maximum=1)
SEED = Parameter("seed", "uint64", 0, minimum=0)
MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
STEPS = 0x9E3779B9, 0xBB67AE85
ROUNDS = 10


def philox(counters: npt.NDArray[np.uint64], seed: int) -> npt.NDArray[np.uint32]:
    """Return four 32-bit words for each 64-bit counter.

    Parameters
    ----------
    counters : numpy.ndarray of uint64
        Of shape (n,); the upper half of Philox's counter of 128 bits is 0.
    seed : int
        The key, 64 bits.

    Returns
    -------
    numpy.ndarray of uint32
        Of shape (n, 4).

    Examples
    --------
    >>> [hex(word) for word in philox(np.array([0], np.uint64), 0)[0]]
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x, y = counters & low, counters >> half
    z, w = np.zeros_like(counters), np.zeros_like(counters)
    keys = [int(seed) & 0xFFFFFFFF, int(seed) >> 32 & 0xFFFFFFFF]
    for _ in range(ROUNDS):
        left, right = x * np.uint64(MULTIPLIERS[0]), z * np.uint64(MULTIPLIERS[1])
        x, y, z, w = (
            (right >> half) ^ y ^ np.uint64(keys[0]),
            right & low,
            (left >> half) ^ w ^ np.uint64(keys[1]),
            left & low,
        )
        keys = [key + step & 0xFFFFFFFF for key, step in zip(keys, STEPS, strict=True)]
    return np.stack([x, y, z, w], axis=1).astype(np.uint32)


def kept(count: int, p: float, seed: int, like: Any = None) -> npt.NDArray[np.bool_]:
    """Return which of the first `count` elements dropout keeps.

    Element ``i`` has the 16 bits number ``i % 8`` of counter ``i // 8``; it is dropped where they are under
    ``round(65536 * p)``. They are where `like` is: on a GPU for a CuPy array.

    Examples
    --------
    >>> kept(10, 0.5, seed=1).tolist()
    [False, True, False, True, False, True, True, True, False, True]
    """
    words = philox(np.arange(-(-count // 8), dtype=np.uint64, like=like), seed)
    sixteen = np.stack([words & np.uint32(0xFFFF), words >> np.uint32(16)], axis=2).reshape(-1)[:count]
    result: npt.NDArray[np.bool_] = sixteen >= np.rint(np.float32(p) * np.float32(65536))
    return result


def dropped(x: Array, p: float, seed: int) -> Array:
    """Return ``x`` in float64 with what dropout drops as 0 and the rest over ``1 - p``."""
    keep = kept(x.size, float(p), int(seed), like=x).reshape(x.shape)
    scale = 1 / (1 - float(p)) if p < 1 else 0.0
    result: Array = np.where(keep, x.astype(np.float64) * scale, 0.0)
    return result


@cache
def twin() -> tuple[Any, Any, Any]:
    """Return ``limits(p)``, ``words(counter, seed)`` and ``drop(value, words, i, limits)``.

    ``limits`` gives (threshold, scale); ``drop`` decides by the 16 bits number ``i % 8``.
    """
    from numba import cuda, float32, uint32, uint64

    rintf, reciprocal = cuda.libdevice.rintf, cuda.libdevice.frcp_rn
    LEFT, RIGHT = uint64(MULTIPLIERS[0]), uint64(MULTIPLIERS[1])  # noqa: N806
    FIRST, SECOND = uint32(STEPS[0]), uint32(STEPS[1])  # noqa: N806
    HALF, ONE, ZERO, FULL = uint64(32), float32(1), float32(0), float32(65536)  # noqa: N806
    SIXTEEN, LOW, NONE = uint32(16), uint32(0xFFFF), uint32(0)  # noqa: N806

    @cuda.jit(device=True, forceinline=True)
    def limits(p):
        return uint32(rintf(p * FULL)), reciprocal(ONE - p) if p < ONE else ZERO

    @cuda.jit(device=True, forceinline=True)
    def words(counter, seed):
        x, y, z, w = uint32(counter), uint32(counter >> HALF), NONE, NONE
        a, b = uint32(seed), uint32(seed >> HALF)
        for _ in range(ROUNDS):
            left, right = LEFT * uint64(x), RIGHT * uint64(z)
            x, y, z, w = (
                uint32(right >> HALF) ^ y ^ a,
                uint32(right),
                uint32(left >> HALF) ^ w ^ b,
                uint32(left),
            )
            a, b = uint32(a + FIRST), uint32(b + SECOND)
        return x, y, z, w

    @cuda.jit(device=True, forceinline=True)
    def drop(value, bits, i, limit):
        low = bits[1] if i & 2 else bits[0]
        high = bits[3] if i & 2 else bits[2]
        word = high if i & 4 else low
        own = word >> SIXTEEN if i & 1 else word & LOW
        return ZERO if own < limit[0] else value

    return limits, words, drop


@cache
def row_dropped(element: str, members: int, vectors: int) -> tuple[Any, Any]:
    """Return what drops of a row in registers, and of one element.

    They are ``drop_row(limits, seed, first, member, is_aligned, value, base)`` and
    ``drop_at(limits, seed, value, i)``.
    ``first`` is the number of the row's first element in the whole array.
    """
    from numba import cuda, uint64

    PER = elements.lanes(element)  # noqa: N806
    EIGHT, FOUR = uint64(8), uint64(4)  # noqa: N806
    _, words, drop = twin()

    @cuda.jit(device=True, forceinline=True)
    def drop_at(limit, seed, value, i):
        place = uint64(i)
        return drop(value, words(place // EIGHT, seed), int(place % EIGHT), limit)

    @cuda.jit(device=True, forceinline=True)
    def drop_row(limit, seed, first, member, is_aligned, value, base):
        if is_aligned:
            for v in range(vectors):
                start = uint64(first + (v * members + member) * PER)
                bits = words(start // EIGHT, seed)
                half = int(start & FOUR) if PER == 4 else 0
                for i in range(PER):
                    value[base + v * PER + i] = drop(value[base + v * PER + i], bits, half + i, limit)
        else:
            for i in range(vectors * PER):
                value[base + i] = drop_at(limit, seed, value[base + i], first + i * members + member)

    return drop_row, drop_at
