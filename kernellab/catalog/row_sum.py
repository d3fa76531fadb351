"""Sum of rows: the sum of each row of a matrix."""

# ruff: noqa: N803

from __future__ import annotations

from typing import Any

import numpy as np

from kernellab.catalog import fold_twins, reductions
from kernellab.catalog.sum import reference
from kernellab.problem import Array, Case, Operand, Problem


def magnitude(x: Array) -> dict[str, Array]:
    """Return the sum of absolute values: what the rounding errors are in proportion to."""
    return reference(np.abs(x))


PROBLEM = Problem(
    name="row_sum",
    summary="y[r] = sum of x[r]",
    operands=(
        Operand("x", "element", ("rows", "columns")),
        Operand("y", "element", ("rows",), role="out"),
    ),
    make_inputs=reductions.make_inputs,
    reference=reference,
    cost=reductions.cost,
    cases=(*reductions.row_cases(), Case("no columns", {"rows": 3, "columns": 0})),
    magnitude=magnitude,
    roundings=reductions.roundings,
)


def warp(THREADS: int, VECTORS: int, element: str) -> Any:
    """Make the twin of row_sum/warp."""
    return fold_twins.row_warp("sum", VECTORS, element)


def split(THREADS: int, VECTORS: int, BLOCKS: int, element: str) -> Any:
    """Make the twin of row_sum/split."""
    return fold_twins.row_split("sum", THREADS, VECTORS, element)


LADDER = reductions.row_ladder(PROBLEM, warp, split)
