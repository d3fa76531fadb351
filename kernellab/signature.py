"""Parameters of a kernel: their types in words, and Python values as the bytes that the kernel reads.

PTX says how many bytes a parameter has, but not whether they are signed, or what a pointer points to. That
comes from the CUDA C text or from the mangled name, where there is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from kernellab.errors import ArgumentError, SpecError

Array = npt.NDArray[Any]

_C_TYPES: dict[str, Any] = {
    "bool": np.bool_, "char": np.int8, "signed char": np.int8, "unsigned char": np.uint8,
    "short": np.int16, "unsigned short": np.uint16, "int": np.int32, "unsigned int": np.uint32,
    "unsigned": np.uint32, "long": np.int64, "unsigned long": np.uint64, "long long": np.int64,
    "unsigned long long": np.uint64, "float": np.float32, "double": np.float64,
    "int8_t": np.int8, "uint8_t": np.uint8, "int16_t": np.int16, "uint16_t": np.uint16, "int32_t": np.int32,
    "uint32_t": np.uint32, "int64_t": np.int64, "uint64_t": np.uint64, "size_t": np.uint64,
    "ptrdiff_t": np.int64, "uint": np.uint32, "uchar": np.uint8, "ushort": np.uint16, "ulong": np.uint64,
    "half": np.float16, "__half": np.float16, "__half2": np.float16, "half2": np.float16,
    "__nv_bfloat16": ml_dtypes.bfloat16, "nv_bfloat16": ml_dtypes.bfloat16,
    "__nv_bfloat162": ml_dtypes.bfloat16, "nv_bfloat162": ml_dtypes.bfloat16,
}  # fmt: skip
_VECTOR = re.compile(
    r"^(char|uchar|short|ushort|int|uint|long|ulong|longlong|ulonglong|float|double)([1-4])$"
)
_MANGLED = {
    "b": "bool", "c": "char", "a": "signed char", "h": "unsigned char", "s": "short", "t": "unsigned short",
    "i": "int", "j": "unsigned int", "l": "long", "m": "unsigned long", "x": "long long",
    "y": "unsigned long long", "f": "float", "d": "double", "v": "void", "6__half": "half",
    "13__nv_bfloat16": "nv_bfloat16",
}  # fmt: skip


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel.

    Attributes
    ----------
    name : str
        As in the source, or the PTX name.
    nbytes : int
    align : int
    dtype : numpy.dtype or None
        Of the scalar, or of what the pointer points to (for vector types: of one element); None when unknown.
    is_pointer : bool or None
        None when unknown: eight bytes that may be either.
    text : str
        The type in words, for messages.
    """

    name: str
    nbytes: int
    align: int = 8
    dtype: np.dtype[Any] | None = None
    is_pointer: bool | None = None
    text: str = ""


def c_dtype(text: str) -> tuple[np.dtype[Any] | None, bool]:
    """Return the dtype that a C type names, and whether it is a pointer.

    Examples
    --------
    >>> c_dtype("const float* __restrict__")
    (dtype('float32'), True)
    """
    text = re.sub(
        r"\b(const|volatile|__restrict__|__restrict|restrict|struct|__grid_constant__)\b", " ", text
    )
    text = re.sub(r"__align__\s*\(\s*\d+\s*\)", " ", text)
    is_pointer = "*" in text or "[" in text
    depth = text.count("*") + text.count("[")
    base = " ".join(re.sub(r"[*&]|\[.*?\]", " ", text).split())
    base = base.removeprefix("std::").removeprefix("cuda::std::")
    if depth > 1:
        return np.dtype(np.uint64), True
    words = base.split()
    if len(words) > 1 and set(words) <= {"unsigned", "signed", "long", "int", "short", "char"}:
        sign = (
            "unsigned "
            if "unsigned" in words
            else "signed "
            if words.count("char") and "signed" in words
            else ""
        )
        core = [word for word in words if word not in ("unsigned", "signed")]
        core = [word for word in core if word != "int"] or ["int"]
        base = (sign + " ".join(core)).strip()
        base = base.replace("unsigned int", "unsigned int")
    vector = _VECTOR.match(base)
    if vector:
        name = vector[1].replace("longlong", "long long")
        name = "unsigned " + name[1:] if name.startswith("u") else name
        return np.dtype(_C_TYPES[name]), is_pointer
    found = _C_TYPES.get(base)
    return (None if found is None else np.dtype(found)), is_pointer


