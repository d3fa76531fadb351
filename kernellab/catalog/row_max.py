"""Max of rows: the largest element, NaN if there is one of each row of a matrix."""

# ruff: noqa: N803

from __future__ import annotations

from typing import Any

from kernellab.catalog import fold_twins, reductions
from kernellab.catalog.max import reference
from kernellab.problem import Operand, Problem

PROBLEM = Problem(
    name="row_max",
    summary="y[r] = max of x[r]",
    operands=(
        Operand("x", "element", ("rows", "columns")),
        Operand("y", "element", ("rows",), role="out"),
    ),
    make_inputs=reductions.make_inputs,
    reference=reference,
    cost=reductions.cost,
    cases=reductions.row_cases(),
    roundings=0,
    refusal=reductions.refuse_empty,
)


def warp(THREADS: int, VECTORS: int, element: str) -> Any:
    """Make the twin of row_max/warp."""
    return fold_twins.row_warp("max", VECTORS, element)


def split(THREADS: int, VECTORS: int, BLOCKS: int, element: str) -> Any:
    """Make the twin of row_max/split."""
    return fold_twins.row_split("max", THREADS, VECTORS, element)


LADDER = reductions.row_ladder(PROBLEM, warp, split)
