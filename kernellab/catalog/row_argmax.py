"""Argmax of rows: where each row has its largest element, the first of equals; or its first NaN."""

# ruff: noqa: N803

from __future__ import annotations

from functools import partial
from typing import Any

from kernellab.catalog import fold_twins, reductions
from kernellab.catalog.argmax import reference
from kernellab.problem import Operand, Problem

PROBLEM = Problem(
    name="row_argmax",
    summary="y[r] = argmax of x[r]",
    operands=(
        Operand("x", "element", ("rows", "columns")),
        Operand("y", "int64", ("rows",), role="out"),
    ),
    make_inputs=reductions.make_inputs,
    reference=reference,
    cost=partial(reductions.cost, answer=8),
    cases=reductions.row_cases(),
    refusal=reductions.refuse_empty,
)


def warp(THREADS: int, VECTORS: int, element: str) -> Any:
    """Make the twin of row_argmax/warp."""
    return fold_twins.row_warp("argmax", VECTORS, element)


def split(THREADS: int, VECTORS: int, BLOCKS: int, element: str) -> Any:
    """Make the twin of row_argmax/split."""
    return fold_twins.row_split("argmax", THREADS, VECTORS, element)


LADDER = reductions.row_ladder(PROBLEM, warp, split)