def _without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)


def source_types(source: str, name: str) -> list[tuple[str, str]] | None:
    """Read a kernel's parameter types and names off its CUDA C text; None when it is not there or a template."""
    text = _without_comments(source)
    pattern = re.compile(rf"__global__[^;{{}}]*?\b{re.escape(name)}\s*\(", re.DOTALL)
    match = pattern.search(text)
    if match is None or re.search(r"template\s*<[^;{}]*>\s*(?:static\s+)?$", text[: match.start()]):
        return None
    depth, position, parts, start = 1, match.end(), [], match.end()
    while depth and position < len(text):
        character = text[position]
        depth += {"(": 1, "<": 1, "[": 1, ")": -1, ">": -1, "]": -1}.get(character, 0)
        if (character == "," and depth == 1) or depth == 0:
            parts.append(text[start:position])
            start = position + 1
        position += 1
    found = []
    for part in parts:
        part = " ".join(part.split("=")[0].split())
        if not part or part == "void":
            continue
        match_name = re.match(r"^(.*?[\s*&>])([A-Za-z_]\w*)\s*((?:\[[^\]]*\])*)$", part)
        if match_name is None:
            found.append((part, ""))
        else:
            found.append((match_name[1] + match_name[3], match_name[2]))
    return found


def variable_dtype(source: str, name: str) -> np.dtype[Any] | None:
    """Read the element type of a ``__device__`` or ``__constant__`` variable off CUDA C text.

    Examples
    --------
    >>> variable_dtype("__constant__ float weights[3][3];", "weights")
    dtype('float32')
    """
    words = r"__constant__|__device__|__managed__"
    pattern = rf"(?:{words})([^;(){{}}=]*?)\b{re.escape(name)}\s*((?:\[[^\]]*\]\s*)*)[;={{]"
    match = re.search(pattern, _without_comments(source))
    if match is None or "*" in match[1]:
        return None
    return c_dtype(re.sub(rf"\b(?:{words}|static|extern|inline|constexpr|alignas)\b", " ", match[1]))[0]


def typed_variables(sources: Mapping[str, str], values: Mapping[str, Any], who: str) -> dict[str, Any]:
    """Give plain numbers and lists the type that their variable has in the source; refuse another dtype.

    Raises
    ------
    ArgumentError
    """
    typed = {}
    for name, value in values.items():
        found = (variable_dtype(text, name) for text in sources.values())
        dtype = next((each for each in found if each is not None), None)
        if dtype is None or value is None:
            typed[name] = value
        elif not isinstance(value, (np.ndarray, np.generic)):
            typed[name] = np.asarray(value).astype(dtype)
        elif value.dtype.kind == "V" or value.dtype == dtype or value.dtype.itemsize == 1:
            typed[name] = value
        else:
            raise ArgumentError(
                f"{who}: globals[{name!r}] has dtype {value.dtype}, the variable is of {dtype}; "
                f"convert it with .astype({str(dtype)!r})"
            )
    return typed


def mangled_types(symbol: str) -> list[str] | None:
    """Read builtin parameter types off an Itanium name; None where one is anything else.

    Examples
    --------
    >>> mangled_types("_Z3addPKfPfi")
    ['float const *', 'float *', 'int']
    """
    match = re.match(r"^_Z(\d+)", symbol)
    if match is None:
        return None
    rest = symbol[match.end() + int(match[1]) :]
    if rest.startswith("I"):
        return None
    found: list[str] = []
    seen: list[str] = []

    def one(text: str) -> tuple[str, str] | None:
        if text.startswith(("P", "K")):
            inner = one(text[1:])
            if inner is None:
                return None
            built = inner[0] + (" *" if text[0] == "P" else " const")
            seen.append(built)
            return built, inner[1]
        back = re.match(r"^S(\d?)_", text)
        if back:
            index = int(back[1]) + 1 if back[1] else 0
            return (seen[index], text[back.end() :]) if index < len(seen) else None
        for code, name in _MANGLED.items():
            if text.startswith(code):
                if code[0].isdigit():
                    seen.append(name)
                return name, text[len(code) :]
        return None

    while rest and not rest.startswith("v"):
        piece = one(rest)
        if piece is None:
            return None
        found.append(piece[0])
        rest = piece[1]
    return found


