"""Scale: one array read, one written; the plainest kernel there is."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

from typing import Any

from kernellab.catalog import elements, streams
from kernellab.problem import Array, Operand, Parameter, Problem


def reference(x: Array, alpha: float) -> dict[str, Array]:
    """Return the answer in float64."""
    return {"y": float(alpha) * streams.wide(x)}


def magnitude(x: Array, alpha: float) -> dict[str, Array]:
    """Return the sum of absolute terms: what the rounding errors are in proportion to."""
    return {"y": abs(float(alpha) * streams.wide(x))}


PROBLEM = Problem(
    name="scale",
    summary="y = alpha * x",
    operands=(
        Operand("x", "element", ("n",)),
        Operand("y", "element", ("n",), role="out"),
    ),
    parameters=(Parameter("alpha", "float32", default=2.0),),
    make_inputs=streams.arrays("x"),
    reference=reference,
    magnitude=magnitude,
    cost=streams.cost_of(flops=1),
    cases=streams.cases(alpha=-1.5),
)


def scalar(element: str) -> Any:
    """Make the twin of scale/scalar."""
    from numba import cuda

    to_float, from_float = elements.conversions(element)

    def scale_scalar(x, y, alpha):
        i = cuda.grid(1)
        if i < x.size:
            value = alpha * to_float(x[i])
            y[i] = from_float(value)

    return scale_scalar


def vectorised(element: str) -> Any:
    """Make the twin of scale/vectorised."""
    from numba import cuda, float32

    fill, drain = elements.register_access(element)
    to_float, from_float = elements.conversions(element)
    EACH = elements.lanes(element)

    def scale_vectorised(x, y, alpha):
        i = cuda.grid(1)
        whole = x.size // EACH
        x_kept = cuda.local.array(EACH, float32)
        if i < whole:
            fill(x_kept, 0, x, EACH * i)
            for k in range(EACH):
                x_kept[k] = alpha * x_kept[k]
            drain(y, EACH * i, x_kept, 0)

        last = EACH * whole + i
        if last < x.size:
            y[last] = from_float(alpha * to_float(x[last]))

    return scale_vectorised


def unrolled(VECTORS: int, element: str) -> Any:
    """Make the twin of scale/unrolled."""
    from numba import cuda, float32

    fill, drain = elements.register_access(element)
    to_float, from_float = elements.conversions(element)
    EACH = elements.lanes(element)
    KEPT = EACH * VECTORS

    def scale_unrolled(x, y, alpha):
        step = cuda.blockDim.x
        first = cuda.blockIdx.x * step * VECTORS + cuda.threadIdx.x
        whole = x.size // EACH
        x_kept = cuda.local.array(KEPT, float32)

        # All loads first.
        for v in range(VECTORS):
            i = first + v * step
            if i < whole:
                fill(x_kept, EACH * v, x, EACH * i)

        # Then arithmetic and stores.
        for v in range(VECTORS):
            i = first + v * step
            if i < whole:
                for k in range(EACH * v, EACH * v + EACH):
                    x_kept[k] = alpha * x_kept[k]
                drain(y, EACH * i, x_kept, EACH * v)

        last = EACH * whole + cuda.grid(1)
        if last < x.size:
            y[last] = from_float(alpha * to_float(x[last]))

    return scale_unrolled


LADDER = streams.ladder(
    PROBLEM,
    ("x", "y", "alpha", "n"),
    {"scalar": scalar, "vectorised": vectorised, "unrolled": unrolled},
)
