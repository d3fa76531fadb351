"""Grid and block of a launch: what people write, as three integers that a GPU takes."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernellab.checks import BLOCK_SIDES, BLOCK_THREADS, GRID_SIDES
from kernellab.errors import ArgumentError, SpecError

Dim3 = tuple[int, int, int]


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
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def check_geometry(grid: Dim3, block: Dim3, who: str) -> None:
    """Refuse what no GPU launches."""
    threads = block[0] * block[1] * block[2]
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
    threads = block[0] * block[1] * block[2]
    most = limits.get("maxntid")
    if most:
        limit = int(np.prod(most))
        if threads > limit:
            raise SpecError(
                f"{who}: block {block} has {threads} threads, it was compiled for at most {limit} "
                "(__launch_bounds__); make the block smaller or raise the bound"
            )
    exact = limits.get("reqntid")
    if exact:
        wanted = (*exact, 1, 1)[:3]
        if block != wanted:
            raise SpecError(f"{who}: block is {block}, it was compiled for {wanted}; launch it with that")
