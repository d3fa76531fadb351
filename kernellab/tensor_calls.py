"""Calls over lists of arrays, in place: one launch for all of a dtype; NumPy and CuPy arrays alike."""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kernellab import catalog, checks
from kernellab.arrays import ArraySpec, spec_of
from kernellab.devices import cuda_arrays
from kernellab.errors import ArgumentError, ExecutionError, SpecError, speaking_as
from kernellab.intake import as_array, contiguous
from kernellab.kernel import Kernel, Language
from kernellab.measurement import scope
from kernellab.plan import Plan, bind
from kernellab.tensor_intake import Place, Tensors, by_dtype, check_together, is_array, places_of, where_of
from kernellab.tensor_lists import flattened, is_list
from kernellab.tensor_table import TensorTable

if TYPE_CHECKING:
    from kernellab.devices.program import Device


def rung(problem: str, language: Language) -> Kernel:
    """Return what runs over lists: one launch for all, or in Numba one for each array."""
    return catalog.kernel(f"{problem}/{'vectorised' if language == 'numba' else 'multi'}")


def over_lists(
    who: str,
    task: str,
    lists: Sequence[Tensors],
    scalars: Mapping[str, Any],
    place: Any,
    language: Language,
    kernel_for: Callable[[Mapping[str, Tensors]], Kernel],
    **parameters: Any,
) -> list[dict[str, Any]]:
    """Run a kernel over lists of arrays that belong together, once for each combination of dtypes.

    What it changes is changed in the caller's arrays. Arrays on a GPU that were seen before, at the same places,
    are neither looked at nor bound again: that takes much longer than the kernel.

    Parameters
    ----------
    who : str
        The function, for messages.
    task : str
        What is done: a function may do two things to the same lists.
    lists : sequence of Tensors
        As many arrays in each.
    scalars : mapping of str to array
        The kernel's other inputs.
    place, language
        Where, and which.
    kernel_for : callable
        ``kernel_for(lists)``: the kernel for lists of one dtype each.
    **parameters
        Its run-time scalars.

    Returns
    -------
    list of dict of str to array
        Of each run the other outputs, by name.
    """
    key = _key(f"{who}: {task}", lists, scalars, place, language)
    prepared = _PREPARED.get(key) if key is not None else None
    numbers = [
        Tensors(name, CALLED.get(name, name), array, is_changed=False) for name, array in scalars.items()
    ]
    if prepared is not None:
        known, changed = prepared
        _check_numbers(who, numbers, changed)
        with scope(place, (*lists[0].arrays[:1], *scalars.values()), who):
            return [_queued(_with(plan, parameters, who), scalars, place, language) for plan in known]
    taken = [each.taken(who, place) for each in lists]
    check_together(who, taken, numbers)
    found, plans = [], []
    for places in by_dtype(*taken) or [[]]:
        chosen = {each.operand: each.chosen(places) for each in taken}
        plan, outputs = call(kernel_for(chosen), who, chosen, scalars, place, language, **parameters)
        found.append(outputs)
        plans.append(plan)
    if key is not None:
        while len(_PREPARED) >= KEPT:
            _PREPARED.pop(next(iter(_PREPARED)))
        changed = places_of([each for each in taken if each.is_changed])
        _PREPARED[key] = [_encoded(plan) for plan in plans], changed
    return found


KEPT = 64
_PREPARED: dict[tuple[Any, ...], tuple[list[Plan], list[Place]]] = {}
"""Plans by what they were made for, tables encoded, and where the arrays lie that they change."""

CALLED = {"found": "found_inf"}
"""What callers call a number that kernels call something else."""


def _check_numbers(who: str, numbers: Sequence[Tensors], places: Sequence[Place]) -> None:
    """Refuse a number that lies in an array that is changed; these are contiguous, and apart from each other."""
    for each in numbers:
        at, end = each.given.data.ptr, each.given.data.ptr + each.given.nbytes
        k = bisect_left(places, end, key=operator.attrgetter("start"))
        if k and places[k - 1].end > at:
            raise SpecError(f"{who}: {places[k - 1].name} and {each.name} share memory; each needs its own")


def _key(
    what: str, lists: Sequence[Tensors], scalars: Mapping[str, Any], place: Any, language: Language
) -> tuple[Any, ...] | None:
    """Return what tells whether a plan can be used again; None where arrays have to be copied, or looked at."""
    if place.name != "gpu" or language != "cuda-c":
        return None
    parts: list[Any] = [what, place, place.number]
    for each in lists:
        parts.append((each.operand, is_list(each.given)))
        for array in each.arrays:
            if not isinstance(array, place.cupy.ndarray) or not array.flags.c_contiguous:
                return None
            parts.append((array.data.ptr, array.shape, array.dtype))
    return tuple(parts) if all(isinstance(one, place.cupy.ndarray) for one in scalars.values()) else None


def _encoded(plan: Plan) -> Plan:
    """Return a plan whose tables are bytes, so that it needs its lists no more."""
    buffers = {**dict.fromkeys([*plan.outputs, *plan.temporaries]), **plan.inputs}
    steps = []
    for step in plan.steps:
        values = zip(step.kernel.arguments, step.values(buffers, "cuda-c"), strict=True)
        tables = {name: each.encode_for_driver() for name, each in values if isinstance(each, TensorTable)}
        steps.append(replace(step, arguments={**step.arguments, **tables}))
    return replace(plan, steps=tuple(steps), inputs={}, lists=())


