"""Arguments of a launch as the bytes of its kernel parameters; arrays become global memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernellab.arrays import ArraySpec, spec_of
from kernellab.c_types import mangled_types, source_types
from kernellab.compile.binary import Binary
from kernellab.emulator.memory import GlobalMemory
from kernellab.emulator.ptx import Function
from kernellab.errors import ArgumentError
from kernellab.signature import Parameter, check_count, pack, parameters_of, refine
from kernellab.tensor_map import TensorMap
from kernellab.tensor_table import TensorTable

Array = npt.NDArray[Any]


def parameters(binary: Binary, function: Function, who: str) -> tuple[Parameter, ...]:
    """Return a kernel's parameters: sizes from PTX, types from its source or its mangled name."""
    sizes = {v.name: (v.nbytes, v.align, v.type if v.is_scalar else "b8") for v in function.parameters}
    found = parameters_of([v.name for v in function.parameters], sizes)
    if binary.language != "cuda-c":
        return found
    mangled = mangled_types(function.name)
    if mangled is not None:
        found = refine(found, [(text, "") for text in mangled])
    for text in binary.sources.values():
        types = source_types(text, who if who.isidentifier() else function.name)
        if types is None:
            types = source_types(text, function.name)
        if types is not None:
            return refine(found, types)
    return found


def parameter_names(binary: Binary, function: Function, who: str) -> tuple[str, ...]:
    """Return the names that the source gives the parameters; none where it does not tell."""
    if binary.language != "cuda-c":
        return ()
    found = tuple(each.name for each in parameters(binary, function, who))
    return found if all(name.isidentifier() for name in found) else ()


def bind_arguments(
    binary: Binary, function: Function, arguments: Sequence[Any], memory: GlobalMemory, who: str
) -> dict[str, bytes]:
    """Return the value of each kernel parameter; map the arrays into `memory`.

    Raises
    ------
    ArgumentError, SpecError
        For a wrong number, kind, dtype, layout or value.
    """
    for k, value in enumerate(arguments):
        if isinstance(value, np.ma.MaskedArray):
            rule = "a kernel cannot see the mask; fill it with .filled()"
            raise ArgumentError(f"{who}: argument {k} is a masked array, {rule}")
    arrays = [array for value in arguments for array in _arrays_of(value)]
    pointers = _Pointers(memory, [value for value in arrays if isinstance(value, np.ndarray)])
    if binary.language == "numba":
        return _bind_numba(function, arguments, pointers, who)
    expected = parameters(binary, function, who)
    check_count(who, expected, arguments)
    return {
        variable.name: pack(who, parameter, value, pointers)
        for variable, parameter, value in zip(function.parameters, expected, arguments, strict=True)
    }


def _arrays_of(value: Any) -> tuple[Any, ...]:
    if isinstance(value, TensorTable):
        return value.arrays
    return (value.array if isinstance(value, TensorMap) else value,)


def _bind_numba(
    function: Function, arguments: Sequence[Any], pointers: _Pointers, who: str
) -> dict[str, bytes]:
    from kernellab.compile.numba_arguments import flatten_numba_arguments

    places = {id(value): f"argument {k}" for k, value in enumerate(arguments)}
    flat = flatten_numba_arguments(arguments, lambda array: pointers(places.get(id(array), ""), array))
    if len(flat) != len(function.parameters):
        raise ArgumentError(
            f"{who}: its arguments flatten to {len(flat)} parameters, the kernel has "
            f"{len(function.parameters)}; pass what it was compiled for"
        )
    bound = {}
    for variable, scalar in zip(function.parameters, flat, strict=True):
        bound[variable.name] = scalar.tobytes().ljust(variable.nbytes, b"\0")[: variable.nbytes]
    return bound


class _Pointers:
    """Gives arrays their addresses; arrays that share memory share an allocation."""

    def __init__(self, memory: GlobalMemory, arrays: Sequence[Array]) -> None:
        self.memory = memory
        self.spans = self._merged([spec_of(array).extent for array in arrays if array.size])
        self.arrays = arrays
        self.bases: dict[tuple[int, int], tuple[int, bool]] = {}

    @staticmethod
    def _merged(extents: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        spans: list[tuple[int, int]] = []
        for low, high in sorted(extents):
            if spans and low < spans[-1][1]:
                spans[-1] = (spans[-1][0], max(spans[-1][1], high))
            else:
                spans.append((low, high))
        return spans

    def __call__(self, name: str, array: Any) -> int:
        if not isinstance(array, np.ndarray):
            array = np.asarray(array)
        spec = spec_of(array)
        if not array.size:
            return self.memory.allocate(name or "an empty array", np.zeros(0, np.uint8)).base
        low, _ = spec.extent
        span = next(((a, b) for a, b in self.spans if a <= low < b), spec.extent)
        known = self.bases.get(span)
        if known is None:
            known = self.bases[span] = (self._allocate(name, array, span), True)
        return known[0] + spec.pointer - span[0]

    def _allocate(self, name: str, array: Array, span: tuple[int, int]) -> int:
        root, is_writable = _bytes_of(array, span, self.arrays)
        shape = "x".join(map(str, array.shape)) or "scalar"
        label = f"{name} ({array.dtype}, {shape})" if name else f"an array ({array.dtype}, {shape})"
        return self.memory.allocate(label, root, offset=_offset(array, span[0]), is_writable=is_writable).base


def _offset(array: Array, start: int) -> int:
    """Where a view starts in the array that owns its memory, which a GPU would align to 256 bytes."""
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return (start - owner.ctypes.data) % 256


def _bytes_of(array: Array, span: tuple[int, int], arrays: Sequence[Array]) -> tuple[Array, bool]:
    """Return the bytes of a span of memory, as a view; and whether a kernel may write there."""
    spec: ArraySpec = spec_of(array)
    if spec.extent == span and spec.is_contiguous:
        return _flat(array), array.flags.writeable
    for other in arrays:
        taken = spec_of(other)
        if taken.extent == span and taken.is_contiguous:
            return _flat(other), other.flags.writeable
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    low, _ = spec_of(owner).extent
    return _flat(owner)[span[0] - low : span[1] - low], array.flags.writeable


def _flat(array: Array) -> Array:
    """View an array's bytes without a copy."""
    if array.flags.c_contiguous or array.ndim == 0:
        dense = array.reshape(-1)
    else:  # dense, but with odd strides on axes of length one, or in Fortran's order
        dense = np.lib.stride_tricks.as_strided(
            array, (array.size,), (array.itemsize,), writeable=array.flags.writeable
        )
    return dense.view(np.uint8)
