"""Arguments of Numba kernels without Numba: their types, and how a launch flattens them to parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kernellab.errors import ArgumentError

# Where `numba_cuda.without_driver` notes the signature that a kernel was declared with.
DECLARED = "_kernellab_signature"
_LONG_ARRAY = re.compile(r"^(?:unaligned )?array\((\w+), (\d)d, ([CFA])\)$")
_ARRAY = re.compile(r"^(\w+)\s*\[([:,\s1]*)\]$")
_INT64_LIMIT = 2**63


@dataclass(frozen=True)
class ArgumentType:
    """The type of one argument: a scalar, an array or a tuple of types.

    Attributes
    ----------
    dtype : numpy.dtype or None
        Element type; None for a tuple.
    ndim : int or None
        Dimensions of an array; None for a scalar or a tuple.
    layout : str
        ``"C"``, ``"F"`` or ``"A"`` (any strides).
    items : tuple of ArgumentType
        The members of a tuple.
    named : type or None
        The class of a named tuple.

    Examples
    --------
    >>> str(ArgumentType.parse("float32[:, ::1]"))
    'float32[:,::1]'
    """

    dtype: np.dtype[Any] | None
    ndim: int | None = None
    layout: str = "C"
    items: tuple[ArgumentType, ...] = ()
    named: type | None = None

    @classmethod
    def of(cls, value: Any) -> ArgumentType:
        """The type that Numba gives to `value`."""
        if isinstance(value, np.ndarray):
            layout = "C" if value.flags.c_contiguous else "F" if value.flags.f_contiguous else "A"
            return cls(value.dtype, value.ndim, layout)
        if isinstance(value, np.generic):
            return cls(value.dtype)
        if isinstance(value, bool):
            return cls(np.dtype(np.bool_))
        if isinstance(value, int):
            return cls(np.dtype(np.int64 if value < _INT64_LIMIT else np.uint64))
        if isinstance(value, (float, complex)):
            return cls(np.dtype(type(value)))
        if isinstance(value, tuple):
            named = type(value) if hasattr(value, "_fields") else None
            return cls(None, items=tuple(cls.of(each) for each in value), named=named)
        return cls._of_device_array(value)

    @classmethod
    def _of_device_array(cls, value: Any) -> ArgumentType:
        interface = getattr(value, "__cuda_array_interface__", None)
        if interface is None:
            raise ArgumentError(
                f"a Numba kernel takes arrays, NumPy scalars, numbers and tuples, not {type(value).__name__}"
            )
        shape, dtype = interface["shape"], np.dtype(interface["typestr"])
        strides = interface.get("strides")
        example = np.lib.stride_tricks.as_strided(np.empty(0, dtype), shape, strides) if strides else None
        return cls.of(example) if example is not None else cls(dtype, len(shape))

    @classmethod
    def parse(cls, text: str) -> ArgumentType:
        """Read Numba's spelling, such as ``"int32"`` or ``"float32[:, ::1]"``.

        Raises
        ------
        ArgumentError
            A spelling that NumPy's dtypes do not cover.
        """
        long_form = _LONG_ARRAY.match(text.strip())
        if long_form:
            return cls(_dtype_of(long_form[1]), int(long_form[2]), long_form[3])
        array = _ARRAY.match(text.strip())
        name = array[1] if array else text.strip()
        try:
            dtype = _dtype_of(name)
        except TypeError as error:
            raise ArgumentError(
                f"{text!r} is no argument type; write it like 'float32[:, ::1]' or 'int32'"
            ) from error
        if array is None:
            return cls(dtype)
        steps = [step.strip() for step in array[2].split(",")]
        layout = "C" if steps[-1] == "::1" else "F" if steps[0] == "::1" else "A"
        return cls(dtype, len(steps), layout)

    def example(self) -> Any:
        """A value of this type, for Numba to look at."""
        if self.dtype is None:
            members = [each.example() for each in self.items]
            return self.named(*members) if self.named else tuple(members)
        if self.ndim is None:
            return np.zeros(1, self.dtype)[0]
        if self.layout == "A" and self.ndim:
            return np.zeros((4,) * self.ndim, self.dtype)[(slice(None, None, 2),) * self.ndim]
        return np.zeros((2,) * self.ndim, self.dtype, order="F" if self.layout == "F" else "C")

    def __str__(self) -> str:
        if self.dtype is None:
            name = f"{self.named.__module__}.{self.named.__qualname__}" if self.named else ""
            return f"{name}({', '.join(map(str, self.items))})"
        name = self.dtype.name if self.dtype.names is None else str(self.dtype)
        if self.ndim is None:
            return name
        steps = [":"] * self.ndim
        if steps and self.layout in ("C", "F"):
            steps[-1 if self.layout == "C" else 0] = "::1"
        return f"{name}[{','.join(steps)}]"


def _dtype_of(name: Any) -> np.dtype[Any]:
    if name == "bfloat16":
        import ml_dtypes

        name = ml_dtypes.bfloat16
    found: np.dtype[Any] = np.dtype({"boolean": "bool"}.get(name, name))
    return found


def numba_types(arguments: Sequence[Any], function: Any = None) -> tuple[ArgumentType, ...]:
    """The types that Numba's dispatcher would compile for.

    Parameters
    ----------
    arguments : sequence
        Arrays (also of a device, by ``__cuda_array_interface__``), NumPy scalars, numbers, tuples of these.
    function : dispatcher, optional
        The kernel: where it was declared with a signature, that decides.

    Returns
    -------
    tuple of ArgumentType
        What `compile_numba` takes; Numba is not imported.

    Examples
    --------
    >>> [str(each) for each in numba_types([np.zeros((2, 3), np.float32), np.int32(1), 7])]
    ['float32[:,::1]', 'int32', 'int64']
    """
    declared = declared_types(function)
    if declared is not None and len(declared) == len(arguments):
        return declared
    return tuple(ArgumentType.of(each) for each in arguments)


def declared_types(function: Any) -> tuple[ArgumentType, ...] | None:
    """The types of ``@cuda.jit("void(float32[:], int32)")``; None for a kernel without a signature."""
    signature = getattr(function, DECLARED, None)
    if signature is None and getattr(function, "_can_compile", True) is False:
        overloads = list(getattr(function, "overloads", ()))
        signature = overloads[0] if len(overloads) == 1 else None
    if signature is None:
        return None
    try:
        return tuple(ArgumentType.parse(str(each)) for each in signature)
    except ArgumentError:
        return None


def as_declared(who: str, function: Any, arguments: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments as a kernel that was declared with a signature takes them: plain numbers converted.

    Raises
    ------
    ArgumentError
        For an array of another dtype, rank or layout than the declared one.
    """
    declared = declared_types(function)
    if declared is None or len(declared) != len(arguments):
        return tuple(arguments)
    return tuple(
        _as_declared(f"{who}: argument {place}", kind, value)
        for place, (kind, value) in enumerate(zip(declared, arguments, strict=True))
    )


