"""Horner's rule with literal coefficients: in double by an oversight, and in single precision."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from typing import Any

import numpy as np

from kernellab.catalog.copy import special_values
from kernellab.catalog.streams import EACH, cost_of
from kernellab.kernel import Kernel
from kernellab.problem import Array, Case, Operand, Parameter, Problem


def reference(x: Array, degree: int) -> dict[str, Array]:
    """Return the sum of the powers in float64: its closed form where it converges fast, else by the same rule."""
    half = 0.5 * x.astype(np.float64)
    is_small = np.abs(half) <= 0.5
    value = np.empty_like(half)
    small, other = half[is_small], half[~is_small]
    value[is_small] = (1.0 - small ** (int(degree) + 1)) / (1.0 - small)
    rest = np.ones_like(other)
    for _ in range(int(degree)):
        rest = other * rest + 1.0
    value[~is_small] = rest
    return {"y": value}


def magnitude(x: Array, degree: int) -> dict[str, Array]:
    """Return the sum of absolute terms."""
    return reference(np.abs(x), degree)


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Return n floats in [-1, 1), where the sum converges."""
    x = rng.uniform(-1, 1, case.sizes["n"]).astype(np.float32)
    if case.contents == "special values":
        x[: special_values().size] = special_values()
    return {"x": x}


PROBLEM = Problem(
    name="horner",
    summary="y = 1 + x/2 + (x/2)**2 + ... + (x/2)**degree",
    operands=(Operand("x", "float32", ("n",)), Operand("y", "float32", ("n",), role="out")),
    parameters=(Parameter("degree", "int32", default=16, minimum=0),),
    make_inputs=make_inputs,
    reference=reference,
    magnitude=magnitude,
    cost=cost_of(flops=0),
    cases=(
        Case("16 Ki elements", {"n": 2**14}),
        *(Case(f"{n} elements", {"n": n}) for n in (0, 1, 33, 1023, 1025)),
        *(Case(f"degree {degree}", {"n": 100}, {"degree": degree}) for degree in (0, 1, 65)),
        Case("special values", {"n": 100}, contents="special values"),
    ),
    roundings=3,
)


def double_literals() -> Any:
    """Make the twin of horner/double_literals."""
    from numba import cuda, float32

    def horner_double_literals(x, y, degree):
        i = cuda.grid(1)
        if i < x.size:
            x_value = x[i]
            value = float32(1)
            for _ in range(degree):
                # In Numba the variable itself becomes a double, as it is given one.
                value = 0.5 * x_value * value + 1.0
            y[i] = value

    return horner_double_literals


def single() -> Any:
    """Make the twin of horner/single."""
    from numba import cuda, float32

    HALF, ONE = float32(0.5), float32(1)  # noqa: N806

    def horner_single(x, y, degree):
        i = cuda.grid(1)
        if i < x.size:
            x_value = x[i]
            value = ONE
            for _ in range(degree):
                value = HALF * x_value * value + ONE
            y[i] = value

    return horner_single


ARGUMENTS = ("x", "y", "degree", "n")

LADDER = (
    Kernel(
        PROBLEM,
        "double_literals",
        ARGUMENTS,
        EACH,
        double_literals,
        float64="literals without an f, which is what it shows",
    ),
    Kernel(PROBLEM, "single", ARGUMENTS, EACH, single),
)
