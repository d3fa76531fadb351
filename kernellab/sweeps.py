"""Sweeps over sizes: from small to large, and no further once memory is short."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from kernellab.errors import OutOfMemoryError

Item = TypeVar("Item")
Found = TypeVar("Found")


def ascending(
    items: Iterable[Item], size: Callable[[Item], Any], attempt: Callable[[Item], Found], notes: list[str]
) -> dict[Item, Found]:
    """Attempt items from the smallest; the first for which memory does not suffice ends the sweep.

    Parameters
    ----------
    items : iterable
    size : callable
        ``size(item)``, by which they are ordered.
    attempt : callable
        ``attempt(item)``; only its `OutOfMemoryError` is caught.
    notes : list of str
        Gets why the larger ones were left out.

    Examples
    --------
    >>> ascending([3, 1, 2], abs, lambda n: n * n, [])
    {1: 1, 2: 4, 3: 9}
    """
    found: dict[Item, Found] = {}
    ordered = sorted(items, key=size)
    for item in ordered:
        try:
            found[item] = attempt(item)
        except OutOfMemoryError as error:
            left = len(ordered) - len(found)
            notes.append(f"left out: {left} of {len(ordered)} sizes, from {size(item)} on: {error}")
            break
    return found
