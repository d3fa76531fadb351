"""Whether what a file held is of the types that the classes declare: a file may have been edited by hand."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


class _Names(dict[str, Any]):
    """Names as a module knows them; Any for what it imports for type checkers only."""

    def __init__(self, module: str) -> None:
        super().__init__()
        self._module = vars(sys.modules[module])

    def __missing__(self, name: str) -> Any:
        return self._module.get(name, getattr(builtins, name, Any))


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    return get_type_hints(kind, localns=_Names(kind.__module__))


def misfit(value: Any, hint: Any = Any, where: str = "") -> str:
    """Return which field holds what it is not declared to hold; an empty string if none does.

    Examples
    --------
    >>> from kernellab.report.table import Column, Table
    >>> misfit(Table("t", (Column("a"),), (("1",), ("2", 3))))
    'rows[1][1] is 3 and no str'
    """
    if is_dataclass(value):
        inside = ((getattr(value, each.name), each.name) for each in fields(value))
        kind: Any = type(value)
        known = _hints(kind)
        return _first((item, known[name], f"{where}.{name}".lstrip(".")) for item, name in inside)
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if kind is Any:
        return ""
    if kind in (Union, UnionType):
        # JSON has no infinity: a parameter that was one is None.
        is_fine = value is None or any(not misfit(value, part) for part in parts)
        return "" if is_fine else f"{where} is {value!r}"
    if kind is Literal:
        return "" if value in parts else f"{where} is {value!r} and none of {', '.join(map(str, parts))}"
    wanted = {float: (int, float), tuple: (tuple, list)}.get(kind, kind)
    if not isinstance(value, wanted) or (isinstance(value, bool) and kind is not bool):
        return f"{where} is {value!r} and no {kind.__name__}"
    if kind is tuple:
        each = parts[:1] * len(value) if parts[1:] == (...,) else parts
        if len(each) != len(value):
            return f"{where} holds {len(value)} and not {len(each)}"
        return _first(
            (item, part, f"{where}[{i}]") for i, (item, part) in enumerate(zip(value, each, strict=True))
        )
    if isinstance(value, Mapping) and parts:
        return _first((item, parts[1], f"{where}[{key!r}]") for key, item in value.items())
    return ""


def _first(items: Any) -> str:
    return next((found for each in items if (found := misfit(*each))), "")
