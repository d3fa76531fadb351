"""Arguments of a traced kernel as text: ``f32[1048576]:random``, ``x.npy``, ``i32=1048576``."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernellab.errors import SpecError

DTYPES = (
    "f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool",
)  # fmt: skip
FILLS = ("zeros", "ones", "arange", "random")
RANDOM_BELOW = 100
"""Random integers lie in [0, RANDOM_BELOW)."""

_ARRAY = re.compile(r"(?P<dtype>\w+)\[(?P<shape>[\d\s,x*]*)\](?::(?P<fill>.+))?")
_SCALAR = re.compile(r"(?P<dtype>\w+)=(?P<value>.+)")
FORMS = "f32[1048576]:random, f32[64,64], i32[100]:indices.npy, values.npy, i32=1048576, null"


def dtype_of(name: str, text: str) -> np.dtype[Any]:
    """Return the dtype that a short name stands for.

    Examples
    --------
    >>> dtype_of("u8", "u8[4]")
    dtype('uint8')
    """
    if name == "bf16":
        import ml_dtypes

        half: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return half
    if name not in DTYPES:
        close = difflib.get_close_matches(name, DTYPES, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(DTYPES)}"
        raise SpecError(f"--arg {text}: {name!r} is no type; {hint}")
    kinds = {"f": "float", "i": "int", "u": "uint"}
    found: np.dtype[Any] = np.dtype("bool" if name == "bool" else f"{kinds[name[0]]}{name[1:]}")
    return found


def parse_argument(text: str, seed: int = 0) -> Any:
    """Return the value that ``--arg`` stands for.

    Parameters
    ----------
    text : str
        One of the forms above.
    seed : int
        Of ``random``.

    Returns
    -------
    numpy.ndarray, NumPy scalar, or None for ``null``

    Raises
    ------
    SpecError
        For anything else, and a value that does not fit.

    Examples
    --------
    >>> parse_argument("f32[2,3]:ones").shape, parse_argument("u8=255"), parse_argument("null")
    ((2, 3), np.uint8(255), None)
    """
    text = text.strip()
    if text in ("null", "none", "None"):
        return None
    if array := _ARRAY.fullmatch(text):
        return _array(array["dtype"], array["shape"], array["fill"] or "zeros", text, seed)
    if text.endswith(".npy"):
        return load_array(text)
    if scalar := _SCALAR.fullmatch(text):
        return _scalar(dtype_of(scalar["dtype"], text), scalar["value"], text)
    raise SpecError(f"--arg {text}: it is none of the forms {FORMS}; write one of these")


def files_of(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the ``.npy`` files that arguments, or values of variables, are read from.

    Examples
    --------
    >>> files_of(["x.npy", "i32[8]:y.npy", "weights=z.npy", "f32[8]:ones"])
    ('x.npy', 'y.npy', 'z.npy')
    """
    found = []
    for text in texts:
        array = _ARRAY.fullmatch(text.strip())
        name = array["fill"] or "" if array else re.sub(r"^\w+=(\w+\[[^\]]*\]:)?", "", text.strip())
        found.append(name)
    return tuple(name for name in found if name.endswith(".npy"))


def load_array(path: str) -> npt.NDArray[Any]:
    """Return the array of a ``.npy`` file, C-contiguous."""
    try:
        loaded = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        reason = getattr(error, "strerror", None) or "it does not hold one plain array"
        raise SpecError(
            f"{path}: it is no .npy file that can be read: {reason}; write one with numpy.save"
        ) from error
    if not isinstance(loaded, np.ndarray):
        raise SpecError(f"{path}: it holds several arrays; save the one that is meant with numpy.save")
    return np.array(loaded, order="C")


def _array(name: str, shape_text: str, fill: str, text: str, seed: int) -> npt.NDArray[Any]:
    dtype = dtype_of(name, text)
    sides = [side for side in re.split(r"[,x*\s]+", shape_text.strip()) if side]
    shape = tuple(map(int, sides))
    if not shape:
        raise SpecError(f"--arg {text}: the array has no length; write {name}[1024]")
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes > 2**34:
        raise SpecError(f"--arg {text}: that is {nbytes} bytes, the limit is {2**34}; lower the length")
    if fill.endswith(".npy"):
        loaded = load_array(fill)
        if loaded.dtype != dtype or loaded.size != math.prod(shape):
            raise SpecError(
                f"--arg {text}: {fill} holds {loaded.dtype}{list(loaded.shape)}; write its own type "
                "and shape, or the file alone"
            )
        return loaded.reshape(shape)
    return _filled(shape, dtype, fill, text, seed)


