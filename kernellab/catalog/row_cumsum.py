"""Cumsum of rows: running sums along each row of a matrix."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernellab.catalog import cumsum, cumsum_twins, elements
from kernellab.kernel import Geometry, Kernel
from kernellab.problem import ELEMENTS, Array, Arrays, Case, Cost, Operand, Parameter, Problem, Sizes


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Return (rows, columns) floats; NaN in one row where the case says so."""
    x = rng.standard_normal((case.sizes["rows"], case.sizes["columns"]), dtype=np.float32)
    if case.contents == "NaN in a row":
        x[1, 3] = np.nan
    return {"x": x}


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return every element read once and written once."""
    count = sizes["rows"] * sizes["columns"]
    nbytes = int(arrays["x"].dtype.itemsize) * count
    return Cost(bytes_read=nbytes, bytes_written=nbytes, flops=count)


def roundings(sizes: Sizes) -> int:
    """Return how many roundings a running sum may carry: those of a tree, and of a chain of tiles."""
    columns = max(sizes["columns"], 2)
    return 8 + math.ceil(math.log2(columns)) + columns // 4096


def _case(rows: int, columns: int, exclusive: int = 0, element: str = ELEMENTS[0]) -> Case:
    name = f"{rows} x {columns}{', exclusive' * exclusive}{f', {element}' * (element != ELEMENTS[0])}"
    return Case(name, {"rows": rows, "columns": columns}, {"exclusive": exclusive}, element=element)


PROBLEM = Problem(
    name="row_cumsum",
    summary="y[r][i] = x[r][0] + ... + x[r][i], or without x[r][i] where exclusive is 1",
    operands=(
        Operand("x", "element", ("rows", "columns")),
        Operand("y", "element", ("rows", "columns"), role="out"),
    ),
    parameters=(Parameter("exclusive", "int32", default=0, minimum=0, maximum=1),),
    make_inputs=make_inputs,
    reference=cumsum.reference,
    magnitude=cumsum.magnitude,
    cost=cost,
    cases=(
        _case(4, 4096),
        *(_case(rows, columns) for rows, columns in ((0, 5), (5, 0), (1, 1), (3, 33), (2, 4100), (2, 5001))),
        _case(2, 5000, exclusive=1),
        Case("NaN in a row", {"rows": 3, "columns": 40}, contents="NaN in a row"),
        *(_case(2, 1003, element=element) for element in ELEMENTS[1:]),
        *(_case(2, 8200, exclusive=1, element=element) for element in ELEMENTS[1:]),
    ),
    roundings=roundings,
)


def block(THREADS: int, VECTORS: int, element: str) -> Any:
    """Make the twin of row_cumsum/block."""
    from numba import cuda, float32

    read, before_warp, write = cumsum_twins.tile_functions(THREADS, VECTORS, element)
    EACH, WARPS = elements.lanes(element), THREADS // 32
    KEPT, TILE = VECTORS * EACH, THREADS * VECTORS * EACH
    ZERO = float32(0)

    def row_cumsum_block(x, y, exclusive):
        sums = cuda.shared.array(WARPS, float32, alignment=16)
        value = cuda.local.array(KEPT, float32)
        before = cuda.local.array(VECTORS, float32)
        columns = x.shape[1]
        source, target = x[cuda.blockIdx.x], y[cuda.blockIdx.x]
        is_wide = columns % EACH == 0
        carry = ZERO
        for tile in range((columns + TILE - 1) // TILE):
            read(source, tile, value, is_wide)
            earlier, aggregate = before_warp(value, before, sums)
            cuda.syncthreads()
            write(target, tile, value, before, carry + earlier, exclusive, is_wide)
            carry += aggregate

    return row_cumsum_block


LADDER = (
    Kernel(
        PROBLEM,
        "block",
        ("x", "y", "exclusive", "columns"),
        Geometry(("THREADS",), lambda at: (at["rows"],), static_shared=lambda at: at["THREADS"] // 8),
        block,
        constants={"THREADS": 256, "VECTORS": 4},
        elements=ELEMENTS,
        alignment=16,
        constraint=cumsum.few_vectors,
    ),
)
