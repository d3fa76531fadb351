"""Calls over lists of arrays, in place: one launch for all of a dtype; NumPy and CuPy arrays alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from kernellab.arrays import ArraySpec, spec_of
from kernellab.devices import cuda_arrays
from kernellab.errors import ArgumentError, ExecutionError, SpecError, speaking_as
from kernellab.intake import as_array, check_output, contiguous, writable
from kernellab.kernel import Kernel, Language
from kernellab.measurement import scope
from kernellab.plan import Plan, bind
from kernellab.tensor_lists import flattened, is_list

if TYPE_CHECKING:
    from kernellab.devices.program import Device


@dataclass(frozen=True, eq=False)
class Tensors:
    """The caller's arrays under one name.

    Attributes
    ----------
    name : str
        What the caller calls them.
    arrays : tuple of numpy.ndarray or cupy.ndarray
        As given; of any shapes and strides.
    is_changed : bool
        Whether they are written in place.
    """

    name: str
    arrays: tuple[Any, ...]
    is_changed: bool

    def chosen(self, places: Sequence[int]) -> Tensors:
        """Return some of them."""
        return Tensors(self.name, tuple(self.arrays[k] for k in places), self.is_changed)


def tensors_of(given: Any, name: str, who: str, place: Device, *, is_changed: bool = True) -> Tensors:
    """Take in one array, or a list of such.

    Raises
    ------
    ArgumentError, SpecError, UnavailableError
        For what is no array, or cannot be written where it is to be changed.
    """
    arrays = []
    for k, array in enumerate(given) if is_list(given) else ((None, given),):
        what = f"{who}: {name}" + ("" if k is None else f"[{k}]")
        found = as_array(array, what, place)
        if is_changed:
            found = writable(array, what, place) if cuda_arrays.is_on_gpu(array) else array
            check_output(found, what, None)
        arrays.append(found)
    return Tensors(name, tuple(arrays), is_changed)


def check_together(who: str, lists: Sequence[Tensors]) -> None:
    """Refuse lists of different lengths, arrays of different shapes, and memory shared with what is changed."""
    first = lists[0]
    for other in lists[1:]:
        if len(other.arrays) != len(first.arrays):
            raise SpecError(
                f"{who}: {other.name} has {len(other.arrays)} arrays and {first.name} {len(first.arrays)}; "
                "give as many"
            )
        for k, (one, two) in enumerate(zip(first.arrays, other.arrays, strict=True)):
            if one.shape != two.shape:
                raise SpecError(
                    f"{who}: {other.name}[{k}] has shape {two.shape} and {first.name}[{k}] {one.shape}; "
                    "give arrays of one shape"
                )
    places = sorted(
        (*spec_of(array).extent, f"{each.name}[{k}]", each.is_changed)
        for each in lists
        for k, array in enumerate(each.arrays)
        if array.size
    )
    for (_, end, name, is_changed), (start, _, other_name, is_other) in pairwise(places):
        if start < end and (is_changed or is_other):
            raise SpecError(f"{who}: {name} and {other_name} share memory; each needs its own")


def where_of(who: str, arrays: Sequence[Any]) -> bool:
    """Say whether arrays live on a GPU.

    Raises
    ------
    SpecError
        If some do and some do not.
    """
    kinds = {cuda_arrays.is_on_gpu(array) for array in arrays}
    if len(kinds) > 1:
        raise SpecError(f"{who}: some arrays are on a GPU and some are not; copy them to one place")
    return kinds == {True}


def by_dtype(*lists: Tensors) -> list[list[int]]:
    """Return which arrays have the same dtypes in all lists, in the order of the first of each kind."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for k in range(len(lists[0].arrays)):
        groups.setdefault(tuple(str(each.arrays[k].dtype) for each in lists), []).append(k)
    return list(groups.values())


