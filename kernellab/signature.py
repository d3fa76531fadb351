"""Parameters of a kernel: their types in words, and Python values as the bytes that the kernel reads.

PTX says how many bytes a parameter has, but not whether they are signed, or what a pointer points to. That
comes from the CUDA C text or from the mangled name, where there is one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kernellab.arrays import cast_remedy, spec_of
from kernellab.c_types import c_dtype, variable_dtype, vector_length
from kernellab.errors import ArgumentError, SpecError
from kernellab.tensor_map import NBYTES, TensorMap
from kernellab.tensor_table import TensorTable

Array = npt.NDArray[Any]


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
        Of the scalar, or of what the pointer points to (for vector types: of one element; a vector by value
        has a subarray's); None when unknown.
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


def typed_variables(sources: Mapping[str, str], values: Mapping[str, Any], who: str) -> dict[str, Any]:
    """Give plain numbers and lists the type that their variable has in the source; refuse another dtype.

    Raises
    ------
    ArgumentError, SpecError
        For an array of another dtype, or a number that the type does not hold.
    """
    typed = {}
    for name, value in values.items():
        found = (variable_dtype(text, name) for text in sources.values())
        dtype = next((each for each in found if each is not None), None)
        if dtype is None or value is None:
            typed[name] = value
        elif not isinstance(value, (np.ndarray, np.generic)):
            typed[name] = _typed_numbers(value, dtype, f"globals[{name!r}]", who)
        elif value.dtype.kind == "V" or value.dtype == dtype or value.dtype.itemsize == 1:
            typed[name] = value
        else:
            raise ArgumentError(
                f"{who}: globals[{name!r}] has dtype {value.dtype}, the variable is of {dtype}; "
                f"{cast_remedy(value.dtype, dtype)}"
            )
    return typed


def _typed_numbers(value: Any, dtype: np.dtype[Any], name: str, who: str) -> Array:
    numbers = np.asarray(value, dtype=object)
    parameter = Parameter(name, dtype.itemsize, dtype=dtype, is_pointer=False, text=dtype.name)
    packed = [
        pack(who, parameter, each.item() if isinstance(each, np.generic) else each, lambda *_: 0)
        for each in numbers.ravel()
    ]
    return np.frombuffer(b"".join(packed), dtype).reshape(numbers.shape).copy()  # it may be written


def refine(parameters: Sequence[Parameter], types: Sequence[tuple[str, str]] | None) -> tuple[Parameter, ...]:
    """Add what the source says to parameters read off PTX; what does not fit together is ignored."""
    if types is None or len(types) != len(parameters):
        return tuple(parameters)
    refined = []
    for parameter, (text, name) in zip(parameters, types, strict=True):
        dtype, is_pointer = c_dtype(text)
        length = 0 if is_pointer else vector_length(text)
        if length and dtype is not None:
            dtype = np.dtype((dtype, (length,)))
        expected = 8 if is_pointer else parameter.nbytes if dtype is None else dtype.itemsize
        if parameter.nbytes != expected:
            refined.append(replace(parameter, name=name or parameter.name))
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
        A NumPy array for a pointer; a TensorMap for a tensor map; None for a null pointer; a NumPy scalar of the parameter's own size, a
        structured scalar, or a plain Python number for a scalar; an array of exactly its bytes for a vector
        or a structure by value.
    pointer_of : callable
        Gives the address of an array.

    Raises
    ------
    ArgumentError
        For an array where a scalar is wanted or the reverse, a wrong dtype, a view that is not contiguous.
    SpecError
        For a number that does not fit.
    """
    if isinstance(value, TensorMap):
        return _pack_tensor_map(who, parameter, value, pointer_of)
    if isinstance(value, TensorTable):
        return _pack_tensor_table(who, parameter, value, pointer_of)
    if _is_compound(parameter):
        return _pack_compound(who, parameter, value)
    if isinstance(value, np.ndarray) and (value.ndim or parameter.is_pointer):
        return _pack_array(who, parameter, value, pointer_of)
    if value is None:
        if parameter.is_pointer is False or parameter.nbytes != 8:
            raise ArgumentError(f"{who}: {parameter.name} is {_kind(parameter)}, got None")
        return bytes(8)
    if parameter.is_pointer:
        raise ArgumentError(
            f"{who}: {parameter.name} is {_kind(parameter)}, got {type(value).__name__} {value!r}; "
            "pass an array"
        )
    if isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic):
        return _pack_number(who, parameter, value)
    if isinstance(value, (np.generic, np.ndarray)):
        return _pack_scalar(who, parameter, np.asarray(value))
    raise ArgumentError(
        f"{who}: {parameter.name} is {_kind(parameter)}, got {type(value).__name__}; "
        "pass a NumPy array for a pointer, a NumPy scalar or a number for a scalar"
    )


def _is_compound(parameter: Parameter) -> bool:
    """Say whether a parameter is a vector or a structure by value; 8 unknown bytes may be a pointer."""
    if parameter.dtype is not None:
        return parameter.dtype.subdtype is not None
    return parameter.is_pointer is False and parameter.nbytes not in (1, 2, 4, 8)


