"""What decides how a Python function compiles: its code, its callees and the values it closes over."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from kernellab.compile import cache

_LARGE = 1 << 20
# Described by name: their versions are in the key already.
_LIBRARIES = frozenset({"numba", "numpy", "math", "operator", "llvmlite", "cmath"})


class UnstableError(Exception):
    """Some value in reach has no text that another process would write too."""


def fingerprint(function: Any) -> str:
    """Digest `function` with every function, constant and global value that its code names.

    Parameters
    ----------
    function : callable
        A Python function or a ``@cuda.jit`` dispatcher.

    Returns
    -------
    str
        The same in every process that runs the same code with the same values.

    Raises
    ------
    UnstableError
        A value in reach cannot be described; the caller compiles without the disk cache.
    """
    return cache.digest(*_describe(function, {}))


def _describe(value: Any, seen: dict[int, int]) -> Iterator[str | bytes]:
    if id(value) in seen:
        yield f"again {seen[id(value)]}"
        return
    if isinstance(
        value, (int, float, complex, str, bytes, bool, type(None), type(Ellipsis), np.generic, np.dtype)
    ):
        yield f"{type(value).__name__} {value!r}"
        return
    seen[id(value)] = len(seen)
    if isinstance(value, types.CodeType):
        yield from _describe_code(value, seen)
    elif isinstance(value, types.FunctionType):
        if (value.__module__ or "").split(".")[0] in _LIBRARIES:
            yield f"named {value.__module__}.{value.__qualname__}"
        else:
            yield from _describe_function(value, seen)
    elif hasattr(value, "py_func") and hasattr(value, "targetoptions"):
        options = {name: each for name, each in value.targetoptions.items() if name != "link"}
        yield f"jit {sorted(options.items(), key=str)!r}"
        yield from _describe(tuple(map(str, value.targetoptions.get("link") or ())), seen)
        yield from _describe(value.py_func, seen)
    elif isinstance(getattr(value, "_defn", None), types.FunctionType):
        yield f"intrinsic {value!r}"
        yield from _describe(value._defn, seen)
    elif isinstance(value, (tuple, list, set, frozenset, dict, slice)):
        yield from _describe_container(value, seen)
    elif isinstance(value, np.ndarray):
        yield f"array {value.dtype!r} {value.shape} {value.strides}"
        yield value.tobytes() if value.nbytes <= _LARGE else cache.digest(value.tobytes())
    else:
        yield _describe_named(value)


def _describe_container(value: Any, seen: dict[int, int]) -> Iterator[str | bytes]:
    if isinstance(value, slice):
        items: list[Any] = [value.start, value.stop, value.step]
    elif isinstance(value, dict):
        items = [each for pair in value.items() for each in pair]
    else:
        items = sorted(value, key=repr) if isinstance(value, (set, frozenset)) else list(value)
    yield f"{type(value).__name__} {getattr(type(value), '_fields', '')} of {len(items)}"
    for each in items:
        yield from _describe(each, seen)


def _describe_code(code: types.CodeType, seen: dict[int, int]) -> Iterator[str | bytes]:
    yield code.co_code
    yield code.co_linetable
    yield repr(
        (
            code.co_name,
            code.co_filename,
            code.co_firstlineno,
            code.co_names,
            code.co_varnames,
            code.co_freevars,
        )
    )
    yield from _describe(code.co_consts, seen)


def _describe_function(function: types.FunctionType, seen: dict[int, int]) -> Iterator[str | bytes]:
    yield f"function {function.__module__}.{function.__qualname__}"
    yield from _describe(function.__code__, seen)
    yield from _describe(function.__defaults__, seen)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield f"closure {name}"
        yield from _describe(_content(cell), seen)
    for name in sorted(_global_names(function.__code__)):
        if name in function.__globals__:
            yield f"global {name}"
            yield from _describe_global(function.__globals__[name], function.__code__, seen)


def _describe_global(value: Any, code: types.CodeType, seen: dict[int, int]) -> Iterator[str | bytes]:
    """A module is its name, plus those of the user's values and functions that the code may read from it."""
    yield from _describe(value, seen)
    if isinstance(value, types.ModuleType) and value.__name__.split(".")[0] not in _LIBRARIES:
        for name in sorted(_global_names(code)):
            attribute = vars(value).get(name)
            if attribute is not None and not isinstance(attribute, types.ModuleType):
                yield f"attribute {name}"
                yield from _describe(attribute, seen)


def _global_names(code: types.CodeType) -> set[str]:
    nested = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    return {*code.co_names, *(name for each in nested for name in _global_names(each))}


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _describe_named(value: Any) -> str:
    """Modules, classes, builtins, Numba types and stubs: their name is what they are."""
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__} {getattr(value, '__version__', '')}"
    if isinstance(value, (type, types.BuiltinFunctionType, np.ufunc)):
        return f"named {getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}"
    module = type(value).__module__.split(".")[0]
    text = repr(value)
    if module in ("numba", "enum") or (
        module != "builtins" and " at 0x" not in text and "object at" not in text
    ):
        if " at 0x" in text:
            raise UnstableError(f"a value of {type(value).__qualname__} has no stable description")
        return f"value {type(value).__module__}.{type(value).__qualname__} {text}"
    raise UnstableError(f"a value of {type(value).__qualname__} has no stable description")