def call(
    kernel: Kernel,
    who: str,
    lists: Mapping[str, Tensors],
    scalars: Mapping[str, Any],
    place: Device,
    language: Language,
    **parameters: Any,
) -> dict[str, Any]:
    """Run a kernel over lists; what it changes is changed in the caller's arrays.

    Parameters
    ----------
    kernel : Kernel
        Takes a list for each of `lists`.
    who : str
        The function, for messages.
    lists : mapping of str to Tensors
        By the kernel's names; each of one dtype.
    scalars : mapping of str to array
        Its other inputs.
    place, language
        Where, and which.

    Returns
    -------
    dict of str to array
        Its other outputs, by name.
    """
    flat = {name: tuple(_flat(array, who, place) for array in each.arrays) for name, each in lists.items()}
    given = flattened({**flat, **scalars})
    changed = {
        name: array
        for operand, each in lists.items()
        if each.is_changed
        for name, array in flattened({operand: each.arrays}).items()
    }
    with speaking_as(who), scope(place, tuple(given.values()), who):
        is_on_device = place.name == "gpu" and where_of(who, list(given.values()))
        specs = {
            name: tuple(map(_spec, each)) if is_list(each) else _spec(each)
            for name, each in {**flat, **scalars}.items()
        }
        plan = bind(kernel, specs if is_on_device else {**flat, **scalars}, limits=place.limits, **parameters)
        outputs = (_queued if is_on_device else _run)(plan, given, place, language)
        for name, array in outputs.items():
            target = changed.get(name, scalars.get(name))
            if target is not None and target is not array and not _is_view(array, target):
                cuda_arrays.assign(target, array.reshape(target.shape))
    return {name: array for name, array in outputs.items() if name not in given}


def _flat(array: Any, who: str, place: Device) -> Any:
    return contiguous(array, who, place)[0].reshape(-1)


def _spec(array: Any) -> ArraySpec:
    """Describe an array with its own dtype, which the interface spells as bare bytes for bfloat16."""
    return ArraySpec(tuple(array.shape), np.dtype(array.dtype), None, spec_of(array).pointer)


def _is_view(array: Any, target: Any) -> bool:
    return array.size == 0 or (
        type(array) is type(target) and spec_of(array).pointer == spec_of(target).pointer
    )


def _run(plan: Plan, given: Mapping[str, Any], place: Device, language: Language) -> Mapping[str, Any]:
    program = place.build(plan.kernel, language, with_ladder=False)
    run = place.run(program, plan, is_counted=False)
    if run.errors:
        raise ExecutionError(run.failure or run.errors[0])
    return run.outputs


def _queued(plan: Plan, given: Mapping[str, Any], place: Any, language: Language) -> Mapping[str, Any]:
    """Queue the launches on the caller's own arrays; nothing waits."""
    program = place.build(plan.kernel, language, with_ladder=False)
    made = {name: spec for name, spec in {**plan.outputs, **plan.temporaries}.items() if name not in given}
    buffers = {**given, **{name: place.empty(spec) for name, spec in made.items()}}
    for name in plan.zeroed:
        buffers[name].fill(0)
    place.launch(program, plan, buffers)
    place.health.hold(plan.kernel.id, buffers)
    return {name: buffers[name] for name in plan.outputs}


def scalar_of(value: Any, who: str, like: Sequence[Any], place: Device, dtype: str = "float32") -> Any:
    """Return a number as an array of one element that lives where others do; an array as it is.

    Raises
    ------
    ArgumentError, SpecError
        For what is neither.
    """
    if isinstance(value, int | float | np.number):
        return full(value, like, place, dtype)
    array = as_array(value, who, place)
    if array.size != 1:
        raise SpecError(f"{who} has shape {array.shape}, it must hold one number; pass one")
    if array.dtype != np.dtype(dtype):
        raise ArgumentError(f"{who} has dtype {array.dtype}, it must be {dtype}; convert it")
    return array.reshape(1)


def full(value: Any, like: Sequence[Any], place: Any, dtype: str = "float32") -> Any:
    """Return an array of one element that lives where others do."""
    is_on_device = place.name == "gpu" and any(cuda_arrays.is_on_gpu(array) for array in like)
    library = place.cupy if is_on_device else np
    return library.full(1, value, dtype)