def _with(plan: Plan, parameters: Mapping[str, Any], who: str) -> Plan:
    """Return a plan with other run-time scalars."""
    with speaking_as(who):
        scalars = {
            item.name: checks.scalar(plan.kernel, item, parameters.get(item.name, item.default))
            for item in plan.kernel.parameters
        }
    steps = tuple(
        replace(
            step, arguments={**step.arguments, **{k: v for k, v in scalars.items() if k in step.arguments}}
        )
        for step in plan.steps
    )
    return replace(plan, steps=steps, parameters=scalars)


def call(
    kernel: Kernel,
    who: str,
    lists: Mapping[str, Tensors],
    scalars: Mapping[str, Any],
    place: Device,
    language: Language,
    **parameters: Any,
) -> tuple[Plan, dict[str, Any]]:
    """Run a kernel over lists of one dtype each; return what ran, and its other outputs by name."""
    flat = {name: tuple(_flat(array, who, place) for array in each.arrays) for name, each in lists.items()}
    given = flattened({**flat, **scalars})
    targets = flattened({name: each.arrays for name, each in lists.items() if each.is_changed}) | dict(
        scalars
    )
    with speaking_as(who), scope(place, tuple(given.values()), who):
        is_on_device = place.name == "gpu" and where_of(who, list(given.values()))
        specs = {
            name: tuple(map(_spec, each)) if is_list(each) else _spec(each)
            for name, each in {**flat, **scalars}.items()
        }
        taken = specs if is_on_device else {**flat, **scalars}
        plan = bind(kernel, taken, limits=place.limits, fall_back=True, **parameters)
        outputs = (_queued if is_on_device else _run)(plan, given, place, language)
        changed = {**{name: given[name] for name in plan.in_place}, **outputs}
        for name, array in changed.items():
            target = targets.get(name)
            if target is not None and target is not array and not _is_view(array, target):
                cuda_arrays.assign(target, array.reshape(target.shape))
    return plan, {name: array for name, array in outputs.items() if name not in given}


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


def _queued(plan: Plan, given: Mapping[str, Any], place: Any, language: Language) -> dict[str, Any]:
    """Queue the launches on the caller's own arrays, and return the outputs that it has not; nothing waits."""
    program = place.build(plan.kernel, language, with_ladder=False)
    changed = set(plan.in_place)
    made = {name: spec for name, spec in {**plan.outputs, **plan.temporaries}.items() if name not in changed}
    buffers = {**given, **{name: place.empty(spec) for name, spec in made.items()}}
    for name in plan.zeroed:
        buffers[name].fill(0)
    place.launch(program, plan, buffers)
    place.health.hold(plan.kernel.id, buffers)
    return {name: buffers[name] for name in plan.outputs if name not in changed}


def scalar_of(value: Any, who: str, like: Sequence[Any], place: Device, dtype: str = "float32") -> Any:
    """Return a number as an array of one element that lives where others do; an array as it is.

    Raises
    ------
    ArgumentError, SpecError
        For what is neither.
    """
    if isinstance(value, int | float | np.number | np.bool_):
        number = value if isinstance(value, bool | np.bool_) else checks.number(who, value, dtype)
        return _constant(number, like, place, dtype)
    if not is_array(value):
        kind = type(value).__name__
        raise ArgumentError(f"{who} is a {kind}, it must be a number or an array of one {dtype}; pass one")
    array = as_array(value, who, place)
    if array.size != 1:
        raise SpecError(f"{who} has shape {array.shape}, it must hold one number; pass one")
    if array.dtype != np.dtype(dtype):
        raise ArgumentError(f"{who} has dtype {array.dtype}, it must be {dtype}; convert it")
    return beside(array.reshape(1), like, place)


def beside(array: Any, like: Sequence[Any], place: Any) -> Any:
    """Return an array where others live, if that is a GPU; as it is otherwise."""
    if not _is_on_device(like, place) or cuda_arrays.is_on_gpu(array):
        return array
    with scope(place, tuple(like[:1]), "a number"):
        return place.on_device(array, copy=True)


def _constant(value: Any, like: Sequence[Any], place: Any, dtype: str) -> Any:
    """Return an array of one element that nobody changes; one on a GPU is made once, for every stream."""
    if not _is_on_device(like, place):
        return full(value, like, place, dtype)
    with scope(place, tuple(like[:1]), "a constant"):
        key = (place, place.number, float(value), dtype)
        if key not in _CONSTANTS:
            while len(_CONSTANTS) >= KEPT:
                _CONSTANTS.pop(next(iter(_CONSTANTS)))
            _CONSTANTS[key] = full(value, like, place, dtype)
            place.cupy.cuda.get_current_stream().synchronize()
        return _CONSTANTS[key]


_CONSTANTS: dict[tuple[Any, ...], Any] = {}


def full(value: Any, like: Sequence[Any], place: Any, dtype: str = "float32") -> Any:
    """Return an array of one element that lives where others do."""
    if not _is_on_device(like, place):
        return np.full(1, value, dtype)
    with scope(place, tuple(like[:1]), "a number"):
        return place.cupy.full(1, value, dtype)


def _is_on_device(arrays: Sequence[Any], place: Any) -> bool:
    return place.name == "gpu" and any(cuda_arrays.is_on_gpu(array) for array in arrays)
