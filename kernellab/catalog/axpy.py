"""AXPY: a multiple of one array added to another, out of place."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

from typing import Any

from kernellab.catalog import elements, streams
from kernellab.problem import Array, Operand, Parameter, Problem


def reference(x: Array, y: Array, alpha: float) -> dict[str, Array]:
    """Return the answer in float64."""
    return {"z": float(alpha) * streams.wide(x) + streams.wide(y)}


def magnitude(x: Array, y: Array, alpha: float) -> dict[str, Array]:
    """Return the sum of absolute terms: what the rounding errors are in proportion to."""
    return {"z": abs(float(alpha) * streams.wide(x)) + abs(streams.wide(y))}


PROBLEM = Problem(
    name="axpy",
    summary="z = alpha * x + y",
    operands=(
        Operand("x", "element", ("n",)),
        Operand("y", "element", ("n",)),
        Operand("z", "element", ("n",), role="out"),
    ),
    parameters=(Parameter("alpha", "float32", default=2.0),),
    make_inputs=streams.arrays("x", "y"),
    reference=reference,
    magnitude=magnitude,
    cost=streams.cost_of(flops=2),
    cases=streams.cases(alpha=-1.5),
)


def scalar(element: str) -> Any:
    """Make the twin of axpy/scalar."""
    from numba import cuda

    to_float, from_float = elements.conversions(element)

    def axpy_scalar(x, y, z, alpha):
        i = cuda.grid(1)
        if i < x.size:
            value = alpha * to_float(x[i]) + to_float(y[i])
            z[i] = from_float(value)

    return axpy_scalar


def vectorised(element: str) -> Any:
    """Make the twin of axpy/vectorised."""
    from numba import cuda, float32

    fill, drain = elements.register_access(element)
    to_float, from_float = elements.conversions(element)
    EACH = elements.lanes(element)

    def axpy_vectorised(x, y, z, alpha):
        i = cuda.grid(1)
        whole = x.size // EACH
        x_kept = cuda.local.array(EACH, float32)
        y_kept = cuda.local.array(EACH, float32)
        if i < whole:
            fill(x_kept, 0, x, EACH * i)
            fill(y_kept, 0, y, EACH * i)
            for k in range(EACH):
                x_kept[k] = alpha * x_kept[k] + y_kept[k]
            drain(z, EACH * i, x_kept, 0)

        last = EACH * whole + i
        if last < x.size:
            z[last] = from_float(alpha * to_float(x[last]) + to_float(y[last]))

    return axpy_vectorised


def unrolled(VECTORS: int, element: str) -> Any:
    """Make the twin of axpy/unrolled."""
    from numba import cuda, float32

    fill, drain = elements.register_access(element)
    to_float, from_float = elements.conversions(element)
    EACH = elements.lanes(element)
    KEPT = EACH * VECTORS

    def axpy_unrolled(x, y, z, alpha):
        step = cuda.blockDim.x
        first = cuda.blockIdx.x * step * VECTORS + cuda.threadIdx.x
        whole = x.size // EACH
        x_kept = cuda.local.array(KEPT, float32)
        y_kept = cuda.local.array(KEPT, float32)

        # All loads first.
        for v in range(VECTORS):
            i = first + v * step
            if i < whole:
                fill(x_kept, EACH * v, x, EACH * i)
                fill(y_kept, EACH * v, y, EACH * i)

        # Then arithmetic and stores.
        for v in range(VECTORS):
            i = first + v * step
            if i < whole:
                for k in range(EACH * v, EACH * v + EACH):
                    x_kept[k] = alpha * x_kept[k] + y_kept[k]
                drain(z, EACH * i, x_kept, EACH * v)

        last = EACH * whole + cuda.grid(1)
        if last < x.size:
            z[last] = from_float(alpha * to_float(x[last]) + to_float(y[last]))

    return axpy_unrolled


LADDER = streams.ladder(
    PROBLEM,
    ("x", "y", "z", "alpha", "n"),
    {"scalar": scalar, "vectorised": vectorised, "unrolled": unrolled},
)
