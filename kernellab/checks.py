"""What `bind` refuses: arrays, scalars, outputs and limits, each with one sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from kernellab.arrays import ArraySpec, cast_remedy, one_of, share_memory, spec_of
from kernellab.errors import ArgumentError, SpecError
from kernellab.geometry import BLOCK_SIDES, GRID_SIDES, Dim3
from kernellab.geometry import BLOCK_THREADS as BLOCK_THREADS
from kernellab.kernel import Kernel
from kernellab.problem import MOVED, Operand, Parameter, dtype_named
from kernellab.tensor_lists import each_of, is_list

Scalar: TypeAlias = "np.generic[Any]"


@dataclass(frozen=True)
class Limits:
    """What one device allows a block.

    Attributes
    ----------
    static_shared : int
        Bytes of shared memory that a source may declare.
    shared : int
        Bytes of shared memory, static plus dynamic, after opting in.
    multiprocessors : int
        How many the device has: what grids that loop over their work are chosen from.
    """

    static_shared: int = 48 * 1024
    shared: int = 227 * 1024
    multiprocessors: int = 132


HOPPER = Limits()


def named_inputs(kernel: Kernel, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays that the kernel takes; refuse a name the problem does not know, or one missing."""
    wanted = [operand.name for operand in kernel.inputs]
    known = {operand.name for operand in kernel.problem.operands if operand.is_input}
    for name in inputs:
        if name not in known:
            raise ArgumentError(f"{kernel.id}: there is no input {name!r}; it takes {', '.join(wanted)}")
    for name in wanted:
        if inputs.get(name) is None:
            raise ArgumentError(f"{kernel.id}: the input {name!r} is missing; it takes {', '.join(wanted)}")
    return {name: inputs[name] for name in wanted}


def for_element(kernel: Kernel, arrays: Mapping[str, Any]) -> Kernel:
    """Return the kernel for the elements that the arrays hold; refuse those it is not made for."""
    for operand in kernel.problem.operands:
        if operand.dtype != "element" or operand.name not in arrays or not kernel.elements:
            continue
        given = each_of(arrays[operand.name])
        if not given:
            continue
        who = f"{kernel.id}: {operand.name}" + ("[0]" if is_list(arrays[operand.name]) else "")
        dtype = spec_of(given[0], who).dtype
        for element in kernel.elements:
            if dtype == dtype_named(element):
                return kernel.with_element(element)
        rule = f"it must be {one_of(kernel.elements)}"
        remedy = cast_remedy(dtype, dtype_named(kernel.elements[0]))
        for element in kernel.elements if kernel.elements == MOVED else ():
            if dtype_named(element).itemsize == dtype.itemsize:
                remedy = f"only its bits are moved, so view it with .view({element!r})"
        raise ArgumentError(f"{who} has dtype {dtype}, {rule}; {remedy}")
    return kernel