def refine(parameters: Sequence[Parameter], types: Sequence[tuple[str, str]] | None) -> tuple[Parameter, ...]:
    """Add what the source says to parameters read off PTX; what does not fit together is ignored."""
    if types is None or len(types) != len(parameters):
        return tuple(parameters)
    refined = []
    for parameter, (text, name) in zip(parameters, types, strict=True):
        dtype, is_pointer = c_dtype(text)
        if is_pointer:
            fits = parameter.nbytes == 8
        else:
            fits = dtype is None or dtype.itemsize == parameter.nbytes
        if not fits:
            refined.append(parameter)
            continue
        known = None if dtype is None and parameter.nbytes == 8 and not is_pointer else is_pointer
        refined.append(
            Parameter(name or parameter.name, parameter.nbytes, parameter.align, dtype, known, text.strip())
        )
    return tuple(refined)


def describe(parameters: Sequence[Parameter]) -> str:
    """Write a parameter list for a message."""
    return (
        ", ".join(f"{each.text or f'{each.nbytes} bytes'} {each.name}".strip() for each in parameters)
        or "none"
    )


def check_count(who: str, parameters: Sequence[Parameter], arguments: Sequence[Any]) -> None:
    """Refuse a wrong number of arguments.

    Raises
    ------
    ArgumentError
    """
    if len(parameters) != len(arguments):
        raise ArgumentError(
            f"{who}: takes {len(parameters)} arguments ({describe(parameters)}), got {len(arguments)}"
        )


def pack(who: str, parameter: Parameter, value: Any, pointer_of: Callable[[str, Array], int]) -> bytes:
    """Return the bytes of one argument.

    Parameters
    ----------
    who : str
        The kernel, for messages.
    parameter : Parameter
    value : object
        A NumPy array for a pointer; None for a null pointer; a NumPy scalar of the parameter's own size, a
        structured scalar, or a plain Python number for a scalar.
    pointer_of : callable
        Gives the address of an array.

    Raises
    ------
    ArgumentError
        For an array where a scalar is wanted or the reverse, a wrong dtype, a view that is not contiguous.
    SpecError
        For a number that does not fit.
    """
    if isinstance(value, np.ndarray) and (value.ndim or parameter.is_pointer):
        return _pack_array(who, parameter, value, pointer_of)
    if value is None:
        if parameter.is_pointer is False or parameter.nbytes != 8:
            raise ArgumentError(f"{who}: {parameter.name} is {_kind(parameter)}, got None")
        return bytes(8)
    if parameter.is_pointer:
        raise ArgumentError(
            f"{who}: {parameter.name} is {_kind(parameter)}, got {type(value).__name__} {value!r}; pass an array"
        )
    if isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic):
        return _pack_number(who, parameter, value)
    if isinstance(value, (np.generic, np.ndarray)):
        return _pack_scalar(who, parameter, np.asarray(value))
    raise ArgumentError(
        f"{who}: {parameter.name} is {_kind(parameter)}, got {type(value).__name__}; "
        "pass a NumPy array for a pointer, a NumPy scalar or a number for a scalar"
    )


def _kind(parameter: Parameter) -> str:
    if parameter.text:
        return f"`{parameter.text}`"
    return "a pointer" if parameter.is_pointer else f"a value of {parameter.nbytes} bytes"


def is_contiguous(array: Array) -> bool:
    """Say whether elements lie densely in C order; strides of axes with one element do not matter."""
    if array.size == 0:
        return True
    expected = array.itemsize
    for size, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def _pack_array(
    who: str, parameter: Parameter, value: Array, pointer_of: Callable[[str, Array], int]
) -> bytes:
    if parameter.is_pointer is False or parameter.nbytes != 8:
        raise ArgumentError(
            f"{who}: {parameter.name} is {_kind(parameter)}, got an array of {value.dtype}; pass a scalar"
        )
    if not is_contiguous(value):
        raise SpecError(
            f"{who}: {parameter.name} is not contiguous (shape {value.shape}, strides {value.strides}); "
            "pass numpy.ascontiguousarray(...) of it"
        )
    wanted = parameter.dtype
    if wanted is not None and value.dtype.kind != "V" and value.dtype != wanted and not _is_bytes(wanted):
        same = value.dtype.kind == "c" and wanted == np.dtype(f"f{value.itemsize // 2}")
        same |= value.dtype == np.bool_ and wanted.itemsize == 1
        if not same:
            raise ArgumentError(
                f"{who}: {parameter.name} is {_kind(parameter)} and takes an array of {wanted}, "
                f"got {value.dtype}; convert it with .astype({str(wanted)!r})"
            )
    return int(pointer_of(parameter.name, value)).to_bytes(8, "little")


