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

Array = npt.NDArray[Any]

LANES = 32
SECTOR = 32
"""Bytes of a sector: what L1 and L2 exchange."""
LINE = 128
"""Bytes of a cache line: what has one tag; also one row of all 32 banks."""
BANKS = 32
WORD = 4
"""Bytes of a bank's word."""

_LANES = np.arange(LANES, dtype=np.int64)
_ABSENT = np.int64(2**62)  # sorts behind every address


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
    return Global(*_by_pattern(_global_rows, LINE, addresses, mask, width))


def global_atomic(addresses: Array, mask: Array, width: int) -> Global:
    """Count atomics and reductions on global memory.

    Lanes that meet on one address are served one after the other: a sector counts as often as its
    busiest address has lanes. Parameters and result are those of `global_access`.
    """
    return Global(*_by_pattern(_global_atomic_rows, LINE, addresses, mask, width))


def local_access(addresses: Array, mask: Array, width: int) -> Global:
    """Count loads from or stores to local memory (spills, arrays indexed at run time).

    `addresses` are those that a lane sees. In memory the lanes of a warp interleave by 4-byte words: 32
    lanes at one local address touch one line, 4 sectors. Parameters and result are those of
    `global_access`.
    """
    return Global(*_by_pattern(_local_rows, WORD, addresses, mask, width))


def shared_load(addresses: Array, mask: Array, width: int) -> Shared:
    """Count loads from shared memory.

    Up to 4 bytes a lane need one phase of 32 lanes, 8 bytes two half-warps, 16 bytes four quarters. A
    phase takes as many wavefronts as one bank has different words. Half-warps become one phase and
    quarters two if in every pair of lanes (i, i^1), or in every pair (i, i^2), both have the same
    address or one is off. Parameters are those of `global_access`.
    """
    return Shared(*_by_pattern(_shared_load_rows, LINE, addresses, mask, width))


def shared_store(addresses: Array, mask: Array, width: int) -> Shared:
    """Count stores to shared memory: the phases of `shared_load`, never merged."""
    return Shared(*_by_pattern(_shared_store_rows, LINE, addresses, mask, width))


def shared_atomic(addresses: Array, mask: Array, width: int, is_float_add: bool = False) -> Shared:
    """Count atomics and reductions on shared memory.

    Every lane of a bank takes a wavefront of its own, also at one address. A float add is a loop of
    load and compare-and-swap: twice the wavefronts, of which the hardware reports none as a conflict.
    """
    counts = _by_pattern(_shared_atomic_rows, LINE, addresses, mask, width)
    if is_float_add:
        return Shared(2 * counts[0], np.zeros_like(counts[1]))
    return Shared(*counts)


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
    return Shared(*_by_pattern(_ldmatrix_rows, LINE, addresses, mask, matrices))


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


# Global and local -------------------------------------------------------------------------------------


def _sorted(keys: Array, mask: Array) -> Array:
    """Sort each row, lanes that are off last as `_ABSENT`."""
    if np.count_nonzero(mask) != mask.size:
        keys = np.where(mask, keys, _ABSENT)
    if (keys[:, 1:] >= keys[:, :-1]).all():
        return keys
    return np.sort(keys, axis=1)


def _distinct(ordered: Array, absent: np.int64 = _ABSENT) -> Array:
    """Count the distinct present keys of each sorted row."""
    is_new = ordered[:, 1:] != ordered[:, :-1]
    counts: Array = np.count_nonzero(is_new, axis=1) + 1
    counts -= ordered[:, -1] == absent
    return counts


def _global_rows(addresses: Array, mask: Array, width: int) -> Array:
    return _of_sorted(_sorted(addresses, mask), width)


def _of_sorted(ordered: Array, width: int) -> Array:
    # _ABSENT, shifted, is still larger than any other key and divisible: compare in units
    sectors = _distinct(ordered >> 5, _ABSENT >> 5)
    lines = _distinct(ordered >> 7, _ABSENT >> 7)
    return np.stack((sectors, lines, _ideal(_distinct(ordered), width)))


