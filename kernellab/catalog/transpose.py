"""Transpose: rows become columns; what shared memory is for, and how its banks conflict."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803

from __future__ import annotations

from typing import Any

import numpy as np

from kernellab.catalog.copy import special_values
from kernellab.kernel import Geometry, Kernel, covering
from kernellab.problem import Array, Arrays, Case, Cost, Operand, Problem, Sizes

TILES = {"TILE": 32}


def reference(x: Array) -> dict[str, Array]:
    """Return the transposed array."""
    return {"y": np.ascontiguousarray(x.T)}


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Return a (rows, columns) array of floats."""
    x = rng.standard_normal((case.sizes["rows"], case.sizes["columns"]), dtype=np.float32)
    if case.contents == "special values":
        x.ravel()[: special_values().size] = special_values()
    return {"x": x}


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return four bytes read and four written for each element."""
    nbytes = 4 * sizes["rows"] * sizes["columns"]
    return Cost(bytes_read=nbytes, bytes_written=nbytes)


SHAPES = (
    *((0, 0), (0, 5), (5, 0), (1, 1), (31, 31), (33, 33), (2, 16), (16, 2), (1, 1000), (1000, 1), (33, 65)),
    *((64, 96), (1000, 3), (127, 130)),
)

PROBLEM = Problem(
    name="transpose",
    summary="y = x.T for any (rows, columns)",
    operands=(
        Operand("x", "float32", ("rows", "columns")),
        Operand("y", "float32", ("columns", "rows"), role="out"),
    ),
    make_inputs=make_inputs,
    reference=reference,
    cost=cost,
    cases=(
        Case("256 x 256", {"rows": 256, "columns": 256}),
        *(Case(f"{rows} x {columns}", {"rows": rows, "columns": columns}) for rows, columns in SHAPES),
        Case("special values", {"rows": 5, "columns": 7}, contents="special values"),
    ),
    is_bitwise=True,
)


def naive(TILE: int) -> Any:
    """Make the twin of transpose/naive."""
    from numba import cuda

    def transpose_naive(x, y):
        i = (cuda.blockIdx.z * cuda.gridDim.y + cuda.blockIdx.y) * TILE + cuda.threadIdx.y
        j = cuda.blockIdx.x * TILE + cuda.threadIdx.x
        if i < x.shape[0] and j < x.shape[1]:
            value = x[i, j]
            y[j, i] = value

    return transpose_naive


def tiled(TILE: int) -> Any:
    """Make the twin of transpose/tiled."""
    from numba import cuda, float32

    def transpose_tiled(x, y):
        tile = cuda.shared.array((TILE, TILE), float32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        first_row = (cuda.blockIdx.z * cuda.gridDim.y + cuda.blockIdx.y) * TILE
        first_column = cuda.blockIdx.x * TILE

        # Read rows of x; lanes outside must still reach the barrier.
        if first_row + ty < x.shape[0] and first_column + tx < x.shape[1]:
            value = x[first_row + ty, first_column + tx]
            tile[ty, tx] = value
        cuda.syncthreads()

        # Write rows of y, reading columns of the tile.
        if first_column + ty < y.shape[0] and first_row + tx < y.shape[1]:
            turned = tile[tx, ty]
            y[first_column + ty, first_row + tx] = turned

    return transpose_tiled


def padded(TILE: int) -> Any:
    """Make the twin of transpose/padded."""
    from numba import cuda, float32

    PITCH = TILE + 1  # noqa: N806

    def transpose_padded(x, y):
        tile = cuda.shared.array((TILE, PITCH), float32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        first_row = (cuda.blockIdx.z * cuda.gridDim.y + cuda.blockIdx.y) * TILE
        first_column = cuda.blockIdx.x * TILE

        # Read rows of x; lanes outside must still reach the barrier.
        if first_row + ty < x.shape[0] and first_column + tx < x.shape[1]:
            value = x[first_row + ty, first_column + tx]
            tile[ty, tx] = value
        cuda.syncthreads()

        # Write rows of y, reading columns of the tile.
        if first_column + ty < y.shape[0] and first_row + tx < y.shape[1]:
            turned = tile[tx, ty]
            y[first_column + ty, first_row + tx] = turned

    return transpose_padded


def swizzled(TILE: int) -> Any:
    """Make the twin of transpose/swizzled."""
    from numba import cuda, float32

    def transpose_swizzled(x, y):
        tile = cuda.shared.array((TILE, TILE), float32)
        tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
        first_row = (cuda.blockIdx.z * cuda.gridDim.y + cuda.blockIdx.y) * TILE
        first_column = cuda.blockIdx.x * TILE

        # Read rows of x; lanes outside must still reach the barrier.
        if first_row + ty < x.shape[0] and first_column + tx < x.shape[1]:
            value = x[first_row + ty, first_column + tx]
            tile[ty, tx ^ ty] = value
        cuda.syncthreads()

        # Write rows of y, reading columns of the tile.
        if first_column + ty < y.shape[0] and first_row + tx < y.shape[1]:
            turned = tile[tx, ty ^ tx]
            y[first_column + ty, first_row + tx] = turned

    return transpose_swizzled


def power_of_two(constants: Sizes) -> str:
    """Return why the XOR of transpose/swizzled would leave the tile, or nothing."""
    tile = constants["TILE"]
    return f"TILE is {tile}, it must be a power of two; take 16 or 32" if tile & (tile - 1) else ""


def blocks(at: Sizes) -> tuple[int, ...]:
    """Return tiles across on x, tiles down on y, and what exceeds the limit of y on z."""
    across, down = covering(at["columns"], at["TILE"]), covering(at["rows"], at["TILE"])
    return across, min(down, 65535), covering(down, 65535)


STRAIGHT = Geometry(block=("TILE", "TILE"), grid=blocks)
SQUARE = Geometry(block=("TILE", "TILE"), grid=blocks, static_shared=lambda at: 4 * at["TILE"] ** 2)
WIDER = Geometry(
    block=("TILE", "TILE"), grid=blocks, static_shared=lambda at: 4 * at["TILE"] * (at["TILE"] + 1)
)
ARGUMENTS = ("x", "y", "rows", "columns")

LADDER = (
    Kernel(PROBLEM, "naive", ARGUMENTS, STRAIGHT, naive, constants=TILES),
    Kernel(PROBLEM, "tiled", ARGUMENTS, SQUARE, tiled, constants=TILES),
    Kernel(PROBLEM, "padded", ARGUMENTS, WIDER, padded, constants=TILES),
    Kernel(PROBLEM, "swizzled", ARGUMENTS, SQUARE, swizzled, constants=TILES, constraint=power_of_two),
)
