"""Lists of arrays under one name: how plans spell them, ``x[0]``, ``x[1]``, and how problems see them, tuples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any


def is_list(given: Any) -> bool:
    """Whether arrays were given and not one array."""
    return isinstance(given, list | tuple)


def base_name(name: str) -> str:
    """Return the operand that an array belongs to.

    Examples
    --------
    >>> base_name("x[3]"), base_name("x")
    ('x', 'x')
    """
    return name.partition("[")[0]


def flattened(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return arrays by names of their own.

    Examples
    --------
    >>> flattened({"x": (1, 2), "y": 3})
    {'x[0]': 1, 'x[1]': 2, 'y': 3}
    """
    flat: dict[str, Any] = {}
    for name, given in arrays.items():
        flat |= {f"{name}[{k}]": array for k, array in enumerate(given)} if is_list(given) else {name: given}
    return flat


def grouped(arrays: Mapping[str, Any], lists: Iterable[str] = ()) -> dict[str, Any]:
    """Return arrays by operand, those of a list as a tuple; `lists` are there also when they are empty.

    Examples
    --------
    >>> grouped({"x[0]": 1, "x[1]": 2, "y": 3}, lists=("z",))
    {'z': (), 'x': (1, 2), 'y': 3}
    """
    found: dict[str, Any] = dict.fromkeys(lists, ())
    for name, array in arrays.items():
        base = base_name(name)
        found[base] = (*found.get(base, ()), array) if base != name else array
    return found


def mapped(function: Callable[..., Any], first: Any, *others: Any) -> Any:
    """Return a function of arrays, or of each of the arrays that belong together.

    Examples
    --------
    >>> mapped(max, (1, 5), (2, 3)), mapped(max, 1, 2)
    ((2, 5), 2)
    """
    if not is_list(first):
        return function(first, *others)
    return tuple(function(*each) for each in zip(first, *others, strict=True))


def each_of(given: Any) -> tuple[Any, ...]:
    """Return the arrays of a list; one array as a list of itself."""
    return tuple(given) if is_list(given) else (given,)
