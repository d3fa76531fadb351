"""Argmax: the place of the largest element of a whole array, the first of equals; of the first NaN."""

# ruff: noqa: N803

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from kernellab.catalog import fold_twins, reductions
from kernellab.problem import Array, Operand, Problem


def reference(x: Array) -> dict[str, Array]:
    """Return NumPy's own answer, on float64."""
    return {"y": np.argmax(x.astype(np.float64), axis=-1, keepdims=x.ndim == 1)}


PROBLEM = Problem(
    name="argmax",
    summary="y[0] = argmax of x",
    operands=(
        Operand("x", "element", ("n",)),
        Operand("y", "int64", ("1",), role="out"),
    ),
    make_inputs=reductions.make_inputs,
    reference=reference,
    cost=partial(reductions.cost, answer=8),
    cases=reductions.cases(),
    refusal=reductions.refuse_empty,
)


def sequential(THREADS: int, element: str) -> Any:
    """Make the twins of argmax/sequential."""
    return fold_twins.tree("argmax", False, THREADS, element)


def shuffle(THREADS: int, element: str) -> Any:
    """Make the twins of argmax/shuffle."""
    return fold_twins.shuffle("argmax", THREADS, element)


def vectorised(THREADS: int, VECTORS: int, BLOCKS: int, element: str) -> Any:
    """Make the twin of argmax/vectorised."""
    return fold_twins.vectorised("argmax", THREADS, VECTORS, element)


SHUFFLE = reductions.two_launches(PROBLEM, "shuffle", shuffle)

LADDER = (
    reductions.two_launches(PROBLEM, "sequential", sequential),
    SHUFFLE,
    reductions.one_launch(PROBLEM, vectorised, SHUFFLE),
)
