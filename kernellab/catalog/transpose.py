"""Transpose: rows become columns; what shared memory is for, and how its banks conflict."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from kernellab.catalog import elements, twins, vectors
from kernellab.catalog.copy import random_bits, special_values, width
from kernellab.kernel import TWIN_DTYPES, Geometry, Kernel, Tuning, covering
from kernellab.problem import MOVED, Array, Arrays, Case, Cost, Operand, Problem, Sizes

TILES = {"TILE": 32}


def reference(x: Array) -> dict[str, Array]:
    """Return the transposed array."""
    return {"y": np.ascontiguousarray(x.T)}


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Return a (rows, columns) array."""
    x = random_bits(rng, (case.sizes["rows"], case.sizes["columns"]), case.element)
    if case.contents == "special values":
        x.ravel()[: special_values().size] = special_values()
    return {"x": x}


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return every element read once and written once."""
    nbytes = int(arrays["x"].dtype.itemsize) * sizes["rows"] * sizes["columns"]
    return Cost(bytes_read=nbytes, bytes_written=nbytes)


SHAPES = (
    *((0, 0), (0, 5), (5, 0), (1, 1), (31, 31), (33, 33), (2, 16), (16, 2), (1, 1000), (1000, 1), (33, 65)),
    *((64, 96), (1000, 3), (127, 130)),
)

PROBLEM = Problem(
    name="transpose",
    summary="y = x.T for any (rows, columns)",
    operands=(
        Operand("x", "element", ("rows", "columns")),
        Operand("y", "element", ("columns", "rows"), role="out"),
    ),
    make_inputs=make_inputs,
    reference=reference,
    cost=cost,
    cases=(
        Case("256 x 256", {"rows": 256, "columns": 256}),
        *(Case(f"{rows} x {columns}", {"rows": rows, "columns": columns}) for rows, columns in SHAPES),
        Case("special values", {"rows": 5, "columns": 7}, contents="special values"),
        *(
            Case(f"{rows} x {columns}, {each}", {"rows": rows, "columns": columns}, element=each)
            for each in MOVED[1:]
            for rows, columns in ((256, 384), (160, 272), (37, 131))
        ),
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


def _staged(name: str, TILE: int, PITCH: int) -> Any:
    """Make a twin that goes through a tile in shared memory, with rows PITCH elements apart."""
    from numba import cuda, float32

    def staged(x, y):
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

    return twins.renamed(staged, name)


def tiled(TILE: int) -> Any:
    """Make the twin of transpose/tiled."""
    return _staged("transpose_tiled", TILE, TILE)


def padded(TILE: int) -> Any:
    """Make the twin of transpose/padded."""
    return _staged("transpose_padded", TILE, TILE + 1)


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


@cache
def column_words(BYTES: int) -> Any:
    """Return ``turn(words, e)``: column `e` of the elements that words of several rows hold, as one vector.

    The counterpart of ``column_of`` in ``kernels_cu/include/turn.cuh``.
    """
    from numba import cuda, uint32

    EIGHT, HALF, LOW, BYTE = uint32(8), uint32(16), uint32(0xFFFF), uint32(0xFF)

    def eights(words, e):
        return words[0], words[1]

    def fours(words, e):
        return words[0], words[1], words[2], words[3]

    @cuda.jit(device=True, forceinline=True)
    def pair(first, second, e):
        if e:
            return uint32((first >> HALF) | (second & ~LOW))
        return uint32((first & LOW) | (second << HALF))

    def twos(words, e):
        return (
            pair(words[0], words[1], e),
            pair(words[2], words[3], e),
            pair(words[4], words[5], e),
            pair(words[6], words[7], e),
        )

    @cuda.jit(device=True, forceinline=True)
    def quad(words, k, e):
        word = uint32(0)
        for i in range(4):
            word |= uint32(((words[4 * k + i] >> uint32(e * EIGHT)) & BYTE) << uint32(i * EIGHT))
        return word

    def ones(words, e):
        return quad(words, 0, e), quad(words, 1, e), quad(words, 2, e), quad(words, 3, e)

    return cuda.jit(device=True, forceinline=True)({1: ones, 2: twos, 4: fours, 8: eights}[BYTES])


def vectorised(LINES: int, element: str) -> Any:
    """Make the twin of transpose/vectorised."""
    import numba
    from numba import cuda, uint32

    EACH = elements.lanes(element)
    BYTES = 16 // EACH
    TILE, GROUPS = 8 * LINES * EACH, 8 * LINES
    TURN = TILE & -TILE
    PASSES = covering(TILE * GROUPS, 256)
    KEPT = 4 * PASSES
    WORD_BYTES = max(BYTES, 4)
    SHARE, WORDS = WORD_BYTES // BYTES, 16 // WORD_BYTES
    PITCH = TILE // SHARE
    stored = getattr(numba, TWIN_DTYPES.get(element, element))
    word = getattr(numba, f"uint{8 * WORD_BYTES}")
    load4, store4 = vectors.vector_access(4, "uint32")
    load_word, _ = vectors.vector_access(1, f"uint{8 * WORD_BYTES}")
    _, store_words = vectors.vector_access(WORDS, f"uint{8 * WORD_BYTES}")
    turn = column_words(BYTES)

    def transpose_vectorised(x, y):
        tile = cuda.shared.array((TILE, TILE), stored, alignment=16)
        kept, words = cuda.local.array(KEPT, uint32), cuda.local.array(EACH, word)
        single = cuda.local.array(4, stored)
        rows, columns = x.shape
        down = (rows + TILE - 1) // TILE
        first_row = cuda.blockIdx.x % down * TILE
        first_column = cuda.blockIdx.x // down * TILE
        thread = cuda.threadIdx.x

        # Tiles at an edge, and shapes whose rows are not aligned, go element by element.
        fits = first_row + TILE <= rows and first_column + TILE <= columns
        is_whole = fits and rows % EACH == 0 and columns % EACH == 0

        # Read: all loads first, so that they are in flight together; then into shared memory.
        if is_whole:
            for p in range(PASSES):
                k = thread + p * 256
                if k < TILE * GROUPS:
                    r, group = k // GROUPS, k % GROUPS
                    quad = load4(x, (first_row + r) * columns + first_column + EACH * group)
                    kept[4 * p], kept[4 * p + 1], kept[4 * p + 2], kept[4 * p + 3] = quad
            for p in range(PASSES):
                k = thread + p * 256
                if k < TILE * GROUPS:
                    r, group = k // GROUPS, k % GROUPS
                    quad = kept[4 * p], kept[4 * p + 1], kept[4 * p + 2], kept[4 * p + 3]
                    store4(tile, r * TILE + EACH * (group ^ (r // EACH % 8)), quad)
        else:
            for start in range(thread, TILE * TILE, 1024):
                for p in range(4):
                    r, c = (start + p * 256) // TILE, (start + p * 256) % TILE
                    if r < TILE and first_row + r < rows and first_column + c < columns:
                        single[p] = x[first_row + r, first_column + c]
                for p in range(4):
                    r, c = (start + p * 256) // TILE, (start + p * 256) % TILE
                    if r < TILE and first_row + r < rows and first_column + c < columns:
                        tile[r, c ^ r % TURN] = single[p]
        cuda.syncthreads()

        # Write: a lane takes a vector's worth of rows of one column of words.
        if is_whole:
            lane = thread % 32
            for job in range(thread // 32, LINES * PITCH // 4, 8):
                q = job % LINES * 8 + lane % 8
                w = job // LINES * 4 + lane // 8
                at = EACH * q * TILE + SHARE * (WORDS * (w // WORDS ^ q % 8) + w % WORDS)
                for k in range(EACH):
                    (words[k],) = load_word(tile, at + k * TILE)
                for e in range(SHARE):
                    c = first_column + SHARE * w + e
                    store_words(y, c * rows + first_row + EACH * q, turn(words, e))
        else:
            for k in range(thread, TILE * TILE, 256):
                c, r = k // TILE, k % TILE
                if first_row + r < rows and first_column + c < columns:
                    value = tile[r, c ^ r % TURN]
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


def tile_side(at: Sizes) -> int:
    """Return how many elements a side of transpose/vectorised's tile has."""
    return 8 * at["LINES"] * width(at)


