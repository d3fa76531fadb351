"""Sum: the sum of a whole array, from a tree in shared memory to the speed of the memory."""

# ruff: noqa: N803

from __future__ import annotations

from typing import Any

import numpy as np

from kernellab.catalog import fold_twins, reductions
from kernellab.problem import Array, Case, Operand, Problem


def reference(x: Array) -> dict[str, Array]:
    """Return the sum, in float64."""
    return {"y": x.astype(np.float64).sum(axis=-1, keepdims=x.ndim == 1)}


def magnitude(x: Array) -> dict[str, Array]:
    """Return the sum of absolute values: what the rounding errors are in proportion to."""
    return reference(np.abs(x))


# A half accumulator stops at 2048; and 65520 overflows, where the answer is rounded and not before.
OVERFLOW = tuple(
    Case(f"{n} ones, float16", {"n": n}, contents="ones", element="float16") for n in (2049, 65520)
)

PROBLEM = Problem(
    name="sum",
    summary="y[0] = sum of x",
    operands=(
        Operand("x", "element", ("n",)),
        Operand("y", "element", ("1",), role="out"),
    ),
    make_inputs=reductions.make_inputs,
    reference=reference,
    cost=reductions.cost,
    cases=reductions.cases() + OVERFLOW + (Case("0 elements", {"n": 0}),),
    magnitude=magnitude,
    roundings=reductions.roundings,
)


def interleaved(THREADS: int, element: str) -> Any:
    """Make the twins of sum/interleaved."""
    return fold_twins.tree("sum", True, THREADS, element)


def sequential(THREADS: int, element: str) -> Any:
    """Make the twins of sum/sequential."""
    return fold_twins.tree("sum", False, THREADS, element)


def shuffle(THREADS: int, element: str) -> Any:
    """Make the twins of sum/shuffle."""
    return fold_twins.shuffle("sum", THREADS, element)


def vectorised(THREADS: int, VECTORS: int, BLOCKS: int, element: str) -> Any:
    """Make the twin of sum/vectorised."""
    return fold_twins.vectorised("sum", THREADS, VECTORS, element)


SHUFFLE = reductions.two_launches(PROBLEM, "shuffle", shuffle)

LADDER = (
    reductions.two_launches(PROBLEM, "interleaved", interleaved),
    reductions.two_launches(PROBLEM, "sequential", sequential),
    SHUFFLE,
    reductions.one_launch(PROBLEM, vectorised, SHUFFLE),
)