def _pack_compound(who: str, parameter: Parameter, value: Any) -> bytes:
    wanted = None if parameter.dtype is None else parameter.dtype.base
    if isinstance(value, (np.ndarray, np.generic)) and value.nbytes == parameter.nbytes:
        is_raw = wanted is None or value.dtype.type is np.void or value.dtype.itemsize == 1
        is_complex = value.dtype.kind == "c" and wanted == np.dtype(f"f{value.itemsize // 2}")
        if is_raw or is_complex or value.dtype == wanted:
            return value.tobytes()
    got = type(value).__name__
    if isinstance(value, (np.ndarray, np.generic)):
        got = f"an array of {value.nbytes} bytes and dtype {value.dtype}"
    if wanted is None:
        rule = f"{_kind(parameter)} of {parameter.nbytes} bytes" if parameter.text else _kind(parameter)
        remedy = "pass a structured NumPy scalar or an array of exactly these bytes"
        if _padded_size(getattr(value, "dtype", None)) == parameter.nbytes:
            remedy = "C pads it: make its dtype with align=True"
    else:
        rule = _kind(parameter)
        remedy = f"pass numpy.array([...], {wanted.name!r}) of {parameter.nbytes // wanted.itemsize} elements"
    raise ArgumentError(f"{who}: {parameter.name} is {rule}, got {got}; {remedy}")


def _pack_tensor_map(
    who: str, parameter: Parameter, value: TensorMap, pointer_of: Callable[[str, Array], int]
) -> bytes:
    if parameter.nbytes != NBYTES:
        raise ArgumentError(
            f"{who}: {parameter.name} is {_kind(parameter)}, got a TensorMap; declare it as "
            f"`const __grid_constant__ CUtensorMap`, which has {NBYTES} bytes"
        )
    return value.encode(int(pointer_of(parameter.name, value.array)))


def _pack_tensor_table(
    who: str, parameter: Parameter, value: TensorTable, pointer_of: Callable[[str, Array], int]
) -> bytes:
    packed = bytes(value.encode(lambda array: int(pointer_of(parameter.name, array))).tobytes())
    if len(packed) != parameter.nbytes:
        raise ArgumentError(
            f"{who}: {parameter.name} is {_kind(parameter)} of {parameter.nbytes} bytes, got a table of "
            f"{len(packed)}; declare it as in tensors.cuh, with the same TENSORS"
        )
    return packed


def _padded_size(dtype: np.dtype[Any] | None) -> int:
    """Return the bytes that a structure takes in C; 0 for anything else."""
    if dtype is None or dtype.fields is None:
        return 0
    fields = {name: field[0] for name, field in dtype.fields.items()}
    return np.dtype(list(fields.items()), align=True).itemsize


def _kind(parameter: Parameter) -> str:
    if parameter.text:
        return f"`{parameter.text}`"
    return "a pointer" if parameter.is_pointer else f"a value of {parameter.nbytes} bytes"


def _pack_array(
    who: str, parameter: Parameter, value: Array, pointer_of: Callable[[str, Array], int]
) -> bytes:
    if parameter.is_pointer is False or parameter.nbytes != 8:
        raise ArgumentError(
            f"{who}: {parameter.name} is {_kind(parameter)}, got an array of {value.dtype}; pass a scalar"
        )
    if not spec_of(value).is_contiguous:
        raise SpecError(
            f"{who}: {parameter.name} is not contiguous (shape {value.shape}, strides {value.strides}); "
            "pass numpy.ascontiguousarray(...) of it"
        )
    wanted = parameter.dtype
    if value.dtype.hasobject:
        raise ArgumentError(
            f"{who}: {parameter.name} is {_kind(parameter)}, got an array of Python objects; "
            "pass an array of numbers"
        )
    is_raw = value.dtype.type is np.void
    if wanted is not None and not is_raw and value.dtype != wanted and not _is_bytes(wanted):
        same = value.dtype.kind == "c" and wanted == np.dtype(f"f{value.itemsize // 2}")
        same |= value.dtype.kind == "V" and wanted.kind in "iu" and wanted.itemsize == value.itemsize
        same |= value.dtype == np.bool_ and wanted.itemsize == 1
        if not same:
            raise ArgumentError(
                f"{who}: {parameter.name} is {_kind(parameter)} and takes an array of {wanted}, "
                f"got {value.dtype}; {cast_remedy(value.dtype, wanted)}"
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
    wanted = parameter.dtype
    is_number = wanted is not None and wanted.kind in "iuf"
    remedy = f"pass numpy.{wanted}(...) of it" if is_number else f"pass a scalar of {parameter.nbytes} bytes"
    if value.dtype.itemsize != parameter.nbytes:
        raise ArgumentError(
            f"{who}: {parameter.name} is {_kind(parameter)} of {parameter.nbytes} bytes, "
            f"got a {value.dtype} scalar of {value.dtype.itemsize}; {remedy}"
        )
    kinds = "" if wanted is None else value.dtype.kind + wanted.kind
    if kinds in ("if", "fi", "uf"):
        raise ArgumentError(
            f"{who}: {parameter.name} is {_kind(parameter)}, got a {value.dtype} scalar; {remedy}"
        )
    return value.tobytes()


def parameters_of(names: Sequence[str], sizes: Mapping[str, tuple[int, int, str]]) -> tuple[Parameter, ...]:
    """Make parameters from what PTX says: (bytes, alignment, type) by name."""
    found = []
    for name in names:
        nbytes, align, kind = sizes[name]
        dtype = np.dtype(f"f{nbytes}") if kind in ("f32", "f64") and nbytes <= 8 else None
        shown = re.sub(r"^.*_param_(\d+)$", r"argument \1", name)  # NVRTC's own name says nothing else
        found.append(
            Parameter(shown, nbytes, align, dtype, False if dtype is not None or nbytes != 8 else None)
        )
    return tuple(found)
