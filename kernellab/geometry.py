"""Grid and block of a launch: how a kernel lays threads over its work, and what people write, as a GPU takes it."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from kernellab.errors import ArgumentError, SpecError
from kernellab.problem import Sizes

Dim3: TypeAlias = tuple[int, int, int]

BLOCK_THREADS = 1024
BLOCK_SIDES = (1024, 1024, 64)
GRID_SIDES = (2**31 - 1, 65535, 65535)


def covering(count: int, each: int) -> int:
    """Return how many pieces of size ``each`` cover ``count``: the division that rounds up.

    Examples
    --------
    >>> covering(1000, 32), covering(0, 32)
    (32, 0)
    """
    return -(-int(count) // int(each))


@dataclass(frozen=True)
class Geometry:
    """How threads are laid over the work.

    Attributes
    ----------
    block : tuple of int, str or callable
        Threads of a block along x, y, z; a string names a constant of the kernel, ``f(at)`` derives from them.
    grid : callable
        ``grid(at) -> tuple`` of blocks along x, y, z. ``at`` maps the names of sizes, parameters and
        constants to integers, ``"threads"`` to the threads of one block and ``"multiprocessors"`` to those of
        the device.
    static_shared, dynamic_shared : callable, optional
        ``f(at) -> bytes``: what the kernel declares in its source, and what the launch adds.
    """

    block: tuple[int | str | Callable[[Sizes], int], ...]
    grid: Callable[[Sizes], tuple[int, ...]]
    static_shared: Callable[[Sizes], int] | None = None
    dynamic_shared: Callable[[Sizes], int] | None = None

    def block_at(self, at: Sizes) -> Dim3:
        """Return the block's (x, y, z)."""
        return as_dim3(tuple(_side(side, at) for side in self.block))

    def grid_at(self, at: Sizes) -> Dim3:
        """Return the grid's (x, y, z)."""
        threads = math.prod(self.block_at(at))
        return as_dim3(tuple(int(side) for side in self.grid({**at, "threads": threads})))


def _side(side: int | str | Callable[[Sizes], int], at: Sizes) -> int:
    if isinstance(side, str):
        return int(at[side])
    return int(side(at) if callable(side) else side)


def as_dim3(sides: tuple[int, ...]) -> Dim3:
    """Return one to three sides as (x, y, z), missing ones 1."""
    x, y, z = (*sides, 1, 1)[:3]
    return x, y, z


def dimensions(value: Any, what: str, who: str) -> Dim3:
    """Return a grid or a block as three plain integers.

    Raises
    ------
    ArgumentError
        For anything that is not one to three integers.
    SpecError
        For a negative side.
    """
    sides = value if isinstance(value, (tuple, list, np.ndarray)) else (value,)
    try:
        numbers = [operator.index(side) for side in sides]
    except TypeError:
        raise ArgumentError(
            f"{who}: {what} is {value!r}, it must be one to three integers (x, y, z)"
        ) from None
    if not 1 <= len(numbers) <= 3:
        raise ArgumentError(f"{who}: {what} is {value!r}, it must be one to three integers (x, y, z)")
    if min(numbers) < 0:
        raise SpecError(f"{who}: {what} is {value!r}, no side may be negative")
    return as_dim3(tuple(numbers))


def check_geometry(grid: Dim3, block: Dim3, who: str) -> None:
    """Refuse what no GPU launches."""
    threads = math.prod(block)
    if threads > BLOCK_THREADS:
        raise SpecError(
            f"{who}: block {block} has {threads} threads, the limit is {BLOCK_THREADS}; "
            "make the block smaller"
        )
    if threads < 1:
        raise SpecError(f"{who}: block {block} has no threads; each side must be at least 1")
    for what, sides, limits in (("block", block, BLOCK_SIDES), ("grid", grid, GRID_SIDES)):
        for axis, side, limit in zip("xyz", sides, limits, strict=True):
            if side > limit:
                raise SpecError(f"{who}: {what} is {side} along {axis}, the limit is {limit}")


def check_compiled_for(block: Dim3, limits: Mapping[str, Sequence[int]], who: str) -> None:
    """Refuse a block that a kernel was not compiled for; `limits` are the directives of its PTX."""
    threads = math.prod(block)
    most = limits.get("maxntid")
    if most:
        limit = math.prod(most)
        if threads > limit:
            raise SpecError(
                f"{who}: block {block} has {threads} threads, it was compiled for at most {limit} "
                "(__launch_bounds__); make the block smaller or raise the bound"
            )
    exact = limits.get("reqntid")
    if exact:
        wanted = as_dim3(tuple(exact))
        if block != wanted:
            raise SpecError(f"{who}: block is {block}, it was compiled for {wanted}; launch it with that")