def _ideal(distinct: Array, width: int) -> Array:
    ideal: Array = -(-distinct * width // SECTOR)
    return ideal


def _global_atomic_rows(addresses: Array, mask: Array, width: int) -> Array:
    ordered = _sorted(addresses, mask)
    counts = _of_sorted(ordered, width)
    is_first = np.ones(ordered.shape, bool)
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=is_first[:, 1:])
    starts = np.flatnonzero(is_first)  # runs of one address; none spans two rows
    lanes = np.full(len(starts), ordered.size) - starts
    lanes[:-1] -= lanes[1:]
    lanes[ordered.ravel()[starts] == _ABSENT] = 0
    crowded = np.flatnonzero(lanes > 1)
    if len(crowded):
        starts, lanes = starts[crowded], lanes[crowded]
        row, sector = starts >> 5, ordered.ravel()[starts] >> 5
        opens = np.ones(len(starts), bool)
        opens[1:] = (sector[1:] != sector[:-1]) | (row[1:] != row[:-1])
        groups = np.flatnonzero(opens)
        waits = np.maximum.reduceat(lanes, groups) - 1
        counts[0] += np.bincount(row[groups], weights=waits, minlength=len(ordered)).astype(np.int64)
    return counts


def _local_rows(addresses: Array, mask: Array, width: int) -> Array:
    words = max(width // WORD, 1)
    word = addresses >> 2
    lines = _distinct(_sorted(word, mask)) * words
    sectors = _distinct(_sorted((word << 2) + (_LANES >> 3), mask)) * words
    return np.stack((sectors, lines, _ideal(np.count_nonzero(mask, axis=1), width)))


# Shared -----------------------------------------------------------------------------------------------


def _shared_load_rows(addresses: Array, mask: Array, width: int) -> Array:
    if width <= WORD:
        return _phases(addresses, mask, WORD, LANES)
    lanes = LANES * WORD // width
    merges = _pairs(addresses, mask, 1) | _pairs(addresses, mask, 2)
    if not merges.any():
        return _phases(addresses, mask, width, lanes)
    if merges.all():
        return _phases(addresses, mask, width, 2 * lanes)
    counts = np.empty((2, len(addresses)), np.int64)
    counts[:, merges] = _phases(addresses[merges], mask[merges], width, 2 * lanes)
    counts[:, ~merges] = _phases(addresses[~merges], mask[~merges], width, lanes)
    return counts


def _pairs(addresses: Array, mask: Array, distance: int) -> Array:
    """Return for each row whether lanes i and i ^ distance share an address or one of them is off."""
    by_pair = (len(addresses), LANES // (2 * distance), 2, distance)
    address, is_on = addresses.reshape(by_pair), mask.reshape(by_pair)
    fits = (address[:, :, 0] == address[:, :, 1]) | ~(is_on[:, :, 0] & is_on[:, :, 1])
    joined: Array = fits.reshape(len(addresses), -1).all(axis=1)
    return joined


def _shared_store_rows(addresses: Array, mask: Array, width: int) -> Array:
    width = max(width, WORD)
    return _phases(addresses, mask, width, LANES * WORD // width)


def _ldmatrix_rows(addresses: Array, mask: Array, matrices: int) -> Array:
    rows = 8 * matrices
    return _phases(addresses[:, :rows], mask[:, :rows], 16, 8)


def _phases(addresses: Array, mask: Array, unit: int, lanes: int) -> Array:
    """Sum over phases of `lanes` lanes the most different units of `unit` bytes in one bank group."""
    rows = len(addresses)
    groups = BANKS * WORD // unit
    units = addresses.reshape(-1, lanes) >> (unit.bit_length() - 1)
    is_on = mask.reshape(-1, lanes)
    ordered = _sorted(units, is_on)
    is_new = ordered < _ABSENT
    is_new[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    return _busiest(ordered, is_new, groups, rows, is_on)


def _busiest(units: Array, is_counted: Array, groups: int, rows: int, is_on: Array) -> Array:
    """Return wavefronts and conflicts: per phase the most counted units in one of `groups` bank groups."""
    phases = len(units)
    bank = (units & (groups - 1)) + np.arange(phases)[:, None] * groups
    load = np.bincount(bank[is_counted], minlength=phases * groups).reshape(phases, groups)
    wavefronts = load.max(axis=1, initial=0).reshape(rows, -1).sum(axis=1)
    needed = is_on.any(axis=1).reshape(rows, -1).sum(axis=1)
    return np.stack((wavefronts, wavefronts - needed)).astype(np.int64)


def _shared_atomic_rows(addresses: Array, mask: Array, width: int) -> Array:
    unit = max(width, WORD)
    lanes = LANES * WORD // unit
    is_on = mask.reshape(-1, lanes)
    units = addresses.reshape(-1, lanes) >> (unit.bit_length() - 1)
    return _busiest(units, is_on, BANKS * WORD // unit, len(addresses), is_on)
