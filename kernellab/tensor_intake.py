"""Lists of the caller's arrays, taken in and looked at together: dtypes, shapes, places, memory in common."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kernellab.arrays import ArraySpec, cast_remedy, one_of, share_memory, spec_of
from kernellab.devices import cuda_arrays
from kernellab.errors import ArgumentError, SpecError
from kernellab.intake import as_array, check_output, writable
from kernellab.problem import ELEMENTS, dtype_named
from kernellab.tensor_lists import each_of, is_list

if TYPE_CHECKING:
    from kernellab.devices.program import Device


@dataclass(frozen=True, eq=False)
class Tensors:
    """The caller's arrays under one name.

    Attributes
    ----------
    operand, name : str
        What the kernel and the caller call them.
    given : array or list of array
        Of any shapes and strides. What an iterator gives is taken as a list.
    dtypes : tuple of str
        What they may hold.
    is_changed : bool
        Whether they are written in place.
    """

    operand: str
    name: str
    given: Any
    dtypes: tuple[str, ...] = ELEMENTS
    is_changed: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.given, Iterator):
            object.__setattr__(self, "given", list(self.given))

    @property
    def arrays(self) -> tuple[Any, ...]:
        """All of them."""
        return each_of(self.given)

    def chosen(self, places: Sequence[int]) -> Tensors:
        """Return some of them."""
        return replace(self, given=tuple(self.arrays[k] for k in places))

    def taken(self, who: str, place: Device) -> Tensors:
        """Return them as NumPy's or CuPy's arrays.

        Raises
        ------
        ArgumentError, SpecError, UnavailableError
            For what is no array, has another dtype, or cannot be written where it is to be changed.
        """
        known = [dtype_named(dtype) for dtype in self.dtypes]
        arrays = []
        if not (is_list(self.given) or self.given is None or is_array(self.given)):
            kind, rule = type(self.given).__name__, "it must be an array, or a list or tuple of arrays"
            raise ArgumentError(f"{who}: {self.name} is a {kind}, {rule}; make one of them")
        for k, array in enumerate(self.arrays):
            name = f"{self.name}[{k}]" if is_list(self.given) else self.name
            what = f"{who}: {name}"
            found = as_array(array, what, place)
            if self.is_changed:
                found = writable(array, who, place, name) if cuda_arrays.is_on_gpu(array) else array
                check_output(found, who, None, name=name)
            if found.dtype not in known:
                remedy = cast_remedy(np.dtype(found.dtype), known[0])
                rule = f"it must be {one_of(self.dtypes)}"
                raise ArgumentError(f"{what} has dtype {found.dtype}, {rule}; {remedy}")
            arrays.append(found)
        return replace(self, given=tuple(arrays))


def is_array(given: Any) -> bool:
    """Whether it is an array of any library."""
    protocols = ("__array__", "__dlpack__", "__cuda_array_interface__")
    return any(hasattr(given, name) for name in protocols)


def check_together(who: str, lists: Sequence[Tensors], numbers: Sequence[Tensors] = ()) -> None:
    """Refuse lists of different lengths, arrays of different shapes, and memory shared with what is changed.

    Numbers belong to no list, and share no memory either.
    """
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
    check_apart(who, places_of([*lists, *numbers]))


@dataclass(frozen=True, eq=False)
class Place:
    """Where an array lies, under the name that its caller knows."""

    start: int
    end: int
    name: str
    is_changed: bool
    spec: ArraySpec


def places_of(lists: Sequence[Tensors]) -> list[Place]:
    """Return where all arrays of lists lie, in the order of their first bytes."""
    places = [
        Place(*spec.extent, f"{each.name}[{k}]" if is_list(each.given) else each.name, each.is_changed, spec)
        for each in lists
        for k, spec in enumerate(map(spec_of, each.arrays))
        if spec.size
    ]
    return sorted(places, key=operator.attrgetter("start"))


def check_apart(who: str, places: Sequence[Place]) -> None:
    """Refuse memory shared with what is changed, among places in the order of their first bytes."""
    before: list[Place] = []
    for place in places:
        before = [other for other in before if other.end > place.start]
        for other in before:
            if (place.is_changed or other.is_changed) and share_memory(place.spec, other.spec):
                raise SpecError(f"{who}: {other.name} and {place.name} share memory; each needs its own")
        before.append(place)


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
