"""Transpose: rows become columns; what shared memory is for, and how its banks conflict."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803

from __future__ import annotations

from typing import Any

import numpy as np

from kernellab.catalog import vectors
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


def vectorised(TILE: int) -> Any:
    """Make the twin of transpose/vectorised."""
    from numba import cuda, float32

    load4, store4 = vectors.vector_access(4)
    GROUPS = TILE // 4  # noqa: N806
    PASS = 256 // GROUPS  # noqa: N806
    SWIZZLE = GROUPS & -GROUPS  # noqa: N806

    def transpose_vectorised(x, y):
        tile = cuda.shared.array((TILE, TILE), float32, alignment=16)
        rows, columns = x.shape
        down = (rows + TILE - 1) // TILE
        first_row = cuda.blockIdx.x % down * TILE
        first_column = cuda.blockIdx.x // down * TILE
        thread = cuda.threadIdx.x

        # Tiles at an edge, and shapes whose rows are not aligned, go element by element.
        fits = first_row + TILE <= rows and first_column + TILE <= columns
        is_whole = fits and rows % 4 == 0 and columns % 4 == 0

        # Read, into shared memory.
        if is_whole:
            group, row = thread % GROUPS, thread // GROUPS
            if row < PASS:
                for r in range(row, TILE, PASS):
                    quad = load4(x, (first_row + r) * columns + first_column + 4 * group)
                    store4(tile, r * TILE + 4 * (group ^ (r // 4 % SWIZZLE)), quad)
        else:
            for k in range(thread, TILE * TILE, 256):
                r, c = k // TILE, k % TILE
                if first_row + r < rows and first_column + c < columns:
                    value = x[first_row + r, first_column + c]
                    tile[r, 4 * (c // 4 ^ r // 4 % SWIZZLE) + c % 4] = value
        cuda.syncthreads()

        # Write: a warp takes 32 rows of the tile by 4 columns, whose words lie in 32 banks.
        if is_whole:
            lane = thread % 32
            for job in range(thread // 32, TILE // 32 * GROUPS, 8):
                quad_row = job % (TILE // 32) * 8 + lane % 8
                c = job // (TILE // 32) * 4 + lane // 8
                place = 4 * (c // 4 ^ quad_row % SWIZZLE) + c % 4
                r = 4 * quad_row
                values = tile[r, place], tile[r + 1, place], tile[r + 2, place], tile[r + 3, place]
                store4(y, (first_column + c) * rows + first_row + r, values)
        else:
            for k in range(thread, TILE * TILE, 256):
                c, r = k // TILE, k % TILE
                if first_row + r < rows and first_column + c < columns:
                    value = tile[r, 4 * (c // 4 ^ r // 4 % SWIZZLE) + c % 4]
                    y[first_column + c, first_row + r] = value

    return transpose_vectorised


def power_of_two(constants: Sizes) -> str:
    """Return why the XOR of transpose/swizzled would leave the tile, or nothing."""
    tile = constants["TILE"]
    return f"TILE is {tile}, it must be a power of two; take 16 or 32" if tile & (tile - 1) else ""


def blocks(at: Sizes) -> tuple[int, ...]:
    """Return tiles across on x, tiles down on y, and what exceeds the limit of y on z."""
    across, down = covering(at["columns"], at["TILE"]), covering(at["rows"], at["TILE"])
    return across, min(down, 65535), covering(down, 65535)


def whole_warps(constants: Sizes) -> str:
    """Return why a tile does not suit transpose/vectorised, or nothing."""
    tile = constants["TILE"]
    return "" if tile in (32, 64, 96) else f"TILE is {tile}, it must be 32, 64 or 96; take 64"


def downwards(at: Sizes) -> tuple[int, ...]:
    """Return all tiles on x, those below each other first."""
    return (covering(at["columns"], at["TILE"]) * covering(at["rows"], at["TILE"]),)


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
    Kernel(
        PROBLEM,
        "vectorised",
        ARGUMENTS,
        Geometry(block=(256,), grid=downwards, static_shared=lambda at: 4 * at["TILE"] ** 2),
        vectorised,
        constants={"TILE": 64},
        alignment=16,
        constraint=whole_warps,
    ),
)