def _filled(
    shape: tuple[int, ...], dtype: np.dtype[Any], fill: str, text: str, seed: int
) -> npt.NDArray[Any]:
    if fill in ("zeros", "ones"):
        return np.full(shape, fill == "ones").astype(dtype)
    if fill == "arange":
        return np.arange(math.prod(shape)).astype(dtype).reshape(shape)
    if fill == "random":
        rng = np.random.default_rng(seed)
        if dtype.kind in "iub":
            below = 2 if dtype.kind == "b" else RANDOM_BELOW
            return rng.integers(0, below, shape).astype(dtype)
        return rng.standard_normal(shape, dtype=np.float64 if dtype.itemsize == 8 else np.float32).astype(
            dtype
        )
    raise SpecError(f"--arg {text}: {fill!r} is no content; there are {', '.join(FILLS)} and FILE.npy")


def _scalar(dtype: np.dtype[Any], value: str, text: str) -> Any:
    try:
        if dtype.kind in "iu":
            number = int(value, 0)
        elif dtype.kind == "b":
            return np.bool_({"true": True, "1": True, "false": False, "0": False}[value.lower()])
        else:
            return dtype.type(float(value))
    except (ValueError, KeyError) as error:
        raise SpecError(f"--arg {text}: {value!r} is no {dtype}; write a number") from error
    limits = np.iinfo(dtype)
    if not limits.min <= number <= limits.max:
        raise SpecError(f"--arg {text}: {dtype} holds {limits.min} to {limits.max}, not {number}")
    return dtype.type(number)


def parse_sides(text: str, what: str) -> tuple[int, ...]:
    """Return a grid or block.

    Examples
    --------
    >>> parse_sides("32,8", "block"), parse_sides("1024", "grid")
    ((32, 8), (1024,))
    """
    try:
        sides = tuple(int(side) for side in re.split(r"[,x]", text.strip("() ")))
    except ValueError:
        sides = ()
    if not 1 <= len(sides) <= 3:
        raise SpecError(f"--{what} {text}: it must be one to three integers x,y,z; write --{what} 32,8")
    return sides


def check_named_once(items: Sequence[str], option: str) -> None:
    """Refuse a name that an option's ``NAME=VALUE`` pairs give twice.

    Raises
    ------
    SpecError
    """
    names = [item.partition("=")[0].strip() for item in items]
    for index, (name, item) in enumerate(zip(names, items, strict=True)):
        if name in names[:index]:
            raise SpecError(f"--{option} {item}: {name} was given before; leave one out")


def parse_globals(items: Sequence[str]) -> dict[str, Any]:
    """Return ``NAME=VALUE`` pairs: a number, several with commas, a ``.npy`` file, or a form of ``--arg``.

    Examples
    --------
    >>> parse_globals(["n=3", "weights=f32[2]:ones"])
    {'n': 3, 'weights': array([1., 1.], dtype=float32)}
    """
    check_named_once(items, "global")
    return dict(_global(item) for item in items)


def _global(item: str) -> tuple[str, Any]:
    name, sign, value = item.partition("=")
    if not sign or not name.strip():
        raise SpecError(f"--global {item}: it must be NAME=VALUE; write --global scale=2.0")
    if value.endswith(".npy") or _ARRAY.fullmatch(value) or _SCALAR.fullmatch(value):
        return name, parse_argument(value)
    try:
        numbers = [_number(each) for each in value.split(",")]
    except ValueError:
        raise SpecError(
            f"--global {item}: {value!r} is no number; write a number, or several with commas"
        ) from None
    return name, numbers[0] if len(numbers) == 1 else numbers


def _number(text: str) -> int | float:
    try:
        return int(text, 0)
    except ValueError:
        return float(text)


def parse_parameters(items: Sequence[str]) -> dict[str, int | float]:
    """Return ``name=number`` pairs.

    Examples
    --------
    >>> parse_parameters(["stride=8"])
    {'stride': 8}
    """
    check_named_once(items, "parameter")
    found = {}
    for item in items:
        name, sign, value = item.partition("=")
        try:
            found[name] = _number(value)
        except ValueError:
            sign = ""
        if not sign:
            raise SpecError(f"--parameter {item}: it must be NAME=NUMBER; write --parameter stride=8")
    return found


def describe(value: Any) -> tuple[str, str]:
    """Return an argument's type and its values in a few words."""
    if value is None:
        return "null", ""
    if not isinstance(value, np.ndarray):
        return str(np.asarray(value).dtype), str(value)
    shape = ", ".join(map(str, value.shape))
    shown = " ".join(str(each) for each in value.reshape(-1)[:4])
    more = " ..." if value.size > 4 else ""
    return f"{value.dtype}[{shape}]", f"{shown}{more}"
