"""Take of rows: a gather whose pieces are contiguous, in vectors."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

from typing import Any

import numpy as np

from kernellab.catalog import elements, take, vectors
from kernellab.catalog.copy import random_bits, width
from kernellab.kernel import TWIN_DTYPES, Geometry, Kernel, Tuning, covering
from kernellab.problem import ELEMENT_CODES, MOVED, Array, Case, Operand, Problem, Sizes


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Return a table of rows and indices into it."""
    shape = case.sizes["length"], case.sizes["columns"]
    return {"table": random_bits(rng, shape, case.element), "index": take.make_index(case, rng)}


def case(n: int, length: int, columns: int, element: str = MOVED[0]) -> Case:
    """Return a case of so many indices, some negative, into rows."""
    of = "" if element == MOVED[0] else f", {element}"
    sizes = {"n": n, "length": length, "columns": columns}
    return Case(f"{n} of {length} x {columns}{of}", sizes, contents="negative too", element=element)


SHAPES = ((0, 3, 8), (3, 4, 0), (1, 1, 1), (33, 5, 4), (7, 3, 131), (37, 11, 130), (5, 2, 1028))

PROBLEM = Problem(
    name="take_rows",
    summary="y[i] = table[index[i]], row by row",
    operands=(
        Operand("table", "element", ("length", "columns")),
        Operand("index", "int64", ("n",), index_of="length", is_wrapping=True),
        Operand("y", "element", ("n", "columns"), role="out"),
    ),
    make_inputs=make_inputs,
    reference=take.reference,
    cost=take.cost,
    cases=(
        Case("512 of 1024 x 128", {"n": 512, "length": 1024, "columns": 128}),
        *(case(*shape) for shape in SHAPES),
        *(case(35, 9, columns, element) for element in MOVED[1:] for columns in (48, 7)),
    ),
    is_bitwise=True,
)


def scalar(element: str) -> Any:
    """Make the twin of take_rows/scalar."""
    from numba import cuda

    def take_rows_scalar(table, index, y):
        columns = table.shape[1]
        t = cuda.grid(1)
        if t < y.size:
            i, j = t // columns, t % columns
            at = index[i]
            value = table[at, j]
            y[i, j] = value

    return take_rows_scalar


def vectorised(LANES_A_ROW: int, ROWS: int, element: str) -> Any:
    """Make the twin of take_rows/vectorised."""
    import numba
    from numba import cuda, int64, uint32

    EACH, SLOTS, KEPT = elements.lanes(element), 256 // LANES_A_ROW, 4 * ROWS
    stored = getattr(numba, TWIN_DTYPES.get(element, element))
    load4, store4 = vectors.vector_access(4, "uint32")

    def take_rows_vectorised(table, index, y):
        at = cuda.local.array(ROWS, int64)
        kept, single = cuda.local.array(KEPT, uint32), cuda.local.array(ROWS, stored)
        n, (length, columns) = index.size, table.shape
        first = cuda.blockIdx.x * (ROWS * SLOTS) + cuda.threadIdx.x // LANES_A_ROW
        lane = cuda.blockIdx.y * LANES_A_ROW + cuda.threadIdx.x % LANES_A_ROW
        step = cuda.gridDim.y * LANES_A_ROW

        # Where the rows lie.
        for k in range(ROWS):
            if first + k * SLOTS < n:
                where = index[first + k * SLOTS]
                at[k] = where + length if where < 0 else where

        # All loads of a column first; rows that do not start at a multiple of 16 bytes go by elements.
        if columns % EACH == 0:
            for j in range(lane * EACH, columns, step * EACH):
                for k in range(ROWS):
                    if first + k * SLOTS < n:
                        quad = load4(table, at[k] * columns + j)
                        kept[4 * k], kept[4 * k + 1], kept[4 * k + 2], kept[4 * k + 3] = quad
                for k in range(ROWS):
                    if first + k * SLOTS < n:
                        quad = kept[4 * k], kept[4 * k + 1], kept[4 * k + 2], kept[4 * k + 3]
                        store4(y, (first + k * SLOTS) * columns + j, quad)
        else:
            for j in range(lane, columns, step):
                for k in range(ROWS):
                    if first + k * SLOTS < n:
                        single[k] = table[at[k], j]
                for k in range(ROWS):
                    if first + k * SLOTS < n:
                        y[first + k * SLOTS, j] = single[k]

    return take_rows_vectorised


def units(at: Sizes) -> int:
    """Return how many pieces a row is moved in: vectors, or elements where it does not consist of those."""
    each = width(at)
    return at["columns"] if at["columns"] % each else at["columns"] // each


def blocks(at: Sizes) -> tuple[int, ...]:
    """Return the blocks down the rows, and those along them, which walk on beyond the limit of y."""
    lanes, rows = at["LANES_A_ROW"], at["ROWS"]
    return covering(at["n"], rows * (256 // lanes)), min(covering(units(at), lanes), 65535)


def lanes_for(sizes: Sizes, element: str) -> dict[str, int]:
    """Return as many lanes as a row has pieces, a power of two up to a block."""
    pieces = units({**sizes, "ELEMENT": ELEMENT_CODES.index(element)})
    return {"LANES_A_ROW": min(256, 1 << max(0, pieces - 1).bit_length()), "ROWS": 4}


def whole_slots(constants: Sizes) -> str:
    """Return why the constants do not suit take_rows/vectorised, or nothing."""
    lanes, rows = constants["LANES_A_ROW"], constants["ROWS"]
    if lanes < 1 or 256 % lanes:
        return f"LANES_A_ROW is {lanes}, it must divide 256; take 32"
    return "" if 1 <= rows <= 16 else f"ROWS is {rows}, it must be 1 to 16; take 4"


ARGUMENTS = ("table", "index", "y", "length", "n", "columns")
EACH = Geometry((256,), lambda at: (covering(at["n"] * at["columns"], at["threads"]),))
SHAPE = {"LANES_A_ROW": 32, "ROWS": 4}

SCALAR = Kernel(PROBLEM, "scalar", ARGUMENTS, EACH, scalar, elements=MOVED)

LADDER = (
    SCALAR,
    Kernel(
        PROBLEM,
        "vectorised",
        ARGUMENTS,
        Geometry((256,), blocks),
        vectorised,
        constants=SHAPE,
        elements=MOVED,
        alignment=16,
        fallback=SCALAR,
        constraint=whole_slots,
        tuning=Tuning(SHAPE, lanes_for),
    ),
)
