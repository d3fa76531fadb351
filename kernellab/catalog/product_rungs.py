"""Rungs of the product of matrices on the CUDA cores, of which each of the four problems has its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernellab.catalog import product_twins, products
from kernellab.kernel import Geometry, Kernel, Tuning, covering
from kernellab.problem import ELEMENTS, Problem, Sizes

TILE = {"TILE": 32}
BASE = {"ROWS": 128, "COLUMNS": 128, "STEP": 16, "STAGES": 3}
"""What stands in the ``.cu`` files of the buffered rungs: two blocks share a multiprocessor."""
LARGE = {"ROWS": 128, "COLUMNS": 256, "STEP": 8, "STAGES": 4}
"""Tiles that read shared memory less, one block on a multiprocessor."""
MOST_COPIED = 16 * 256
"""Words of one operand that a step may bring in: a thread keeps which of its own exist in 16 bits."""
SMALL = {"ROWS": 128, "COLUMNS": 64, "STEP": 16, "STAGES": 3}


def _in_tiles(at: Sizes) -> tuple[int, ...]:
    return (covering(at["m"], at["TILE"]) * covering(at["n"], at["TILE"]),)


TILED = Geometry(block=("TILE", "TILE"), grid=_in_tiles)
TILED_SHARED = Geometry(block=("TILE", "TILE"), grid=_in_tiles, static_shared=lambda at: 8 * at["TILE"] ** 2)


def _few_enough(constants: Sizes) -> str:
    """Return why a block cannot have a thread for each element of a tile, or nothing."""
    tile = constants["TILE"]
    return "" if 1 <= tile <= 32 else f"TILE is {tile}, it must be 1 to 32; take 32"


BLOCKED = Geometry(
    block=(256,),
    grid=products.tiles(128, 128),
    static_shared=lambda at: 2 * 8 * product_twins.BLOCKED_PITCH * 4,
)


def one_element(problem: Problem) -> tuple[Kernel, ...]:
    """Return the rungs that give a thread one element: lanes down a column, along a row, from shared memory."""
    rungs = (
        ("naive", TILED, product_twins.naive),
        ("coalesced", TILED, product_twins.coalesced),
        ("tiled", TILED_SHARED, product_twins.tiled),
    )
    return tuple(
        Kernel(problem, name, products.arguments(problem), geometry, twin, TILE, constraint=_few_enough)
        for name, geometry, twin in rungs
    )


def vectorised(problem: Problem, fallback: Kernel) -> Kernel:
    """Return the rung that moves sixteen bytes at a time."""
    return Kernel(
        problem,
        "vectorised",
        products.arguments(problem),
        BLOCKED,
        product_twins.vectorised,
        alignment=16,
        fallback=fallback,
    )


def blocked(problem: Problem) -> Kernel:
    """Return the register-blocked rung, for all elements and shapes."""
    return Kernel(
        problem,
        "blocked",
        products.arguments(problem),
        BLOCKED,
        product_twins.blocked(problem.name),
        elements=ELEMENTS,
    )


def buffered(problem: Problem) -> Kernel:
    """Return the best rung in float32, for all shapes."""
    turned_pitch = 4 if "_nt" in problem.name else 0

    def shared(at: Sizes) -> int:
        return 4 * at["STAGES"] * at["STEP"] * (at["ROWS"] + 4 + at["COLUMNS"] + turned_pitch)

    return Kernel(
        problem,
        "buffered",
        products.arguments(problem),
        Geometry(
            block=(256,),
            grid=lambda at: (covering(at["m"], at["ROWS"]) * covering(at["n"], at["COLUMNS"]),),
            dynamic_shared=shared,
        ),
        "Numba has no asynchronous copy to shared memory (cp.async)",
        BASE,
        constraint=_covered,
        tuning=Tuning(BASE, turned_shape_for if turned_pitch else shape_for),
    )


def shape_for(
    sizes: Sizes, element: str, shapes: Sequence[Mapping[str, int]] = (LARGE, BASE)
) -> Mapping[str, int]:
    """Return the tile for a shape: the first of which there are enough for every multiprocessor."""
    for shape in shapes:
        tiles = covering(sizes["m"], shape["ROWS"]) * covering(sizes["n"], shape["COLUMNS"])
        if tiles >= sizes["multiprocessors"]:
            return shape
    return SMALL


def turned_shape_for(sizes: Sizes, element: str) -> Mapping[str, int]:
    """Return the tile where both matrices come along k: words of large tiles are too many to put down columns."""
    return shape_for(sizes, element, (BASE,))


def _covered(constants: Sizes) -> str:
    rows, columns, step, stages = (constants[name] for name in BASE)
    if rows not in (128, 256) or columns not in (64, 128, 256) or rows * columns > 128 * 256:
        rule = "it must have 128 or 256 rows and 64, 128 or 256 columns, and not both 256"
        return f"the tile is {rows} x {columns}, {rule}; take 128 x 128"
    if step not in (8, 16, 32) or step * max(rows, columns) > MOST_COPIED or stages < 2:
        rule = f"STEP must be 8, 16 or 32, and {MOST_COPIED} over the tile's longer side at most, STAGES 2 or more"
        return f"STEP is {step} and STAGES {stages}, {rule}; take 8 and 4"
    return ""
