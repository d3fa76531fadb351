"""Triad: three arrays read, one written (the vector triad)."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

from typing import Any

from kernellab.catalog import elements, streams
from kernellab.problem import Array, Operand, Problem


def reference(a: Array, b: Array, c: Array) -> dict[str, Array]:
    """Return the answer in float64."""
    return {"y": streams.wide(a) * streams.wide(b) + streams.wide(c)}


def magnitude(a: Array, b: Array, c: Array) -> dict[str, Array]:
    """Return the sum of absolute terms: what the rounding errors are in proportion to."""
    return {"y": abs(streams.wide(a) * streams.wide(b)) + abs(streams.wide(c))}


PROBLEM = Problem(
    name="triad",
    summary="y = a * b + c",
    operands=(
        Operand("a", "element", ("n",)),
        Operand("b", "element", ("n",)),
        Operand("c", "element", ("n",)),
        Operand("y", "element", ("n",), role="out"),
    ),
    make_inputs=streams.arrays("a", "b", "c"),
    reference=reference,
    magnitude=magnitude,
    cost=streams.cost_of(flops=2),
    cases=streams.cases(),
)


def scalar(element: str) -> Any:
    """Make the twin of triad/scalar."""
    from numba import cuda

    to_float, from_float = elements.conversions(element)

    def triad_scalar(a, b, c, y):
        i = cuda.grid(1)
        if i < a.size:
            value = to_float(a[i]) * to_float(b[i]) + to_float(c[i])
            y[i] = from_float(value)

    return triad_scalar


def vectorised(element: str) -> Any:
    """Make the twin of triad/vectorised."""
    from numba import cuda, float32

    fill, drain = elements.register_access(element)
    to_float, from_float = elements.conversions(element)
    EACH = elements.lanes(element)

    def triad_vectorised(a, b, c, y):
        i = cuda.grid(1)
        whole = a.size // EACH
        a_kept = cuda.local.array(EACH, float32)
        b_kept = cuda.local.array(EACH, float32)
        c_kept = cuda.local.array(EACH, float32)
        if i < whole:
            fill(a_kept, 0, a, EACH * i)
            fill(b_kept, 0, b, EACH * i)
            fill(c_kept, 0, c, EACH * i)
            for k in range(EACH):
                a_kept[k] = a_kept[k] * b_kept[k] + c_kept[k]
            drain(y, EACH * i, a_kept, 0)

        last = EACH * whole + i
        if last < a.size:
            y[last] = from_float(to_float(a[last]) * to_float(b[last]) + to_float(c[last]))

    return triad_vectorised


def unrolled(VECTORS: int, element: str) -> Any:
    """Make the twin of triad/unrolled."""
    from numba import cuda, float32

    fill, drain = elements.register_access(element)
    to_float, from_float = elements.conversions(element)
    EACH = elements.lanes(element)
    KEPT = EACH * VECTORS

    def triad_unrolled(a, b, c, y):
        step = cuda.blockDim.x
        first = cuda.blockIdx.x * step * VECTORS + cuda.threadIdx.x
        whole = a.size // EACH
        a_kept = cuda.local.array(KEPT, float32)
        b_kept = cuda.local.array(KEPT, float32)
        c_kept = cuda.local.array(KEPT, float32)

        # All loads first.
        for v in range(VECTORS):
            i = first + v * step
            if i < whole:
                fill(a_kept, EACH * v, a, EACH * i)
                fill(b_kept, EACH * v, b, EACH * i)
                fill(c_kept, EACH * v, c, EACH * i)

        # Then arithmetic and stores.
        for v in range(VECTORS):
            i = first + v * step
            if i < whole:
                for k in range(EACH * v, EACH * v + EACH):
                    a_kept[k] = a_kept[k] * b_kept[k] + c_kept[k]
                drain(y, EACH * i, a_kept, EACH * v)

        last = EACH * whole + cuda.grid(1)
        if last < a.size:
            y[last] = from_float(to_float(a[last]) * to_float(b[last]) + to_float(c[last]))

    return triad_unrolled


LADDER = streams.ladder(
    PROBLEM,
    ("a", "b", "c", "y", "n"),
    {"scalar": scalar, "vectorised": vectorised, "unrolled": unrolled},
)
