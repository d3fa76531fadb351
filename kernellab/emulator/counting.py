"""What one request of a warp costs: sectors, lines, wavefronts, bank conflicts.

Pure functions of addresses, active lanes and width, for many requests (rows) at once. They reproduce
what an H200 counted for one warp and one access (`tests/golden/h200_memory_access.csv`).

A row is one executed warp instruction. Most kernels repeat one pattern over and over, shifted, so every
public function first looks for that and then counts a single row; all others are sorted and counted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kernellab.emulator import counting_rows
from kernellab.emulator.counting_rows import LANES, LINE, WORD

Array = npt.NDArray[Any]


class Global(NamedTuple):
    """Counts of requests to global or local memory, each int64 of shape (R,).

    Attributes
    ----------
    sectors : ndarray
        32-byte sectors that the request moves.
    lines : ndarray
        128-byte lines, which is tag look-ups.
    ideal_sectors : ndarray
        Sectors if the same distinct bytes lay densely.
    """

    sectors: Array
    lines: Array
    ideal_sectors: Array


class Shared(NamedTuple):
    """Counts of requests to shared memory, each int64 of shape (R,).

    Attributes
    ----------
    wavefronts : ndarray
        Passes through the 32 banks.
    bank_conflicts : ndarray
        Passes beyond those that the width alone needs.
    """

    wavefronts: Array
    bank_conflicts: Array


class CasLoop(NamedTuple):
    """Counts of an atomic that is a loop of load and compare-and-swap, each int64 of shape (R,).

    Attributes
    ----------
    rounds : ndarray
        Rounds of the loop: requests of its load, and as many of its compare-and-swap.
    load_wavefronts, load_bank_conflicts : ndarray
        Of all its loads.
    wavefronts : ndarray
        Of all its compare-and-swaps; the hardware reports none of them as a conflict.
    """

    rounds: Array
    load_wavefronts: Array
    load_bank_conflicts: Array
    wavefronts: Array


def global_access(addresses: Array, mask: Array, width: int) -> Global:
    """Count loads from or stores to global memory.

    Parameters
    ----------
    addresses : ndarray of int64, shape (R, 32)
        Byte address of each lane, a multiple of `width`; lanes that are off may hold anything.
    mask : ndarray of bool, shape (R, 32)
        Lanes that are on. A row with none counts 0.
    width : int
        Bytes a lane: 1, 2, 4, 8 or 16.

    Returns
    -------
    Global
        Distinct sectors, distinct lines, ideal sectors of each row.

    Examples
    --------
    >>> addresses = 4 * np.arange(32)[None, :] + 4
    >>> global_access(addresses, np.ones((1, 32), bool), 4).sectors
    array([5])
    """
    return Global(*_by_pattern(counting_rows.global_rows, LINE, addresses, mask, width))


def global_atomic(addresses: Array, mask: Array, width: int) -> Global:
    """Count atomics and reductions on global memory.

    Lanes that meet on one address are served one after the other: a sector counts as often as its
    busiest address has lanes. Parameters and result are those of `global_access`.
    """
    return Global(*_by_pattern(counting_rows.global_atomic_rows, LINE, addresses, mask, width))


def local_access(addresses: Array, mask: Array, width: int) -> Global:
    """Count loads from or stores to local memory (spills, arrays indexed at run time).

    `addresses` are those that a lane sees. In memory the lanes of a warp interleave by 4-byte words: 32
    lanes at one local address touch one line, 4 sectors. Parameters and result are those of
    `global_access`.
    """
    return Global(*_by_pattern(counting_rows.local_rows, WORD, addresses, mask, width))


def local_requests(width: int) -> int:
    """Return how many requests one local access is: one for each 4-byte word."""
    return max(width // WORD, 1)


def shared_load(addresses: Array, mask: Array, width: int) -> Shared:
    """Count loads from shared memory.

    Up to 4 bytes a lane need one phase of 32 lanes, 8 bytes two half-warps, 16 bytes four quarters. A
    phase takes as many wavefronts as one bank has different words. Half-warps become one phase and
    quarters two if in every pair of lanes (i, i^1), or in every pair (i, i^2), both have the same
    address or one is off. Parameters are those of `global_access`.
    """
    return Shared(*_by_pattern(counting_rows.shared_load_rows, LINE, addresses, mask, width))


def shared_store(addresses: Array, mask: Array, width: int) -> Shared:
    """Count stores to shared memory: the phases of `shared_load`, never merged."""
    return Shared(*_by_pattern(counting_rows.shared_store_rows, LINE, addresses, mask, width))


def shared_atomic(addresses: Array, mask: Array, width: int, is_float_add: bool = False) -> Shared:
    """Count atomics and reductions on shared memory that are one instruction.

    Every lane of a bank takes a wavefront of its own, also at one address. A float add is a loop of
    load and compare-and-swap: twice the wavefronts, of which the hardware reports none as a conflict;
    `shared_cas_loop` counts its rounds and loads too. A counter that the hardware steps by the number of
    lanes (``ATOMS.POPC.INC``) costs what `shared_load` costs.
    """
    counts = _by_pattern(counting_rows.shared_atomic_rows, LINE, addresses, mask, width)
    if is_float_add:
        return Shared(2 * counts[0], np.zeros_like(counts[1]))
    return Shared(*counts)


def shared_cas(addresses: Array, mask: Array, width: int) -> Shared:
    """Count compare-and-swaps that the kernel asks for: `shared_atomic` with each wavefront twice."""
    counts = _by_pattern(counting_rows.shared_atomic_rows, LINE, addresses, mask, width)
    return Shared(2 * counts[0], counts[1])


def shared_cas_loop(addresses: Array, mask: Array, width: int) -> CasLoop:
    """Count an atomic on shared memory that became a loop: float adds, most 64-bit operations.

    In a round all lanes that are still waiting load, then of each bank the lowest of them succeeds (with 8
    bytes a lane: of each bank and half-warp, and not at an address that the other half just changed).
    Parameters are those of `global_access`.
    """
    return CasLoop(*_by_pattern(counting_rows.cas_loop_rows, LINE, addresses, mask, width))


def ldmatrix(addresses: Array, mask: Array, matrices: int) -> Shared:
    """Count `ldmatrix` and `stmatrix`: one phase per matrix, whose 8 rows of 16 bytes 8 lanes name.

    Parameters
    ----------
    addresses : ndarray of int64, shape (R, 32)
        Row addresses; lanes from 8 * `matrices` on are ignored.
    mask : ndarray of bool, shape (R, 32)
        Lanes that are on.
    matrices : int
        1, 2 or 4.

    Returns
    -------
    Shared
        Wavefronts and bank conflicts of each row.
    """
    return Shared(*_by_pattern(counting_rows.ldmatrix_rows, LINE, addresses, mask, matrices))


# One pattern, counted once ----------------------------------------------------------------------------

_Rows = Callable[[Array, Array, int], Array]


def _by_pattern(count: _Rows, period: int, addresses: Array, mask: Array, size: int) -> Array:
    """Return `count`'s (columns, R) counts, counting a pattern that all rows share only once.

    Counts do not change when a whole row moves by a multiple of `period`.
    """
    rows = len(addresses)
    if rows == 0:
        return count(np.zeros((1, LANES), np.int64), np.zeros((1, LANES), bool), size)[:, :0]
    is_full = np.count_nonzero(mask) == mask.size
    if not is_full and rows > 1 and not (mask == mask[0]).all():
        return _by_mask(count, period, addresses, mask, size)
    first = mask[0]
    if not is_full:
        lanes = np.flatnonzero(first)
        if len(lanes) == 0:
            return np.repeat(count(addresses[:1], mask[:1], size), rows, axis=1)
        addresses = np.ascontiguousarray(addresses[:, lanes])
    pattern = addresses[0]
    start = int(pattern[0]) // period * period
    key = first.tobytes()
    if rows == 1:
        return np.array(_one_row(count, (pattern - start).tobytes(), key, size)).reshape(-1, 1)
    if not _is_repeated(addresses):
        return _spread(count, addresses, mask, size)
    phases = (addresses[:, 0] - pattern[0]) & (period - 1)
    if not phases.any():
        one = _one_row(count, (pattern - start).tobytes(), key, size)
        return np.repeat(np.array(one).reshape(-1, 1), rows, axis=1)
    moved, which = np.unique(phases, return_inverse=True)
    return _spread(count, pattern + moved[:, None], mask[: len(moved)], size)[:, which]


def _is_repeated(addresses: Array) -> bool:
    """Say whether every row is row 0 moved as a whole; on flat views, which NumPy compares fastest."""
    lanes = addresses.shape[1]
    flat = addresses.reshape(-1)
    move = flat[lanes:] - flat[:-lanes]
    differs = move[1:] != move[:-1]
    return bool(np.count_nonzero(differs) == np.count_nonzero(differs[lanes - 1 :: lanes]))


def _by_mask(count: _Rows, period: int, addresses: Array, mask: Array, size: int) -> Array:
    """Count full rows, which mostly repeat one pattern, apart from the others."""
    is_full = mask.all(axis=1)
    full = np.flatnonzero(is_full)
    if len(full) < 2:
        return count(addresses, mask, size)
    rest = np.flatnonzero(~is_full)
    some = _by_pattern(count, period, addresses[full], mask[full], size)
    counts = np.empty((len(some), len(addresses)), np.int64)
    counts[:, full] = some
    counts[:, rest] = count(addresses[rest], mask[rest], size)
    return counts


def _spread(count: _Rows, addresses: Array, mask: Array, size: int) -> Array:
    """Count rows whose columns are the active lanes only (all have the mask of row 0)."""
    if addresses.shape[1] == LANES:
        return count(addresses, mask, size)
    whole = np.zeros((len(addresses), LANES), np.int64)
    whole[:, mask[0]] = addresses
    return count(whole, mask, size)


@lru_cache(maxsize=8192)
def _one_row(count: _Rows, pattern: bytes, mask: bytes, size: int) -> tuple[int, ...]:
    lanes = np.frombuffer(mask, bool)
    addresses = np.zeros((1, LANES), np.int64)
    addresses[0, lanes] = np.frombuffer(pattern, np.int64)
    return tuple(count(addresses, lanes[None, :], size)[:, 0].tolist())
