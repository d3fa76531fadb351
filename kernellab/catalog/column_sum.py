"""Sum of columns: a thread a column, then rows shared by warps and blocks."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803

from __future__ import annotations

from typing import Any

import numpy as np

from kernellab.catalog import columns, elements, rows
from kernellab.kernel import Geometry, Kernel, covering
from kernellab.problem import ELEMENTS, Array, Arrays, Case, Cost, Operand, Problem, Sizes


def reference(x: Array) -> dict[str, Array]:
    """Return the sums in float64."""
    with np.errstate(invalid="ignore"):
        return {"y": x.astype(np.float64).sum(axis=0)}


def magnitude(x: Array) -> dict[str, Array]:
    """Return the sums of absolute values: what the rounding errors are in proportion to."""
    return reference(np.abs(x))


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Return a (rows, columns) array of floats."""
    return {"x": rows.matrix(case, rng)}


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return every element read once, and one a column written."""
    each, count = rows.itemsize(arrays), sizes["rows"] * sizes["columns"]
    return Cost(bytes_read=each * count, bytes_written=each * sizes["columns"], flops=count)


def cases(**parameters: int | float) -> tuple[Case, ...]:
    """Return matrices wider and narrower than a tile, with fewer and more rows than a block takes at once."""
    shapes = ((0, 5), (5, 0), (1, 1), (33, 3), (3, 131), (70, 129), (517, 8))
    halves = ((40, 512), (33, 9), (3, 264))
    return (
        rows.case("64 x 1024", 64, 1024, parameters),
        *(rows.case(f"{count} x {width}", count, width, parameters) for count, width in shapes),
        *(rows.case(word, 5, 100, parameters, word) for word in rows.CONTENTS),
        *(
            rows.case(f"{count} x {width} {element}", count, width, parameters, element=element)
            for element in ELEMENTS[1:]
            for count, width in halves
        ),
    )


PROBLEM = Problem(
    name="column_sum",
    summary="y[c] = sum of x[r][c] over r",
    operands=(
        Operand("x", "element", ("rows", "columns")),
        Operand("y", "element", ("columns",), role="out"),
    ),
    make_inputs=make_inputs,
    reference=reference,
    magnitude=magnitude,
    cost=cost,
    cases=cases(),
    roundings=columns.roundings,
)


def scalar(THREADS: int, element: str) -> Any:
    """Make the twin of column_sum/scalar."""
    from numba import cuda, float32

    to_float, from_float = elements.conversions(element)
    ZERO = float32(0)  # noqa: N806

    def column_sum_scalar(x, y):
        c = cuda.grid(1)
        if c < x.shape[1]:
            total = ZERO
            for r in range(x.shape[0]):
                total += to_float(x[r, c])
            y[c] = from_float(total)

    return column_sum_scalar


def split(THREADS: int, GROUP: int, ROWS: int, BLOCKS: int, element: str) -> Any:
    """Make the twin of column_sum/split."""
    add_up = columns.sums(THREADS, GROUP, ROWS, element)

    def column_sum_split(x, y, partials, finished):
        add_up(x, y, partials, finished)

    return column_sum_split


EACH = Geometry(block=("THREADS",), grid=lambda at: (covering(at["columns"], at["threads"]),))

LADDER = (
    Kernel(PROBLEM, "scalar", ("x", "y", "rows", "columns"), EACH, scalar, rows.BLOCKED, elements=ELEMENTS),
    Kernel(
        PROBLEM,
        "split",
        ("x", "y", "partials", "finished", "rows", "columns", "splits"),
        columns.TILES,
        split,
        columns.SHAPE,
        elements=ELEMENTS,
        constraint=columns.whole_tiles,
        temporaries=columns.PARTIALS,
        derived=columns.DERIVED,
        zeroed=("finished",),
        tuning=columns.TUNING,
    ),
)
