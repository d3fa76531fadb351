"""Masked rows: work that only some rows need, skipped by a branch, multiplied away, or compacted."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from typing import Any

import numpy as np

from kernellab.catalog.copy import SIZES
from kernellab.kernel import Geometry, Kernel, covering
from kernellab.problem import Array, Arrays, Case, Cost, Operand, Problem, Sizes

FEATURES = 16


def reference(
    x: Array, weights: Array, mask: Array | None = None, active: Array | None = None
) -> dict[str, Array]:
    """Return the weighted sum over the features of each active row, 0 for the others, in float64."""
    chosen = np.flatnonzero(mask) if mask is not None else np.asarray(active)
    y = np.zeros(x.shape[1], dtype=np.float64)
    y[chosen] = weights.astype(np.float64) @ x[:, chosen].astype(np.float64)
    return {"y": y}


def magnitude(
    x: Array, weights: Array, mask: Array | None = None, active: Array | None = None
) -> dict[str, Array]:
    """Return the sum of absolute products of each row: what the rounding errors are in proportion to."""
    return reference(np.abs(x), np.abs(weights), mask, active)


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Return (features, rows) floats, a weight a feature, a mask that keeps 2 rows in 5, and its indices."""
    rows, features = case.sizes["rows"], case.sizes["features"]
    x = rng.standard_normal((features, rows), dtype=np.float32)
    weights = rng.standard_normal(features, dtype=np.float32)
    mask = np.arange(rows) % 5 < 2
    if case.contents == "random mask":
        mask = rng.random(rows) < 0.4
    if case.contents == "all":
        mask[:] = True
    if case.contents == "none":
        mask[:] = False
    if case.contents == "infinity in a masked row":
        x[:, 2], x[:, 3] = np.inf, np.nan
    return {"x": x, "weights": weights, "mask": mask, "active": np.flatnonzero(mask).astype(np.int64)}


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return the features of the active rows and the mask read, every row written."""
    rows, features = sizes["rows"], sizes["features"]
    chosen = arrays.get("active", arrays.get("mask"))
    count = rows
    if isinstance(chosen, np.ndarray):
        count = int(np.count_nonzero(chosen)) if chosen.dtype == np.bool_ else chosen.size
    nbytes = 4 * features * (count + 1) + (8 * count if "active" in arrays else rows)
    return Cost(bytes_read=nbytes, bytes_written=4 * rows, flops=2 * features * count)


def case(name: str, rows: int, contents: str = "2 in 5", features: int = FEATURES) -> Case:
    """Return a case with so many rows."""
    return Case(name, {"rows": rows, "features": features}, contents=contents)


PROBLEM = Problem(
    name="masked_rows",
    summary="y[r] = mask[r] ? weights @ x[:, r] : 0",
    operands=(
        Operand("x", "float32", ("features", "rows")),
        Operand("weights", "float32", ("features",)),
        Operand("mask", "bool", ("rows",)),
        Operand("active", "int64", ("count",), index_of="rows"),
        Operand("y", "float32", ("rows",), role="out"),
    ),
    make_inputs=make_inputs,
    reference=reference,
    magnitude=magnitude,
    cost=cost,
    cases=(
        case("80 Ki rows", 5 * 2**14),
        *(case(f"{rows} rows", rows) for rows in SIZES),
        case("random mask", 1000, "random mask"),
        case("no row active", 1000, "none"),
        case("every row active", 1000, "all"),
        case("no feature", 33, features=0),
        case("infinity in a masked row", 1000, "infinity in a masked row"),
    ),
    roundings=lambda sizes: sizes["features"],
)


def branch() -> Any:
    """Make the twin of masked_rows/branch."""
    from numba import cuda, float32

    ZERO = float32(0)  # noqa: N806

    def masked_rows_branch(x, weights, mask, y):
        r = cuda.grid(1)
        if r < y.size:
            total = ZERO
            if mask[r]:
                for f in range(weights.size):
                    weight = weights[f]
                    total += weight * x[f, r]
            y[r] = total

    return masked_rows_branch


def multiply() -> Any:
    """Make the twin of masked_rows/multiply, with the same fault."""
    from numba import cuda, float32

    ZERO, ONE = float32(0), float32(1)  # noqa: N806

    def masked_rows_multiply(x, weights, mask, y):
        r = cuda.grid(1)
        if r < y.size:
            keep = ONE if mask[r] else ZERO
            total = ZERO
            for f in range(weights.size):
                weight = weights[f]
                total += weight * x[f, r]
            y[r] = keep * total

    return masked_rows_multiply


def compact() -> Any:
    """Make the twin of masked_rows/compact."""
    from numba import cuda, float32

    ZERO = float32(0)  # noqa: N806

    def masked_rows_compact(x, weights, active, y):
        thread = cuda.grid(1)
        if thread < active.size:
            r = active[thread]
            total = ZERO
            for f in range(weights.size):
                weight = weights[f]
                total += weight * x[f, r]
            y[r] = total

    return masked_rows_compact


ROWS = Geometry(block=(256,), grid=lambda at: (covering(at["rows"], at["threads"]),))
ACTIVE = Geometry(block=(256,), grid=lambda at: (covering(at["count"], at["threads"]),))
MASKED = ("x", "weights", "mask", "y", "features", "rows")
COMPACTED = ("x", "weights", "active", "y", "features", "rows", "count")

LADDER = (
    Kernel(PROBLEM, "branch", MASKED, ROWS, branch),
    Kernel(
        PROBLEM,
        "multiply",
        MASKED,
        ROWS,
        multiply,
        fault="0 times infinity is NaN, so a masked row that holds one is not 0",
        fails_on=("infinity in a masked row",),
    ),
    Kernel(PROBLEM, "compact", COMPACTED, ACTIVE, compact, zeroed=("y",)),
)
