"""Types of C, read off CUDA C text and mangled names."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np

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
    base = " ".join(re.sub(r"[*&()]|\[.*?\]", " ", text).split())
    base = base.removeprefix("std::").removeprefix("cuda::std::")
    # `float [][8]` and `float (*)[8]` point to floats; `float* [8]` points to pointers.
    is_array_of_pointers = "[" in text and re.search(r"\(\s*\*", text) is None and "*" in text
    if text.count("*") > 1 or is_array_of_pointers:
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


def vector_length(text: str) -> int:
    """Return how many elements a built-in vector type such as ``float4`` has; 0 for any other type.

    Examples
    --------
    >>> vector_length("const float4"), vector_length("__half2"), vector_length("float")
    (4, 2, 0)
    """
    words = re.sub(r"\b(const|volatile|__grid_constant__)\b|&", " ", text).split()
    name = words[0] if len(words) == 1 else ""
    if name in ("__half2", "half2", "__nv_bfloat162", "nv_bfloat162"):
        return 2
    found = _VECTOR.match(name)
    return int(found[2]) if found else 0


def without_comments(text: str) -> str:
    """Return C++ text with a space for each comment."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)


def source_types(source: str, name: str) -> list[tuple[str, str]] | None:
    """Read a kernel's parameter types and names off its CUDA C text; None for a template, or none."""
    text = without_comments(source)
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
        match_name = re.match(r"^(.*?[\s*&>])([A-Za-z_]\w*)\s*(\)?\s*(?:\[[^\]]*\]\s*)*)$", part)
        if match_name is None:
            found.append((part, ""))
        else:
            found.append(((match_name[1] + match_name[3]).strip(), match_name[2]))
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
    match = re.search(pattern, without_comments(source))
    if match is None or "*" in match[1]:
        return None
    return c_dtype(re.sub(rf"\b(?:{words}|static|extern|inline|constexpr|alignas)\b", " ", match[1]))[0]


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
            built = _pointer_to(inner[0]) if text[0] == "P" else f"{inner[0]} const"
            seen.append(built)
            return built, inner[1]
        array = re.match(r"^A(\d+)_", text)
        if array:
            inner = one(text[array.end() :])
            if inner is None:
                return None
            base, bracket, sides = inner[0].partition("[")
            seen.append(f"{base.rstrip()} [{array[1]}]{bracket}{sides}")
            return seen[-1], inner[1]
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


def _pointer_to(text: str) -> str:
    """Write the type of a pointer to a type."""
    base, bracket, sides = text.partition("[")
    return f"{base.rstrip()} (*){bracket}{sides}" if bracket else f"{text} *"
