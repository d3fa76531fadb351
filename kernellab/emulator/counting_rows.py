"""The counting rules themselves, row by row, for any addresses; `counting` is what others call.

Every function takes addresses and masks of shape (R, 32) and returns its counts as int64 of shape
(columns, R).
"""

from __future__ import annotations

from typing import Any

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


def global_rows(addresses: Array, mask: Array, width: int) -> Array:
    """Return sectors, lines and ideal sectors."""
    return _of_sorted(_sorted(addresses, mask), width)


def _of_sorted(ordered: Array, width: int) -> Array:
    sectors = _distinct(ordered >> 5, _ABSENT >> 5)
    lines = _distinct(ordered >> 7, _ABSENT >> 7)
    return np.stack((sectors, lines, _ideal(_distinct(ordered), width)))


def _ideal(distinct: Array, width: int) -> Array:
    ideal: Array = -(-distinct * width // SECTOR)
    return ideal


def global_atomic_rows(addresses: Array, mask: Array, width: int) -> Array:
    """Return sectors, lines and ideal sectors; a sector counts once per lane on its busiest address."""
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


def local_rows(addresses: Array, mask: Array, width: int) -> Array:
    """Return sectors, lines and ideal sectors of lanes interleaved by words."""
    words = max(width // WORD, 1)
    word = addresses >> 2
    lines = _distinct(_sorted(word, mask)) * words
    sectors = _distinct(_sorted((word << 2) + (_LANES >> 3), mask)) * words
    return np.stack((sectors, lines, _ideal(np.count_nonzero(mask, axis=1), width)))


# Shared -----------------------------------------------------------------------------------------------


def shared_load_rows(addresses: Array, mask: Array, width: int) -> Array:
    """Return wavefronts and bank conflicts."""
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


def shared_store_rows(addresses: Array, mask: Array, width: int) -> Array:
    """Return wavefronts and bank conflicts."""
    width = max(width, WORD)
    return _phases(addresses, mask, width, LANES * WORD // width)


def ldmatrix_rows(addresses: Array, mask: Array, matrices: int) -> Array:
    """Return wavefronts and bank conflicts of `matrices` times 8 rows."""
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


def shared_atomic_rows(addresses: Array, mask: Array, width: int) -> Array:
    """Return wavefronts and bank conflicts."""
    unit = max(width, WORD)
    lanes = LANES * WORD // unit
    is_on = mask.reshape(-1, lanes)
    units = addresses.reshape(-1, lanes) >> (unit.bit_length() - 1)
    return _busiest(units, is_on, BANKS * WORD // unit, len(addresses), is_on)


def cas_loop_rows(addresses: Array, mask: Array, width: int) -> Array:
    """Return rounds, wavefronts and conflicts of the loads, wavefronts of the compare-and-swaps."""
    unit = max(width, WORD)
    lanes, groups = LANES * WORD // unit, BANKS * WORD // unit
    bank = (addresses >> (unit.bit_length() - 1)) & (groups - 1)
    bank = bank + (_LANES // lanes) * groups  # of a bank each half-warp serves one lane
    row = np.arange(len(addresses))
    waiting = mask.copy()
    counts = np.zeros((4, len(addresses)), np.int64)
    while waiting.any():
        counts[0] += waiting.any(axis=1)
        counts[1:3] += shared_load_rows(addresses, waiting, width)
        counts[3] += 2 * waiting.reshape(len(addresses), -1, lanes).any(axis=2).sum(axis=1)
        lowest = np.full((len(addresses), LANES + 1), LANES)
        slot = np.where(waiting, bank, LANES)
        for lane in range(LANES - 1, -1, -1):
            lowest[row, slot[:, lane]] = lane
        winners = waiting & (lowest[row[:, None], slot] == _LANES)
        for start in range(lanes, LANES, lanes):
            earlier = np.where(winners[:, :start], addresses[:, :start], _ABSENT)
            late = addresses[:, start : start + lanes, None] == earlier[:, None, :]
            winners[:, start : start + lanes] &= ~late.any(axis=2)
        waiting &= ~winners
    return counts
