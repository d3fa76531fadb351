"""Rungs of the product of matrices on tensor cores by the warp: wmma for any shape, mma.sync for rows of vectors."""

from __future__ import annotations

from dataclasses import replace

from kernellab.catalog import products
from kernellab.kernel import Geometry, Kernel, Stage, Tuning, covering
from kernellab.problem import ELEMENTS, Operand, Problem, Sizes

NO_TWIN = "Numba has no tensor-core instructions (mma.sync, ldmatrix, wmma)"
BASE = {"ROWS": 128, "COLUMNS": 128, "DEPTH": 64, "STAGES": 3}
"""What stands in the ``.cu`` files: four warps, two blocks on a multiprocessor."""
LARGE = {"ROWS": 128, "COLUMNS": 256, "DEPTH": 64, "STAGES": 3}
"""Eight warps, one block on a multiprocessor: a multiplication takes less from shared memory and from L2."""


def wmma(problem: Problem) -> Kernel:
    """Return the rung by ``nvcuda::wmma``, which takes any shape."""

    def shared(at: Sizes) -> int:
        b_pitches = 128 * (32 + 8) if "_nt" in problem.name else 32 * (128 + 8)
        return 2 * (128 * (32 + 8) + b_pitches) + 4 * 8 * 16 * 24

    return Kernel(
        problem,
        "wmma",
        products.arguments(problem),
        Geometry(block=(256,), grid=products.tiles(128, 128), static_shared=shared),
        NO_TWIN,
        elements=ELEMENTS[1:],
        requires=("sm_80",),
    )


def wmma_faulty(problem: Problem) -> Kernel:
    """Return the exhibit: a published example's two faults."""
    cases = products.cases(is_activated=True)
    return Kernel(
        problem,
        "wmma_faulty",
        products.arguments(problem),
        Geometry(
            block=(32,),
            grid=lambda at: (at["m"] // 16 * (at["n"] // 16),),
            static_shared=lambda at: 4 * 16 * 24,
        ),
        NO_TWIN,
        {"AS_WRITTEN": 0},
        elements=("float16",),
        requires=("sm_80",),
        refusal=_in_fragments,
        fault="the bias is looked up by fragment element, whose column is not defined",
        fails_on=tuple(c.name for c in cases if c.element == "float16" and not _in_fragments(c.sizes)),
    )


def mma(problem: Problem, fallback: Kernel) -> Kernel:
    """Return the rung by ``mma.sync``, for rows that start at multiples of 16 bytes."""
    return Kernel(
        problem,
        "mma",
        products.arguments(problem),
        Geometry(
            block=(lambda at: at["ROWS"] * at["COLUMNS"] // 128,),
            grid=lambda at: (covering(at["m"], at["ROWS"]) * covering(at["n"], at["COLUMNS"]),),
            dynamic_shared=_stages,
        ),
        NO_TWIN,
        BASE,
        elements=ELEMENTS[1:],
        requires=("sm_80",),
        refusal=products.in_vectors,
        alignment=16,
        fallback=fallback,
        constraint=_broken,
        tuning=Tuning(BASE, shape_for),
    )


def unfused(problem: Problem, fallback: Kernel) -> Kernel:
    """Return the chain: the product by ``mma.sync`` to memory, then bias and GeLU."""
    product = mma(problem, fallback)
    streaming = Geometry(
        block=(128,), grid=lambda at: (covering(at["n"], 128 * 8), min(covering(at["m"], 4), 65535))
    )
    return replace(
        product,
        name="unfused",
        stages=(
            Stage("product", ("a", "b", "h", "m", "n", "k"), product.geometry),
            Stage("gelu", ("h", "bias", "y", "m", "n", "form"), streaming),
        ),
        temporaries=(Operand("h", "element", ("m", "n"), role="scratch"),),
    )


def shape_for(sizes: Sizes, element: str) -> dict[str, int]:
    """Return the tile for a shape: the smaller one where the larger would leave half of the device without one.

    Examples
    --------
    >>> shape_for({"m": 1024, "n": 1024, "multiprocessors": 132}, "float16")["COLUMNS"]
    128
    """
    tiles = covering(sizes["m"], LARGE["ROWS"]) * covering(sizes["n"], LARGE["COLUMNS"])
    return LARGE if 2 * tiles > sizes["multiprocessors"] else BASE


def _in_fragments(sizes: Sizes) -> str:
    for name in ("m", "n", "k"):
        if sizes[name] % 16 or not sizes[name]:
            return (
                f"{name} is {sizes[name]}, it must be a multiple of 16 and not 0; take matmul_bias_gelu/wmma"
            )
    return ""


def _stages(at: Sizes) -> int:
    return 2 * at["STAGES"] * at["DEPTH"] * (at["ROWS"] + at["COLUMNS"])


def _broken(constants: Sizes) -> str:
    rows, columns, depth = (constants[name] for name in ("ROWS", "COLUMNS", "DEPTH"))
    if (rows, columns) not in ((128, 128), (128, 256), (256, 128)) or depth not in (32, 64):
        rule = "they must be 128 x 128, 128 x 256 or 256 x 128, by 32 or 64"
        return f"ROWS x COLUMNS by DEPTH are {rows} x {columns} by {depth}, {rule}; take 128 x 256 by 64"
    held, least = _stages(constants), 2 * rows * columns
    if constants["STAGES"] < 2 or held < least:
        return f"STAGES is {constants['STAGES']}, it must be 2 or more, and hold {least} bytes, not {held}; take 3"
    return ""
