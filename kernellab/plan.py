"""Plan: arrays bound to a kernel. `bind` is pure, needs no GPU, and refuses everything that cannot run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from kernellab import checks
from kernellab.arrays import ArraySpec, spec_of
from kernellab.checks import HOPPER, Limits, Scalar
from kernellab.errors import ArgumentError, SpecError
from kernellab.kernel import TABLE, TWIN_DTYPES, Dim3, Kernel, Language, covering
from kernellab.problem import Cost, Operand
from kernellab.tensor_lists import base_name, flattened, grouped
from kernellab.tensor_map import TensorMap
from kernellab.tensor_table import TensorTable


@dataclass(frozen=True)
class Reference:
    """The place of an array among a launch's arguments: the name of an input, output or temporary.

    With a `box` it is passed as a tensor map of such tiles.
    """

    name: str
    box: tuple[int, ...] = ()
    swizzle: int = 0


@dataclass(frozen=True)
class TableReference:
    """The place of a `TensorTable` among a launch's arguments: names of the arrays of each list, and the rest."""

    names: tuple[tuple[str, ...], ...]
    capacity: int
    first_blocks: tuple[int, ...]
    blocks_before: int


@dataclass(frozen=True)
class Launch:
    """One launch of one kernel.

    Attributes
    ----------
    kernel : Kernel
        What is launched; of a rung with stages, one of its `parts`.
    grid, block : tuple of int
        Blocks and threads along x, y, z.
    shared_mem : int
        Dynamic shared memory in bytes.
    arguments : mapping of str to Reference, TableReference or numpy scalar
        By name, in the order of the ``.cu`` entry.
    constants : mapping of str to int
        The compile-time constants, as the kernel had them.
    """

    kernel: Kernel
    grid: Dim3
    block: Dim3
    shared_mem: int
    arguments: Mapping[str, Reference | TableReference | Scalar]
    constants: Mapping[str, int]

    def values(self, buffers: Mapping[str, Any], language: Language) -> tuple[Any, ...]:
        """Return what is passed in that language, in order.

        Parameters
        ----------
        buffers : mapping of str to array
            Inputs, outputs and temporaries by name.
        language : {"cuda-c", "numba"}
            CUDA C also takes the sizes; the twin reads them from shapes, and sees 16-bit elements as uint16.

        Returns
        -------
        tuple
            Arrays, tensor maps, tensor tables and NumPy scalars.
        """
        passed = (self.arguments[name] for name in self.kernel.arguments_for(language))
        bits = set()
        if language == "numba":
            bits = {item.name for item in self.kernel.operands if item.dtype in TWIN_DTYPES}
        return tuple(_value(item, buffers, bits) for item in passed)


def _value(item: Reference | TableReference | Scalar, buffers: Mapping[str, Any], bits: set[str]) -> Any:
    if isinstance(item, TableReference):
        lists = [[buffers[name] for name in names] for names in item.names]
        return TensorTable(lists, item.capacity, item.first_blocks, item.blocks_before)
    if not isinstance(item, Reference):
        return item
    buffer = buffers[item.name]
    if item.box:
        return TensorMap(buffer, item.box, item.swizzle)
    return buffer.view(np.uint16) if base_name(item.name) in bits else buffer


Step: TypeAlias = Launch


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
    steps: tuple[Step, ...]
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
    outputs = _output_specs(kernel, sizes, lists, pieces)
    given = checks.given_outputs(kernel, outputs, flattened(out or {}), arrays)
    steps: tuple[Step, ...] = ()
    temporaries: dict[str, ArraySpec] = {}
    if any(spec.size for spec in outputs.values()):
        checks.check_values(kernel, arrays, sizes, scalars)
        temporaries, steps = _launches(kernel, sizes, scalars, limits, lists, pieces)
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


def _launches(
    kernel: Kernel,
    sizes: Mapping[str, int],
    scalars: Mapping[str, Scalar],
    limits: Limits,
    lists: tuple[str, ...],
    pieces: Sequence[Mapping[str, int]],
) -> tuple[dict[str, ArraySpec], tuple[Step, ...]]:
    """Return the temporaries and the launches."""
    try:
        at = _known(kernel, sizes, scalars, limits, pieces)
        temporaries = {item.name: _spec(item.at(kernel.element), at) for item in kernel.temporaries}
        steps: tuple[Step, ...] = ()
        for part in kernel.parts:
            if TABLE in part.arguments:
                steps += _table_steps(part, at, sizes, scalars, limits, lists, pieces)
            elif any(operand.name in lists for operand in part.operands):
                for k, piece in enumerate(pieces):
                    names = {name: f"{name}[{k}]" for name in lists}
                    steps += _step(part, {**at, **piece}, {**sizes, **piece}, scalars, limits, names)
            else:
                steps += _step(part, at, sizes, scalars, limits)
    except KeyError as error:
        remedy = "change constants with Kernel.with_constants, which keeps the others"
        raise SpecError(
            f"{kernel.id}: it has no constant {error}, which its launch needs; {remedy}"
        ) from error
    return temporaries, steps


