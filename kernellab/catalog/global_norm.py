"""Global norm: the root of the sum of the squares of many tensors."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from typing import Any

import numpy as np

from kernellab.catalog import elements, tensors
from kernellab.kernel import Geometry, Kernel, Stage, Tuning
from kernellab.problem import ELEMENTS, Array, Arrays, Case, Cost, Operand, Problem, Sizes
from kernellab.tensor_lists import each_of

SHAPE = {"THREADS": 256, "VECTORS": 4, "ROUNDS": 4, "TENSORS": 64}


def reference(x: Any) -> dict[str, Array]:
    """Return the norm in float64."""
    total = sum(float(np.square(array.astype(np.float64)).sum()) for array in each_of(x))
    return {"norm": np.sqrt(np.full(1, total))}


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Any]:
    """Return gradients."""

    def make(n: int) -> Array:
        return (
            tensors.special(n, rng)
            if case.contents == "special values"
            else rng.standard_normal(n, np.float32)
        )

    return {"x": tensors.made(case, make)}


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return every element read once, and one number written."""
    return Cost(tensors.nbytes(arrays["x"]), 4, 2 * sizes["n"])


PROBLEM = Problem(
    name="global_norm",
    summary="norm = the root of the sum of squares over many tensors",
    operands=(tensors.listed("x", role="in"), Operand("norm", "float32", ("1",), role="out")),
    make_inputs=make_inputs,
    reference=reference,
    cost=cost,
    cases=tensors.cases(),
    roundings=16,
)

ROOT = Geometry(("THREADS",), lambda at: (1,), static_shared=lambda at: 128)

LADDER = (
    Kernel(
        PROBLEM,
        "multi",
        ("tensors", "norm"),
        tensors.TABLE,
        tensors.NO_TWIN,
        SHAPE,
        elements=ELEMENTS,
        stages=(
            Stage("add", ("tensors", "partials"), tensors.TABLE),
            Stage("root", ("partials", "norm", "blocks"), ROOT),
        ),
        temporaries=(Operand("partials", "float32", ("blocks",), role="scratch"),),
        derived={"blocks": lambda at: at["blocks"]},
        table=("x",),
        chunk=lambda at: (
            at["THREADS"] * at["VECTORS"] * at["ROUNDS"] * elements.lanes(ELEMENTS[at["ELEMENT"]])
        ),
        constraint=tensors.in_limits,
        tuning=Tuning(SHAPE, tensors.chosen_for),
    ),
)
