"""Max: the largest element, NaN if there is one, of a whole array; at the speed of the memory."""

# ruff: noqa: N803

from __future__ import annotations

from typing import Any

import numpy as np

from kernellab.catalog import fold_twins, reductions
from kernellab.problem import Array, Operand, Problem


def reference(x: Array) -> dict[str, Array]:
    """Return the largest element, NaN if there is one, in float64."""
    return {"y": x.astype(np.float64).max(axis=-1, keepdims=x.ndim == 1)}


PROBLEM = Problem(
    name="max",
    summary="y[0] = max of x",
    operands=(
        Operand("x", "element", ("n",)),
        Operand("y", "element", ("1",), role="out"),
    ),
    make_inputs=reductions.make_inputs,
    reference=reference,
    cost=reductions.cost,
    cases=reductions.cases(),
    roundings=0,
    refusal=reductions.refuse_empty,
)


def sequential(THREADS: int, element: str) -> Any:
    """Make the twins of max/sequential."""
    return fold_twins.tree("max", False, THREADS, element)


def shuffle(THREADS: int, element: str) -> Any:
    """Make the twins of max/shuffle."""
    return fold_twins.shuffle("max", THREADS, element)


def vectorised(THREADS: int, VECTORS: int, BLOCKS: int, element: str) -> Any:
    """Make the twin of max/vectorised."""
    return fold_twins.vectorised("max", THREADS, VECTORS, element)


SHUFFLE = reductions.two_launches(PROBLEM, "shuffle", shuffle)

LADDER = (
    reductions.two_launches(PROBLEM, "sequential", sequential),
    SHUFFLE,
    reductions.one_launch(PROBLEM, vectorised, SHUFFLE),
)