def tile_bytes(at: Sizes) -> int:
    """Return what transpose/vectorised's tile takes of shared memory."""
    return tile_side(at) * at["LINES"] * 128


def small_enough(constants: Sizes) -> str:
    """Return why a tile does not suit transpose/vectorised, or nothing."""
    lines = constants["LINES"]
    is_right = lines >= 1 and tile_bytes(constants) <= 48 * 1024
    return "" if is_right else f"LINES is {lines}, the tile must take 1 to 48 KiB; take 1"


def one_or_two(constants: Sizes) -> str:
    """Return why a tile does not suit transpose/matrices, or nothing."""
    return "" if constants["LINES"] in (1, 2) else f"LINES is {constants['LINES']}, it must be 1 or 2; take 2"


def lines_for(sizes: Sizes, element: str) -> dict[str, int]:
    """Return how many lines of 128 bytes a row of the tile has: 256 bytes, unless the tile is too large."""
    return {"LINES": 1 if element == "uint8" else 2}


def in_vectors(sizes: Sizes) -> str:
    """Return why rows of x or y do not hold whole vectors of 16-bit elements, or nothing."""
    for name in ("rows", "columns"):
        if sizes[name] % 8:
            return f"there are {sizes[name]} {name}, it must be a multiple of 8; take transpose/vectorised"
    return ""


