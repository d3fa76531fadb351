"""Warp-wide operations as pure functions of what each lane brings: shuffle, vote, match, reduce, elect."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator.lanes import WARP, Mask, pack, unpack

Array = npt.NDArray[Any]
_LANE = np.arange(WARP, dtype=np.int64)[None, :]


def shuffle(
    mode: str, values: Array, offset: Array, clamp: Array
) -> tuple[Array, Mask, npt.NDArray[np.int64]]:
    """Exchange values between lanes (PTX ``shfl``).

    Parameters
    ----------
    mode : str
        ``up``, ``down``, ``bfly`` or ``idx``.
    values : numpy.ndarray, shape (R, 32)
    offset : numpy.ndarray of int64, shape (R, 32)
        The b operand: lane offset, mask or index.
    clamp : numpy.ndarray of int64, shape (R, 32)
        The c operand: clamp in bits 0-4, segment mask in bits 8-12.

    Returns
    -------
    tuple
        Values; whether the source lane is inside the segment (not: whether it is active); the source lanes.
    """
    offset = offset & 31
    segment = (clamp >> 8) & 31
    lowest = _LANE & segment
    highest = lowest | (clamp & 31 & ~segment)
    if mode == "up":
        source = _LANE - offset
        is_inside = source >= highest
    else:
        if mode == "down":
            source = _LANE + offset
        elif mode == "bfly":
            source = _LANE ^ offset
        else:
            source = lowest | (offset & ~segment)
        is_inside = source <= highest
    source = np.where(is_inside, source, _LANE)
    return np.take_along_axis(values, source, axis=1), is_inside, source


def vote(mode: str, predicates: Mask, member_bits: Array) -> Array:
    """Vote over the members of each lane's mask (PTX ``vote``).

    `predicates` is false for lanes that are not there; `member_bits`, uint32 of shape (R, 32), holds each
    lane's member mask. Returns booleans for ``all``, ``any`` and ``uni``, uint32 for ``ballot``.
    """
    ballot = pack(predicates)[:, None] & member_bits
    if mode == "ballot":
        return ballot
    is_all: Array = ballot == member_bits
    is_none: Array = ballot == 0
    if mode == "any":
        return ~is_none
    return is_all if mode == "all" else is_all | is_none


def match(mode: str, values: Array, member_bits: Array) -> tuple[Array, Mask]:
    """Find the members that hold the same value (PTX ``match``); returns masks and, for ``all``, success."""
    is_equal = values[:, :, None] == values[:, None, :]
    rows = values.shape[0]
    equal_bits = pack(is_equal.reshape(-1, WARP)).reshape(rows, WARP) & member_bits
    if mode == "any":
        return equal_bits, equal_bits != 0
    is_all = equal_bits == member_bits
    return np.where(is_all, member_bits, 0).astype(np.uint32), is_all


def reduce(mode: str, values: Array, member_bits: Array) -> Array:
    """Reduce over the members of each lane's mask (PTX ``redux``); `values` carry the operation's dtype."""
    distinct, inverse = np.unique(member_bits, return_inverse=True)
    inverse = inverse.reshape(member_bits.shape)
    result = np.zeros_like(values)
    for i, bits in enumerate(distinct):
        if not bits:  # a lane that is off
            continue
        chosen = values[:, unpack(np.array([bits]))[0]]
        if mode == "add":
            total = chosen.sum(axis=1, dtype=values.dtype)
        elif mode in ("min", "max"):
            total = (chosen.min if mode == "min" else chosen.max)(axis=1)
        else:
            operation = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[mode]
            total = operation.reduce(chosen, axis=1)
        np.copyto(result, total[:, None], where=inverse == i)
    return result


def elect(member_bits: Array) -> tuple[Array, Mask]:
    """Choose the lowest member (PTX ``elect``): its lane number, and whether a lane is the one."""
    lowest = (member_bits & (~member_bits + np.uint32(1))).astype(np.float64)
    leader = np.log2(np.maximum(lowest, 1)).astype(np.uint32)
    return leader, leader == _LANE