def _is_bytes(dtype: np.dtype[Any]) -> bool:
    return dtype in (np.dtype(np.int8), np.dtype(np.uint8))


def _pack_number(who: str, parameter: Parameter, value: int | float | complex) -> bytes:
    dtype = parameter.dtype
    if dtype is None:
        dtype = _guess(parameter, value)
    if dtype is None:
        raise ArgumentError(
            f"{who}: {parameter.name} is {_kind(parameter)}, got the number {value!r}; "
            "pass a NumPy scalar of its exact type"
        )
    if isinstance(value, complex) and dtype.kind != "c":
        raise ArgumentError(
            f"{who}: {parameter.name} is {_kind(parameter)}, got the complex number {value!r}; pass its parts"
        )
    if isinstance(value, float) and dtype.kind in "iub":
        raise ArgumentError(
            f"{who}: {parameter.name} is {_kind(parameter)}, got the float {value!r}; pass an integer"
        )
    if dtype.kind in "iu" and not isinstance(value, complex):
        limits = np.iinfo(dtype)
        if not limits.min <= int(value) <= limits.max:
            raise SpecError(
                f"{who}: {parameter.name} is {_kind(parameter)} and holds {limits.min} to {limits.max}, "
                f"got {value}"
            )
        return np.asarray(int(value), dtype).tobytes()
    with np.errstate(over="ignore"):
        converted = np.asarray(value).astype(dtype)
    if (
        isinstance(value, (int, float))
        and np.isinf(converted.astype(np.float64))
        and not np.isinf(float(value))
    ):
        raise SpecError(f"{who}: {parameter.name} is {_kind(parameter)}, and {value!r} is too large for it")
    return converted.tobytes()


def _guess(parameter: Parameter, value: int | float | complex) -> np.dtype[Any] | None:
    """Choose a type for a plain number where only the size of the parameter is known."""
    if isinstance(value, complex):
        return None
    if isinstance(value, float):
        return np.dtype(f"f{parameter.nbytes}") if parameter.nbytes in (4, 8) else None
    if parameter.nbytes not in (1, 2, 4, 8):
        return None
    is_signed = value < 0
    return np.dtype(f"{'i' if is_signed else 'u'}{parameter.nbytes}")


def _pack_scalar(who: str, parameter: Parameter, value: Array) -> bytes:
    if value.dtype.itemsize != parameter.nbytes:
        raise ArgumentError(
            f"{who}: {parameter.name} is {_kind(parameter)} of {parameter.nbytes} bytes, "
            f"got a {value.dtype} scalar of {value.dtype.itemsize}"
        )
    wanted = parameter.dtype
    if wanted is not None and value.dtype.kind != "V" and {value.dtype.kind, wanted.kind} == {"i", "f"}:
        raise ArgumentError(f"{who}: {parameter.name} is {_kind(parameter)}, got a {value.dtype} scalar")
    if wanted is not None and value.dtype.kind == "u" and wanted.kind == "f":
        raise ArgumentError(f"{who}: {parameter.name} is {_kind(parameter)}, got a {value.dtype} scalar")
    return value.tobytes()


def parameters_of(names: Sequence[str], sizes: Mapping[str, tuple[int, int, str]]) -> tuple[Parameter, ...]:
    """Make parameters from what PTX says: (bytes, alignment, type) by name."""
    found = []
    for name in names:
        nbytes, align, kind = sizes[name]
        dtype = np.dtype(f"f{nbytes}") if kind in ("f32", "f64") and nbytes <= 8 else None
        found.append(
            Parameter(name, nbytes, align, dtype, False if dtype is not None or nbytes != 8 else None)
        )
    return tuple(found)