def downwards(at: Sizes) -> tuple[int, ...]:
    """Return all tiles on x, those below each other first."""
    return (covering(at["columns"], tile_side(at)) * covering(at["rows"], tile_side(at)),)


STRAIGHT = Geometry(block=("TILE", "TILE"), grid=blocks)
SQUARE = Geometry(block=("TILE", "TILE"), grid=blocks, static_shared=lambda at: 4 * at["TILE"] ** 2)
WIDER = Geometry(
    block=("TILE", "TILE"), grid=blocks, static_shared=lambda at: 4 * at["TILE"] * (at["TILE"] + 1)
)
ARGUMENTS = ("x", "y", "rows", "columns")

VECTORISED = Kernel(
    PROBLEM,
    "vectorised",
    ARGUMENTS,
    Geometry(block=(256,), grid=downwards, static_shared=tile_bytes),
    vectorised,
    constants={"LINES": 1},
    alignment=16,
    elements=MOVED,
    constraint=small_enough,
    tuning=Tuning({"LINES": 1}, lines_for),
)

LADDER = (
    Kernel(PROBLEM, "naive", ARGUMENTS, STRAIGHT, naive, constants=TILES),
    Kernel(PROBLEM, "tiled", ARGUMENTS, SQUARE, tiled, constants=TILES),
    Kernel(PROBLEM, "padded", ARGUMENTS, WIDER, padded, constants=TILES),
    Kernel(PROBLEM, "swizzled", ARGUMENTS, SQUARE, swizzled, constants=TILES, constraint=power_of_two),
    Kernel(
        PROBLEM,
        "matrices",
        ARGUMENTS,
        Geometry(block=(256,), grid=downwards, static_shared=tile_bytes),
        "Numba has no ldmatrix",
        constants={"LINES": 2},
        requires=("sm_80",),
        alignment=16,
        fallback=VECTORISED,
        elements=("float16",),
        refusal=in_vectors,
        constraint=one_or_two,
    ),
    VECTORISED,
)
