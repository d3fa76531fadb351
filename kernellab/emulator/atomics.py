"""Atomic read-modify-write on arrays: lanes apply one after the other, in lane order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_DTYPES: dict[str, Any] = {
    "u32": np.uint32, "s32": np.int32, "b32": np.uint32, "u64": np.uint64, "s64": np.int64, "b64": np.uint64,
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "b16": np.uint16,
    "u16": np.uint16,
}  # fmt: skip


def dtype_of(kind: str) -> np.dtype[Any]:
    """Return the dtype in which an atomic of a PTX type computes (packed f16x2 is two elements of f16)."""
    found: np.dtype[Any] = np.dtype(_DTYPES[kind.removesuffix("x2")])
    return found


def _increment(old: Array, limit: Array) -> Array:
    return np.where(old >= limit, 0, old + 1).astype(old.dtype)


def _decrement(old: Array, limit: Array) -> Array:
    return np.where((old == 0) | (old > limit), limit, old - 1).astype(old.dtype)


OPERATIONS: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "min": np.fmin,
    "max": np.fmax,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exch": lambda old, new: new,
    "inc": _increment,
    "dec": _decrement,
}
_ORDER_FREE = {"min", "max", "and", "or", "xor"}


def combine(name: str, elements: Array, indexes: Array, operands: Array, wants_old: bool) -> Array:
    """Apply an atomic to `elements[indexes]`, lane after lane.

    Parameters
    ----------
    name : str
        ``add``, ``min``, ``max``, ``and``, ``or``, ``xor``, ``exch``, ``inc`` or ``dec``.
    elements : numpy.ndarray
        Memory, of the dtype in which the operation computes; changed in place.
    indexes, operands : numpy.ndarray, shape (n,)
        One entry a lane.
    wants_old : bool
        False for ``red``: the returned values are then of no meaning.

    Returns
    -------
    numpy.ndarray, shape (n,)
        What each lane found.
    """
    operation = OPERATIONS[name]
    is_float = elements.dtype.kind not in "iu"
    if not wants_old and isinstance(operation, np.ufunc) and elements.dtype.isbuiltin == 1:
        operation.at(elements, indexes, operands)
        return operands
    order = np.argsort(indexes, kind="stable")
    ordered = indexes[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    if starts.size == indexes.size:  # every address once
        old = elements[indexes]
        elements[indexes] = operation(old, operands)
        return old
    if name == "add" and not is_float:
        sums = np.cumsum(operands[order], dtype=elements.dtype)
        before = sums - operands[order]
        group = np.repeat(np.arange(starts.size), np.diff(np.append(starts, indexes.size)))
        old_ordered = elements[ordered] + (before - before[starts][group])
        np.add.at(elements, indexes, operands)
        old = np.empty_like(old_ordered)
        old[order] = old_ordered
        return old
    is_exact = elements.dtype.isbuiltin == 1 and isinstance(operation, np.ufunc)
    if starts.size * 4 < indexes.size and (is_exact or name == "exch"):
        return _by_address(operation, elements, ordered, operands, order, starts)
    return _by_rank(operation, elements, ordered, operands, order, starts)


def _by_address(
    operation: Callable[[Array, Array], Array], elements: Array, ordered: Array, operands: Array,
    order: Array, starts: Array,
) -> Array:  # fmt: skip
    """Serve all lanes of the first address, then those of the second, and so on."""
    old = np.empty(ordered.size, elements.dtype)
    stops = np.append(starts[1:], ordered.size)
    for start, stop in zip(starts, stops, strict=True):
        lanes, where = order[start:stop], ordered[start]
        values = np.concatenate((elements[where : where + 1], operands[lanes]))
        if isinstance(operation, np.ufunc):
            values = operation.accumulate(values, dtype=elements.dtype)
        old[lanes] = values[:-1]
        elements[where] = values[-1]
    return old


def _ranks(ordered: Array, starts: Array) -> list[Array]:
    """Return the positions of the first lane of every address, of the second, and so on."""
    rank = np.arange(ordered.size) - np.repeat(starts, np.diff(np.append(starts, ordered.size)))
    by_rank = np.argsort(rank, kind="stable")
    return np.split(by_rank, np.cumsum(np.bincount(rank))[:-1])


def _by_rank(
    operation: Callable[[Array, Array], Array], elements: Array, ordered: Array, operands: Array,
    order: Array, starts: Array,
) -> Array:  # fmt: skip
    """Serve the first lane of every address, then the second, and so on."""
    old = np.empty(ordered.size, elements.dtype)
    for chosen in _ranks(ordered, starts):
        lanes, where = order[chosen], ordered[chosen]
        old[lanes] = elements[where]
        elements[where] = operation(elements[where], operands[lanes])
    return old


def compare_and_swap(elements: Array, indexes: Array, compares: Array, news: Array) -> Array:
    """Apply compare-and-swap lane after lane; return what each lane found."""
    order = np.argsort(indexes, kind="stable")
    ordered = indexes[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    old = np.empty(indexes.size, elements.dtype)
    if starts.size * 16 < indexes.size:  # a crowded address: plain Python is faster
        found = dict(zip(ordered[starts].tolist(), elements[ordered[starts]].tolist(), strict=True))
        each = zip(indexes.tolist(), compares.tolist(), news.tolist(), strict=True)
        for lane, (address, compare, new) in enumerate(each):
            old[lane] = before = found[address]
            if before == compare:
                found[address] = new
        elements[list(found)] = list(found.values())
        return old
    for chosen in _ranks(ordered, starts):
        lanes, where = order[chosen], ordered[chosen]
        value = elements[where]
        old[lanes] = value
        elements[where] = np.where(value == compares[lanes], news[lanes], value)
    return old