def _table_steps(
    kernel: Kernel,
    at: Mapping[str, int],
    sizes: Mapping[str, int],
    scalars: Mapping[str, Scalar],
    limits: Limits,
    lists: tuple[str, ...],
    pieces: Sequence[Mapping[str, int]],
) -> tuple[Step, ...]:
    """Return the launches over tables: as few as their capacity allows; tensors without elements are left out."""
    blocks = _blocks(kernel, at, pieces)
    filled = [k for k, count in enumerate(blocks) if count]
    steps: tuple[Step, ...] = ()
    before, capacity = 0, int(at["TENSORS"])
    for start in range(0, len(filled), capacity):
        chosen = filled[start : start + capacity]
        ends = list(itertools.accumulate(blocks[k] for k in chosen))
        columns = tuple(
            tuple(f"{name}[{k}]" if name in lists else name for k in chosen) for name in kernel.table
        )
        table = TableReference(columns, capacity, (0, *ends[:-1]), before)
        steps += _step(kernel, {**at, "blocks": ends[-1]}, sizes, scalars, limits, table=table)
        before += ends[-1]
    return steps


def _blocks(kernel: Kernel, at: Mapping[str, int], pieces: Sequence[Mapping[str, int]]) -> list[int]:
    """Return how many blocks work on each array of a list."""
    assert kernel.chunk is not None
    chunk = kernel.chunk(at)
    (axis,) = kernel.problem.operand(kernel.table[0]).shape
    return [covering(piece[axis], chunk) for piece in pieces]


def _check_tiles(kernel: Kernel, steps: tuple[Step, ...], arrays: Mapping[str, Any]) -> None:
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


def _output_specs(
    kernel: Kernel,
    sizes: Mapping[str, int],
    lists: tuple[str, ...],
    pieces: Sequence[Mapping[str, int]],
) -> dict[str, ArraySpec]:
    known = {**sizes, **kernel.constants}
    found: dict[str, Any] = {}
    for operand in kernel.outputs:
        is_list = operand.name in lists
        each = [_spec(operand, {**known, **piece}) for piece in (pieces if is_list else [{}])]
        found[operand.name] = each if is_list else each[0]
    return flattened(found)


def _spec(operand: Operand, known: Mapping[str, int]) -> ArraySpec:
    shape = tuple(int(name if name.isdigit() else known[name]) for name in operand.shape)
    return ArraySpec(shape, operand.numpy_dtype)


def _known(
    kernel: Kernel,
    sizes: Mapping[str, int],
    scalars: Mapping[str, Scalar],
    limits: Limits,
    pieces: Sequence[Mapping[str, int]],
) -> dict[str, int]:
    """Return every integer that geometries, temporaries and derived sizes may ask for."""
    whole = {name: int(value) for name, value in scalars.items() if isinstance(value, np.integer)}
    constants = {name: int(value) for name, value in kernel.constants.items()}
    if kernel.constraint is not None and (broken := kernel.constraint(constants)):
        _check_blocks(kernel, {**sizes, **whole, **constants})
        raise SpecError(f"{kernel.id}: {broken}")
    at = {**sizes, **whole, **constants, "multiprocessors": limits.multiprocessors}
    if kernel.table:
        at["blocks"] = sum(_blocks(kernel, at, pieces))
    for name, derive in kernel.derived.items():
        at[name] = int(derive(at))
    return at


def _check_blocks(kernel: Kernel, at: Mapping[str, int]) -> None:
    for part in kernel.parts:
        checks.check_block(part, part.geometry.block_at(at))


def _step(
    kernel: Kernel,
    at: Mapping[str, int],
    sizes: Mapping[str, int],
    scalars: Mapping[str, Scalar],
    limits: Limits,
    names: Mapping[str, str] = MappingProxyType({}),
    table: TableReference | None = None,
) -> tuple[Step, ...]:
    block = kernel.geometry.block_at(at)
    checks.check_block(kernel, block)
    dynamic = checks.check_shared(kernel, {**at, "threads": math.prod(block)}, limits)
    grid = kernel.geometry.grid_at(at)
    checks.check_grid(kernel, grid)
    if min(grid) < 1:
        return ()
    known: dict[str, Reference | TableReference | Scalar] = {
        item.name: Reference(names.get(item.name, item.name)) for item in kernel.operands
    }
    for name, tile in kernel.tiles.items():
        box = tuple(side if isinstance(side, int) else int(at[side]) for side in tile.box)
        known[name] = Reference(name, box, tile.swizzle)
    known |= {name: np.int64(value) for name, value in sizes.items()}
    known |= {name: np.int64(at[name]) for name in kernel.derived}
    known |= scalars
    if table is not None:
        known[TABLE] = table
    arguments = {name: known[name] for name in kernel.arguments}
    constants = {name: int(value) for name, value in kernel.constants.items()}
    return (Launch(kernel, grid, block, dynamic, arguments, constants),)
