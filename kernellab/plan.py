"""Plan: arrays bound to a kernel. `bind` is pure, needs no GPU, and refuses everything that cannot run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kernellab import checks
from kernellab.arrays import ArraySpec, spec_of
from kernellab.checks import HOPPER, Limits, Scalar
from kernellab.errors import ArgumentError, SpecError
from kernellab.kernel import Kernel
from kernellab.launch import Asked, Launch, Reference, TableReference, launches, spec_at
from kernellab.problem import Cost
from kernellab.tensor_lists import base_name, flattened, grouped
from kernellab.tensor_map import TensorMap


@dataclass(frozen=True)
class Plan:
    """What will run: launches over named arrays.

    Attributes
    ----------
    kernel : Kernel
        The rung.
    steps : tuple of Launch
        In order; empty when there is nothing to do.
    inputs : mapping of str to array
        As given; those of a list by names such as ``x[0]``.
    outputs : mapping of str to ArraySpec
        To be allocated and poisoned before each run, unless `given` holds them.
    given : mapping of str to array
        Outputs that the caller wants written in place.
    sizes : mapping of str to int
        Sizes found from the inputs.
    parameters : mapping of str to numpy scalar
        Run-time scalars, typed.
    temporaries : mapping of str to ArraySpec
        Scratch arrays.
    zeroed : tuple of str
        Outputs and temporaries to fill with zero before each run, outside the timed span.
    in_place : tuple of str
        Inputs that the kernel changes: whoever runs passes a fresh copy each time.
    notes : tuple of str
        What was done otherwise than asked, such as a fallback to another rung.
    lists : tuple of str
        Operands that are lists of arrays here.
    """

    kernel: Kernel
    steps: tuple[Launch, ...]
    inputs: Mapping[str, Any]
    outputs: Mapping[str, ArraySpec]
    given: Mapping[str, Any]
    sizes: Mapping[str, int]
    parameters: Mapping[str, Scalar]
    temporaries: Mapping[str, ArraySpec] = field(default_factory=dict)
    zeroed: tuple[str, ...] = ()
    in_place: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()

    def fresh_inputs(self) -> dict[str, Any]:
        """Return the inputs, those that the kernel changes as copies of their own."""
        return {name: array.copy() if name in self.in_place else array for name, array in self.inputs.items()}

    def cost(self) -> Cost:
        """Return the compulsory traffic and work of this plan."""
        return (self.kernel.cost or self.kernel.problem.cost)(self.sizes, self._arrays)

    @property
    def _arrays(self) -> dict[str, Any]:
        """The inputs by operand."""
        return grouped(self.inputs, self.lists) if self.lists else dict(self.inputs)

    def reference(self) -> dict[str, Any]:
        """Return the NumPy answer, by output name."""
        with np.errstate(all="ignore"):  # infinities and NaN are values to compare, not mistakes
            return flattened(self.kernel.problem.reference(**self._arrays, **self.parameters))

    def magnitude(self) -> dict[str, Any]:
        """Return what the error of each output is in proportion to; empty where it is the answer itself."""
        magnitude = self.kernel.problem.magnitude
        with np.errstate(all="ignore"):
            return {} if magnitude is None else flattened(magnitude(**self._arrays, **self.parameters))

    @property
    def roundings(self) -> int:
        """How many roundings a right answer may carry."""
        own = self.kernel.roundings
        roundings = self.kernel.problem.roundings if own is None else own
        return roundings if isinstance(roundings, int) else roundings(self.sizes)


def bind(
    kernel: Kernel,
    inputs: Mapping[str, Any],
    *,
    out: Mapping[str, Any] | None = None,
    limits: Limits = HOPPER,
    fall_back: bool = False,
    **parameters: Any,
) -> Plan:
    """Bind arrays to a kernel: check everything, work out sizes, geometry and arguments.

    Parameters
    ----------
    kernel : Kernel
        The rung.
    inputs : mapping of str to array
        One array for each of ``kernel.inputs``: NumPy, anything with ``__cuda_array_interface__``, or an
        `ArraySpec`. Inputs that only other rungs of the problem take are ignored. For an operand that may be a
        list, also a list of such: each of them is launched for, or all by one table.
    out : mapping of str to array, optional
        Outputs to write in place.
    limits : Limits
        The device's shared-memory limits.
    fall_back : bool
        Take the kernel's fallback where an array is not aligned as the kernel needs it, or has a size that it
        does not take, and say so in the plan's notes, instead of refusing.
    **parameters : int or float
        Run-time scalars that differ from their defaults.

    Returns
    -------
    Plan
        With no steps when every output is empty.

    Raises
    ------
    ArgumentError
        For an argument missing, unknown, or of the wrong kind or dtype.
    SpecError
        For a shape, layout, alignment, value or limit that breaks a rule.

    Examples
    --------
    >>> import numpy as np
    >>> from kernellab.catalog import kernel
    >>> plan = bind(kernel("transpose/padded"), {"x": np.zeros((3, 1000), "float32")})
    >>> plan.steps[0].grid, plan.steps[0].block, plan.outputs["y"].shape
    ((32, 1, 1), (32, 32, 1), (1000, 3))
    """
    arrays = checks.named_inputs(kernel, inputs)
    lists = checks.lists_of(kernel, arrays)
    if (
        fall_back
        and kernel.fallback is not None
        and (why := _misalignment(kernel, flattened({**arrays, **(out or {})})))
    ):
        return _fallen_back(kernel.fallback, why, inputs, out, limits, parameters)
    kernel = checks.for_element(kernel, arrays)
    sizes: dict[str, int] = {}
    pieces = checks.check_lists(kernel, lists, arrays, sizes)
    for operand in kernel.inputs:
        if operand.name not in lists:
            checks.check_array(kernel, operand, arrays[operand.name], sizes)
    if not lists:
        pieces = [sizes]
    arrays = flattened(arrays)
    if kernel.refusal is not None and (reason := kernel.refusal(sizes)):
        if not fall_back or kernel.fallback is None:
            raise SpecError(f"{kernel.id}: {reason}")
        return _fallen_back(kernel.fallback, f"{kernel.id}: {reason}", inputs, out, limits, parameters)
    kernel = kernel.tuned(sizes, limits.multiprocessors)
    for name in parameters:
        if name not in {item.name for item in kernel.parameters}:
            known = ", ".join(item.name for item in kernel.parameters) or "none"
            raise ArgumentError(f"{kernel.id}: there is no parameter {name!r}; it takes {known}")
    scalars = {
        item.name: checks.scalar(kernel, item, parameters.get(item.name, item.default))
        for item in kernel.parameters
    }
    if kernel.problem.refusal is not None and (reason := kernel.problem.refusal(sizes)):
        raise SpecError(f"{kernel.id}: {reason}")
    asked = Asked(sizes, scalars, limits, lists, pieces)
    outputs = _output_specs(kernel, asked)
    given = checks.given_outputs(kernel, outputs, flattened(out or {}), arrays)
    steps: tuple[Launch, ...] = ()
    temporaries: dict[str, ArraySpec] = {}
    if any(spec.size for spec in outputs.values()):
        checks.check_values(kernel, arrays, sizes, scalars)
        temporaries, steps = launches(kernel, asked)
        if kernel.tiles:
            _check_tiles(kernel, steps, {**arrays, **outputs, **temporaries, **given})
    changed = {operand.name for operand in kernel.operands if operand.role == "inout"}
    in_place = tuple(name for name in arrays if base_name(name) in changed)
    held = {**outputs, **temporaries}
    return Plan(
        kernel,
        steps,
        arrays,
        outputs,
        given,
        sizes,
        scalars,
        temporaries,
        zeroed=tuple(name for name in kernel.zeroed if name in held),
        in_place=in_place,
        lists=lists,
    )


def _check_tiles(kernel: Kernel, steps: tuple[Launch, ...], arrays: Mapping[str, Any]) -> None:
    for step in steps:
        for item in step.arguments.values():
            if isinstance(item, Reference) and item.box:
                try:
                    TensorMap(spec_of(arrays[item.name], item.name), item.box, item.swizzle)
                except SpecError as error:
                    rule = str(error).removeprefix("TensorMap: ")
                    raise SpecError(f"{kernel.id}: {item.name} cannot be a tensor map: {rule}") from error


def _fallen_back(
    kernel: Kernel,
    why: str,
    inputs: Mapping[str, Any],
    out: Mapping[str, Any] | None,
    limits: Limits,
    parameters: Mapping[str, Any],
) -> Plan:
    plan = bind(kernel, inputs, out=out, limits=limits, fall_back=True, **parameters)
    return replace(plan, notes=(f"{why}; {kernel.id} ran instead", *plan.notes))


def _misalignment(kernel: Kernel, arrays: Mapping[str, Any]) -> str:
    found = (
        checks.misalignment(kernel, f"{kernel.id}: {name}", spec_of(array, name))
        for name, array in arrays.items()
    )
    return next((broken for broken in found if broken), "")


def _output_specs(kernel: Kernel, asked: Asked) -> dict[str, ArraySpec]:
    known = {**asked.sizes, **kernel.constants}
    found: dict[str, Any] = {}
    for operand in kernel.outputs:
        is_list = operand.name in asked.lists
        each = [spec_at(operand, {**known, **piece}) for piece in (asked.pieces if is_list else [{}])]
        found[operand.name] = each if is_list else each[0]
    return flattened(found)


__all__ = ["Launch", "Plan", "Reference", "TableReference", "bind"]
