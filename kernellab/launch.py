"""Launch: one launch of one kernel, and those that a kernel takes over its arrays."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from kernellab import checks
from kernellab.arrays import ArraySpec
from kernellab.checks import Limits, Scalar
from kernellab.errors import SpecError
from kernellab.geometry import Dim3, covering
from kernellab.kernel import TABLE, TWIN_DTYPES, Kernel, Language
from kernellab.problem import Operand
from kernellab.tensor_lists import base_name
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


@dataclass(frozen=True)
class Asked:
    """What a kernel is launched for.

    Attributes
    ----------
    sizes : mapping of str to int
        Sizes found from the inputs.
    scalars : mapping of str to numpy scalar
        Run-time scalars, typed.
    limits : Limits
        Of the device.
    lists : tuple of str
        Operands that are lists of arrays.
    pieces : sequence of mapping of str to int
        The sizes of each array of the lists.
    """

    sizes: Mapping[str, int]
    scalars: Mapping[str, Scalar]
    limits: Limits
    lists: tuple[str, ...]
    pieces: Sequence[Mapping[str, int]]


def launches(kernel: Kernel, asked: Asked) -> tuple[dict[str, ArraySpec], tuple[Launch, ...]]:
    """Return the temporaries of a kernel, and its launches in order."""
    try:
        at = _known(kernel, asked)
        temporaries = {item.name: spec_at(item.at(kernel.element), at) for item in kernel.temporaries}
        steps: tuple[Launch, ...] = ()
        for part in kernel.parts:
            if TABLE in part.arguments:
                steps += _over_tables(part, at, asked)
            elif any(operand.name in asked.lists for operand in part.operands):
                for k, piece in enumerate(asked.pieces):
                    names = {name: f"{name}[{k}]" for name in asked.lists}
                    own = replace(asked, sizes={**asked.sizes, **piece})
                    steps += _launch(part, {**at, **piece}, own, names)
            else:
                steps += _launch(part, at, asked)
    except KeyError as error:
        remedy = "change constants with Kernel.with_constants, which keeps the others"
        raise SpecError(
            f"{kernel.id}: it has no constant {error}, which its launch needs; {remedy}"
        ) from error
    return temporaries, steps


def _over_tables(kernel: Kernel, at: Mapping[str, int], asked: Asked) -> tuple[Launch, ...]:
    """Return the launches over tables: as few as their capacity allows; tensors without elements are left out."""
    blocks = _blocks(kernel, at, asked.pieces)
    filled = [k for k, count in enumerate(blocks) if count]
    steps: tuple[Launch, ...] = ()
    before, capacity = 0, int(at["TENSORS"])
    for start in range(0, len(filled), capacity):
        chosen = filled[start : start + capacity]
        ends = list(itertools.accumulate(blocks[k] for k in chosen))
        columns = tuple(
            tuple(f"{name}[{k}]" if name in asked.lists else name for k in chosen) for name in kernel.table
        )
        table = TableReference(columns, capacity, (0, *ends[:-1]), before)
        steps += _launch(kernel, {**at, "blocks": ends[-1]}, asked, table=table)
        before += ends[-1]
    return steps


def _blocks(kernel: Kernel, at: Mapping[str, int], pieces: Sequence[Mapping[str, int]]) -> list[int]:
    """Return how many blocks work on each array of a list."""
    assert kernel.chunk is not None
    chunk = kernel.chunk(at)
    (axis,) = kernel.problem.operand(kernel.table[0]).shape
    return [covering(piece[axis], chunk) for piece in pieces]


def spec_at(operand: Operand, known: Mapping[str, int]) -> ArraySpec:
    """Return the spec of an operand whose axes are among the integers known."""
    shape = tuple(int(name if name.isdigit() else known[name]) for name in operand.shape)
    return ArraySpec(shape, operand.numpy_dtype)


def _known(kernel: Kernel, asked: Asked) -> dict[str, int]:
    """Return every integer that geometries, temporaries and derived sizes may ask for."""
    whole = {name: int(value) for name, value in asked.scalars.items() if isinstance(value, np.integer)}
    constants = {name: int(value) for name, value in kernel.constants.items()}
    if kernel.constraint is not None and (broken := kernel.constraint(constants)):
        _check_blocks(kernel, {**asked.sizes, **whole, **constants})
        raise SpecError(f"{kernel.id}: {broken}")
    at = {**asked.sizes, **whole, **constants, "multiprocessors": asked.limits.multiprocessors}
    if kernel.table:
        at["blocks"] = sum(_blocks(kernel, at, asked.pieces))
    for name, derive in kernel.derived.items():
        at[name] = int(derive(at))
    return at


def _check_blocks(kernel: Kernel, at: Mapping[str, int]) -> None:
    for part in kernel.parts:
        checks.check_block(part, part.geometry.block_at(at))


def _launch(
    kernel: Kernel,
    at: Mapping[str, int],
    asked: Asked,
    names: Mapping[str, str] = MappingProxyType({}),
    table: TableReference | None = None,
) -> tuple[Launch, ...]:
    """Return the launch, none where the grid is empty."""
    block = kernel.geometry.block_at(at)
    checks.check_block(kernel, block)
    dynamic = checks.check_shared(kernel, {**at, "threads": math.prod(block)}, asked.limits)
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
    known |= {name: np.int64(value) for name, value in asked.sizes.items()}
    known |= {name: np.int64(at[name]) for name in kernel.derived}
    known |= asked.scalars
    if table is not None:
        known[TABLE] = table
    arguments = {name: known[name] for name in kernel.arguments}
    constants = {name: int(value) for name, value in kernel.constants.items()}
    return (Launch(kernel, grid, block, dynamic, arguments, constants),)