def lists_of(kernel: Kernel, arrays: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the operands that are given as lists; refuse lists where none is taken, or of different lengths."""
    found = tuple(operand.name for operand in kernel.inputs if is_list(arrays[operand.name]))
    wanted = tuple(operand.name for operand in kernel.inputs if operand.is_list)
    for name in found:
        if name not in wanted:
            raise ArgumentError(f"{kernel.id}: {name} is a list, it must be an array; pass one array")
    for name in wanted if found else ():
        length = len(arrays[name]) if name in found else 0
        if name not in found or length != len(arrays[found[0]]):
            given = f"{length} arrays" if name in found else "one array"
            raise SpecError(
                f"{kernel.id}: {name} is {given} and {found[0]} is {len(arrays[found[0]])}; "
                "give lists that agree"
            )
    return found


def check_lists(
    kernel: Kernel, lists: tuple[str, ...], arrays: Mapping[str, Any], sizes: dict[str, int]
) -> list[dict[str, int]]:
    """Refuse wrong arrays of lists; return the sizes of those that belong together, and enter their sums."""
    if not lists:
        return []
    pieces: list[dict[str, int]] = [{} for _ in arrays[lists[0]]]
    for operand in kernel.inputs:
        for k, array in enumerate(arrays[operand.name]) if operand.name in lists else ():
            check_array(kernel, replace(operand, name=f"{operand.name}[{k}]"), array, pieces[k])
    (axis,) = kernel.problem.operand(lists[0]).shape
    sizes |= {axis: sum(piece[axis] for piece in pieces), "tensors": len(pieces)}
    return pieces


def check_array(kernel: Kernel, operand: Operand, array: Any, sizes: dict[str, int]) -> None:
    """Refuse a wrong dtype, shape, layout or alignment; enter the sizes that the array brings."""
    who = f"{kernel.id}: {operand.name}"
    spec = spec_of(array, who)
    if spec.dtype != operand.numpy_dtype:
        remedy = cast_remedy(spec.dtype, operand.numpy_dtype)
        raise ArgumentError(f"{who} has dtype {spec.dtype}, it must be {operand.dtype}; {remedy}")
    axes = len(operand.shape)
    wanted = f"({', '.join(operand.shape)}{',' if axes == 1 else ''})"
    if len(spec.shape) != axes:
        raise SpecError(f"{who} has shape {spec.shape}, it must be {wanted}, {axes}-dimensional; reshape it")
    for name, length in zip(operand.shape, spec.shape, strict=True):
        expected = int(name) if name.isdigit() else kernel.constants.get(name, sizes.get(name))
        if expected is None:
            sizes[name] = int(length)
        elif expected != length:
            rule = f"it must be {wanted} with {name} = {expected}"
            raise SpecError(f"{who} has shape {spec.shape}, {rule}; give arrays that agree")
    check_layout(kernel, who, spec)


def check_layout(kernel: Kernel, who: str, spec: ArraySpec) -> None:
    """Refuse an array that is not C-contiguous or not aligned as the kernel needs it."""
    if not spec.is_contiguous:
        raise SpecError(
            f"{who} has shape {spec.shape} and strides {spec.strides}, it must be C-contiguous; "
            "copy it with numpy.ascontiguousarray"
        )
    if broken := misalignment(kernel, who, spec):
        raise SpecError(f"{broken}; copy it or take a rung without vector access")


def misalignment(kernel: Kernel, who: str, spec: ArraySpec) -> str:
    """Return how an array breaks the alignment that the kernel needs, or nothing."""
    alignment = kernel.alignment or spec.dtype.itemsize
    past = spec.pointer % alignment if spec.size else 0
    rule = f"it must be {alignment}-byte aligned"
    return f"{who} starts {past} bytes past a multiple of {alignment}, {rule}" if past else ""


def scalar(kernel: Kernel, parameter: Parameter, value: Any) -> Scalar:
    """Return the value as a NumPy scalar of the parameter's dtype; refuse one that does not fit."""
    maximum = parameter.maximum if isinstance(parameter.maximum, int | float) else None
    return number(f"{kernel.id}: {parameter.name}", value, parameter.dtype, parameter.minimum, maximum)


def number(
    who: str, value: Any, dtype: Any, minimum: float | None = None, maximum: float | None = None
) -> Scalar:
    """Return the value as a NumPy scalar of a dtype; refuse one that does not fit, or lies outside of bounds."""
    dtype = np.dtype(dtype)
    is_whole = dtype.kind in "iu"
    kinds = (int, np.integer) if is_whole else (int, float, np.integer, np.floating)
    if isinstance(value, bool) or not isinstance(value, kinds):
        kind = "an integer" if is_whole else "a number"
        raise ArgumentError(f"{who} is {value!r}, it must be {kind}; pass one that fits {dtype}")
    amount = int(value) if isinstance(value, int | np.integer) else float(value)
    largest = int(np.iinfo(dtype).max) if is_whole else float(np.finfo(dtype).max)
    if largest < abs(amount) < math.inf:
        raise SpecError(f"{who} is {value}, it must fit {dtype}; pass one up to {largest}")
    if minimum is not None and not amount >= minimum:  # nor NaN
        remedy = "raise it" if amount < minimum else "pass a number"
        raise SpecError(f"{who} is {value}, it must be at least {minimum}; {remedy}")
    if maximum is not None and amount > maximum:
        raise SpecError(f"{who} is {value}, it must be at most {maximum}; lower it")
    typed: Scalar = dtype.type(amount)
    return typed


def check_values(
    kernel: Kernel, arrays: Mapping[str, Any], sizes: Mapping[str, int], scalars: Mapping[str, Scalar]
) -> None:
    """Refuse scalars beyond a size, and NumPy index arrays that point outside."""
    for parameter in kernel.parameters:
        value = scalars[parameter.name]
        if isinstance(parameter.maximum, str) and int(value) > sizes[parameter.maximum]:
            rule = f"it must be at most {parameter.maximum} = {sizes[parameter.maximum]}"
            raise SpecError(f"{kernel.id}: {parameter.name} is {value}, {rule}; lower it")
    for operand in kernel.inputs:
        array = arrays.get(operand.name)  # a list has none of its name, and holds no indices
        if operand.index_of is None or not isinstance(array, np.ndarray) or array.size == 0:
            continue
        length, low, high = sizes[operand.index_of], int(array.min()), int(array.max())
        least = -length if operand.is_wrapping else 0
        if low < least or high >= length:
            rule = f"an index must lie in [{least}, {length})"
            worst = low if low < least else high
            raise SpecError(f"{kernel.id}: {operand.name} holds {worst}, {rule}; correct it")


def given_outputs(
    kernel: Kernel, outputs: Mapping[str, ArraySpec], out: Mapping[str, Any], arrays: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the caller's outputs; refuse what cannot be written, or shares memory with another array."""
    for name, array in out.items():
        who = f"{kernel.id}: {name}"
        if name not in outputs:
            raise ArgumentError(f"{who} is not an output; the outputs are {', '.join(outputs)}")
        spec, wanted = spec_of(array, who), outputs[name]
        if spec.dtype != wanted.dtype:
            rule = f"it must be {wanted.dtype}"
            raise ArgumentError(f"{who} has dtype {spec.dtype}, {rule}; give another output")
        if spec.shape != wanted.shape:
            raise SpecError(f"{who} has shape {spec.shape}, it must be {wanted.shape}; give another output")
        check_layout(kernel, who, spec)
        if isinstance(array, np.ndarray) and not array.flags.writeable:
            raise SpecError(f"{who} is read-only, an output must be writeable; give another output")
        others = {**arrays, **{key: value for key, value in out.items() if key != name}}
        for other, taken in others.items():
            _check_apart(who, spec, other, spec_of(taken, other))
    return dict(out)


def _check_apart(who: str, spec: ArraySpec, other: str, taken: ArraySpec) -> None:
    if share_memory(spec, taken):
        raise SpecError(f"{who} overlaps {other}, an output needs memory of its own; give another output")


def remedy_of(kernel: Kernel) -> str:
    """Return what to change when a block is too large."""
    sides = [side for side in kernel.geometry.block if isinstance(side, str)]
    names = sides or [name for name in kernel.constants if name != "ELEMENT"]
    return f"lower {names[0]} (now {kernel.constants[names[0]]})" if names else "lower the block size"


def check_block(kernel: Kernel, block: Dim3) -> None:
    """Refuse a block with no threads, or with more than the hardware takes."""
    threads = math.prod(block)
    if min(block) < 1:
        raise SpecError(f"{kernel.id}: block is {block}, each side must be at least 1; raise it")
    if threads > BLOCK_THREADS:
        rule = f"the limit is {BLOCK_THREADS}"
        raise SpecError(f"{kernel.id}: block has {threads} threads, {rule}; {remedy_of(kernel)}")
    for axis, side, limit in zip("xyz", block, BLOCK_SIDES, strict=True):
        if side > limit:
            rule = f"the limit is {limit}"
            raise SpecError(
                f"{kernel.id}: block has {side} threads along {axis}, {rule}; {remedy_of(kernel)}"
            )


def check_grid(kernel: Kernel, grid: Dim3) -> None:
    """Refuse a grid with more blocks than the hardware takes."""
    for axis, side, limit in zip("xyz", grid, GRID_SIDES, strict=True):
        if side > limit:
            rule = f"the limit is {limit}"
            raise SpecError(f"{kernel.id}: grid has {side} blocks along {axis}, {rule}; split the work")


def _shared_remedy(kernel: Kernel) -> str:
    """Return what to change when a block asks for too much shared memory, whatever its size."""
    has_constants = any(name != "ELEMENT" for name in kernel.constants)
    return remedy_of(kernel) if has_constants else "ask for fewer bytes"


def check_shared(kernel: Kernel, at: Mapping[str, int], limits: Limits) -> int:
    """Return the dynamic shared memory in bytes; refuse more than the device gives a block."""
    geometry = kernel.geometry
    static = int(geometry.static_shared(at)) if geometry.static_shared else 0
    dynamic = int(geometry.dynamic_shared(at)) if geometry.dynamic_shared else 0
    if static > limits.static_shared:
        rule = f"the limit is {limits.static_shared}"
        who = f"{kernel.id}: block declares {static} bytes of shared memory"
        raise SpecError(f"{who}, {rule}; {_shared_remedy(kernel)}")
    if static + dynamic > limits.shared:
        rule = f"the limit is {limits.shared}"
        who = f"{kernel.id}: block needs {static + dynamic} bytes of shared memory"
        raise SpecError(f"{who}, {rule}; {_shared_remedy(kernel)}")
    return dynamic
