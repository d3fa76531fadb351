"""Uneven work: every element asks for its own number of steps, and a warp waits for its slowest lane."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from typing import Any

import numpy as np

from kernellab.catalog.copy import SIZES, special_values
from kernellab.catalog.streams import EACH
from kernellab.kernel import Kernel
from kernellab.problem import Array, Arrays, Case, Cost, Operand, Problem, Sizes

MOST_TRIPS = 64


def reference(x: Array, trips: Array, order: Array | None = None) -> dict[str, Array]:
    """Return x * (2 - 2**-trips), the closed form of the loop, in float64."""
    halves = np.exp2(-np.maximum(trips, 0).astype(np.float64))
    return {"y": x.astype(np.float64) * (2.0 - halves)}


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Return n floats, a trip count for each, and the order that sorts the counts."""
    n = case.sizes["n"]
    x = rng.standard_normal(n, dtype=np.float32)
    trips = (np.arange(n) * 37 % MOST_TRIPS).astype(np.int32)
    if case.contents == "special values":
        x[: special_values().size] = special_values()
        trips = rng.integers(-3, 200, size=n, dtype=np.int32)
    if case.contents == "one long lane":
        trips[:] = 0
        trips[n // 2] = 1000
    return {"x": x, "trips": trips, "order": np.argsort(trips, kind="stable").astype(np.int64)}


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return one float and one count read, one float written, two operations a step."""
    n = sizes["n"]
    trips = arrays["trips"]
    steps = int(np.maximum(trips, 0).sum()) if isinstance(trips, np.ndarray) else 0
    return Cost(bytes_read=n * (16 if "order" in arrays else 8), bytes_written=4 * n, flops=2 * steps)


PROBLEM = Problem(
    name="uneven_work",
    summary="y = x * (2 - 2**-trips), by as many steps as trips says",
    operands=(
        Operand("x", "float32", ("n",)),
        Operand("trips", "int32", ("n",)),
        Operand("order", "int64", ("n",), index_of="n"),
        Operand("y", "float32", ("n",), role="out"),
    ),
    make_inputs=make_inputs,
    reference=reference,
    cost=cost,
    cases=(
        Case("64 Ki elements", {"n": 2**16}),
        *(Case(f"{n} elements", {"n": n}) for n in SIZES),
        Case("one long lane", {"n": 1000}, contents="one long lane"),
        Case("special values", {"n": 1000}, contents="special values"),
    ),
    roundings=2,
)


def unsorted() -> Any:
    """Make the twin of uneven_work/unsorted."""
    from numba import cuda, float32

    HALF = float32(0.5)  # noqa: N806

    def uneven_work_unsorted(x, trips, y):
        i = cuda.grid(1)
        if i < x.size:
            start = x[i]
            count = trips[i]
            value = start
            for _ in range(count):
                value = value * HALF + start
            y[i] = value

    return uneven_work_unsorted


def in_order() -> Any:
    """Make the twin of uneven_work/sorted."""
    from numba import cuda, float32

    HALF = float32(0.5)  # noqa: N806

    def uneven_work_sorted(x, trips, order, y):
        thread = cuda.grid(1)
        if thread < x.size:
            i = order[thread]
            start = x[i]
            count = trips[i]
            value = start
            for _ in range(count):
                value = value * HALF + start
            y[i] = value

    return uneven_work_sorted


LADDER = (
    Kernel(PROBLEM, "unsorted", ("x", "trips", "y", "n"), EACH, unsorted),
    Kernel(PROBLEM, "sorted", ("x", "trips", "order", "y", "n"), EACH, in_order),
)
