"""Relu: a choice between two values, as a branch, as a select, and as a multiplication that goes wrong."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from typing import Any

import numpy as np

from kernellab.catalog.copy import SIZES, special_values
from kernellab.catalog.streams import EACH, cost_of
from kernellab.kernel import Kernel
from kernellab.problem import Array, Case, Operand, Problem


def reference(x: Array) -> dict[str, Array]:
    """Return the larger of x and 0; NaN stays NaN."""
    return {"y": np.maximum(x, np.float32(0))}


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Return n floats, every other one negative."""
    x = np.abs(rng.standard_normal(case.sizes["n"], dtype=np.float32))
    x[::2] *= -1
    if case.contents == "special values":
        x[: special_values().size] = special_values()
    return {"x": x}


PROBLEM = Problem(
    name="relu",
    summary="y = max(x, 0), NaN stays NaN",
    operands=(Operand("x", "float32", ("n",)), Operand("y", "float32", ("n",), role="out")),
    make_inputs=make_inputs,
    reference=reference,
    cost=cost_of(flops=1),
    cases=(
        Case("64 Ki elements", {"n": 2**16}),
        *(Case(f"{n} elements", {"n": n}) for n in SIZES),
        Case("special values", {"n": 1000}, contents="special values"),
    ),
    roundings=0,
)


def branch() -> Any:
    """Make the twin of relu/branch."""
    from numba import cuda, float32

    ZERO = float32(0)  # noqa: N806

    def relu_branch(x, y):
        i = cuda.grid(1)
        if i < x.size:
            value = x[i]
            if value < ZERO:
                y[i] = ZERO
            else:
                y[i] = value

    return relu_branch


def branch_free() -> Any:
    """Make the twin of relu/branch_free."""
    from numba import cuda, float32

    ZERO = float32(0)  # noqa: N806

    def relu_branch_free(x, y):
        i = cuda.grid(1)
        if i < x.size:
            value = x[i]
            # Not max(value, 0), which turns NaN into 0.
            y[i] = ZERO if value < ZERO else value

    return relu_branch_free


def multiply() -> Any:
    """Make the twin of relu/multiply, with the same fault."""
    from numba import cuda, float32

    ZERO, ONE = float32(0), float32(1)  # noqa: N806

    def relu_multiply(x, y):
        i = cuda.grid(1)
        if i < x.size:
            value = x[i]
            y[i] = value * (ONE if value > ZERO else ZERO)

    return relu_multiply


ARGUMENTS = ("x", "y", "n")

LADDER = (
    Kernel(PROBLEM, "branch", ARGUMENTS, EACH, branch),
    Kernel(PROBLEM, "branch_free", ARGUMENTS, EACH, branch_free),
    Kernel(
        PROBLEM,
        "multiply",
        ARGUMENTS,
        EACH,
        multiply,
        fault="0 times -inf is NaN where the answer is 0",
        fails_on=("special values",),
    ),
)