def _as_declared(what: str, kind: ArgumentType, value: Any) -> Any:
    given = ArgumentType.of(value)
    if kind.ndim is None and given.ndim is None:
        is_number = kind.dtype is not None and isinstance(value, bool | int | float | complex | np.number)
        return np.array(value).astype(kind.dtype)[()] if is_number else value
    if (given.dtype, given.ndim) != (kind.dtype, kind.ndim) or kind.layout not in ("A", given.layout):
        raise ArgumentError(f"{what} is {given}, it was declared as {kind}; pass such a one")
    return value


def flatten_numba_arguments(
    arguments: Sequence[Any], pointer_of: Callable[[Any], int], types: Sequence[ArgumentType] | None = None
) -> list[np.generic]:
    """Flatten `arguments` to kernel parameters as Numba's launch does.

    Parameters
    ----------
    arguments : sequence
        See `numba_types`.
    pointer_of : callable
        Gives the device address of an array (or of a record scalar, which goes by reference).
    types : sequence of ArgumentType, optional
        What the kernel was compiled for, where that is not what `arguments` themselves suggest.

    Returns
    -------
    list of numpy scalar
        One for each ``.param``: for an array its meminfo and parent (both 0), number of items, item size in
        bytes, address, shape, and strides in bytes.

    Examples
    --------
    >>> [int(each) for each in flatten_numba_arguments([np.zeros((2, 3), np.float32)], lambda array: 4096)]
    [0, 0, 6, 4, 4096, 2, 3, 12, 4]
    """
    kinds = types if types is not None else [None] * len(arguments)
    return [
        each
        for argument, kind in zip(arguments, kinds, strict=True)
        for each in _flatten(argument, pointer_of, kind)
    ]


def _flatten(
    argument: Any, pointer_of: Callable[[Any], int], declared: ArgumentType | None
) -> list[np.generic]:
    if isinstance(argument, tuple):
        return flatten_numba_arguments(argument, pointer_of, (declared and declared.items) or None)
    if isinstance(argument, np.void):
        return [np.uint64(pointer_of(argument))]
    if isinstance(argument, np.ndarray) or hasattr(argument, "__cuda_array_interface__"):
        return _flatten_array(argument, pointer_of)
    kind = declared or ArgumentType.of(argument)
    assert kind.dtype is not None
    scalar: Any = np.array(argument, kind.dtype)[()]
    if isinstance(scalar, np.complexfloating):
        part = np.dtype(f"f{scalar.dtype.itemsize // 2}").type
        return [part(scalar.real), part(scalar.imag)]
    if isinstance(scalar, (np.datetime64, np.timedelta64)):
        return [scalar.view(np.int64)]
    return [scalar]


def _flatten_array(array: Any, pointer_of: Callable[[Any], int]) -> list[np.generic]:
    shape, itemsize, strides = _geometry(array)
    items = int(np.prod(shape, dtype=np.int64))
    head = [np.uint64(0), np.uint64(0), np.int64(items), np.int64(itemsize), np.uint64(pointer_of(array))]
    return [*head, *map(np.int64, shape), *map(np.int64, strides)]


def _geometry(array: Any) -> tuple[tuple[int, ...], int, tuple[int, ...]]:
    if isinstance(array, np.ndarray):
        return array.shape, array.itemsize, array.strides
    interface = array.__cuda_array_interface__
    shape, dtype = tuple(interface["shape"]), np.dtype(interface["typestr"])
    strides = interface.get("strides") or _dense_strides(shape, dtype)
    return shape, dtype.itemsize, tuple(strides)


def _dense_strides(shape: Sequence[int], dtype: npt.DTypeLike) -> tuple[int, ...]:
    strides = [np.dtype(dtype).itemsize]
    for extent in reversed(shape[1:]):
        strides.insert(0, strides[0] * extent)
    return tuple(strides[: len(shape)]) if shape else ()
