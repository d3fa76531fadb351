"""Reductions: what the sums and maxima of a whole array and of each row share: cases and launches."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kernellab.catalog.elements import lanes
from kernellab.kernel import Geometry, Kernel, Stage, covering
from kernellab.problem import ELEMENTS, Array, Arrays, Case, Cost, Operand, Sizes

TREE = {"THREADS": 256}
STREAM = {"THREADS": 512, "VECTORS": 4, "BLOCKS": 4}
SPLIT = {"THREADS": 256, "VECTORS": 4, "BLOCKS": 16}
WARPS = {"THREADS": 256, "VECTORS": 4}

SCRATCH = (Operand("partials", "float32", ("blocks",), role="scratch"),)
PLACES = (*SCRATCH, Operand("places", "int64", ("blocks",), role="scratch"))
COUNTER = (Operand("finished", "uint32", ("1",), role="scratch"),)
COUNTERS = (Operand("finished", "uint32", ("rows",), role="scratch"),)


# -- cases
def cases() -> tuple[Case, ...]:
    """Return sizes around warps and blocks, NaN and ties in every place, and 16-bit elements."""
    words = ("NaN first", "NaN last", "-inf", "infinities", "ties", "zeros")
    halves = [
        Case(f"{n} {contents} {element}", {"n": n}, contents=contents, element=element)
        for element in ELEMENTS[1:]
        for n, contents in ((1025, "random"), (100, "NaN last"))
    ]
    return (
        Case("16 Ki elements", {"n": 2**14}),
        *(Case(f"{n} elements", {"n": n}) for n in (1, 31, 1024, 1025)),
        *(Case(word, {"n": 100}, contents=word) for word in words),
        *halves,
    )


def row_cases() -> tuple[Case, ...]:
    """Return rows shorter and longer than a warp and a block, few and many; 16-bit elements."""
    shapes = ((1, 1), (3, 31), (33, 5), (2, 1000), (1, 9000), (2, 4097))
    words = ("NaN last", "-inf", "ties")
    halves = [
        Case(f"{rows} x {columns} {element}", {"rows": rows, "columns": columns}, element=element)
        for element in ELEMENTS[1:]
        for rows, columns in ((3, 1024), (2, 1025))
    ]
    return (
        Case("16 x 1024", {"rows": 16, "columns": 1024}),
        *(Case(f"{rows} x {columns}", {"rows": rows, "columns": columns}) for rows, columns in shapes),
        *(Case(word, {"rows": 3, "columns": 100}, contents=word) for word in words),
        Case("no rows", {"rows": 0, "columns": 5}),
        *halves,
    )


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Return x, of n elements or of (rows, columns), with the contents that the case names."""
    shape = (case.sizes["n"],) if "n" in case.sizes else (case.sizes["rows"], case.sizes["columns"])
    x = rng.standard_normal(shape, dtype=np.float32)
    length = shape[-1]
    if case.contents.startswith("NaN"):
        place = {"NaN first": 0, "NaN in the middle": length // 2, "NaN last": length - 1}[case.contents]
        x[..., place] = np.nan
    if case.contents == "-inf":
        x[...] = -np.inf
    if case.contents == "infinities":
        x[..., 5], x[..., length // 2] = np.inf, np.inf
    if case.contents == "ties":
        x[...] = np.sign(x)
    if case.contents == "zeros":
        x[...] = np.where(x > 0, np.float32(-0.0), np.float32(0.0))
    if case.contents == "ones":
        x[...] = 1
    return {"x": x}


def cost(sizes: Sizes, arrays: Arrays, answer: int = 0) -> Cost:
    """Return every element read once, and one answer written, or one a row, of so many bytes or as x has them."""
    each, answers = int(arrays["x"].dtype.itemsize), sizes.get("rows", 1)
    count = answers * sizes["columns" if "columns" in sizes else "n"]
    return Cost(bytes_read=each * count, bytes_written=(answer or each) * answers, flops=count)


def roundings(sizes: Sizes) -> int:
    """Return how many roundings a sum may carry: those of a tree, and a few."""
    return 4 + math.ceil(math.log2(max(sizes.get("n", sizes.get("columns", 1)), 2)))


def refuse_empty(sizes: Sizes) -> str:
    """Return why there is no largest element, or nothing."""
    length = sizes.get("n", sizes.get("columns", 1))
    return "" if length else "x holds no element along the axis, it must hold one at least; NumPy refuses too"


# -- launch shapes
def in_blocks(at: Sizes) -> int:
    """Return how many blocks take THREADS elements each."""
    return covering(at["n"], at["THREADS"])


def filling(at: Sizes) -> int:
    """Return how many blocks fill the device, or suffice."""
    each = at["THREADS"] * at["VECTORS"] * lanes(ELEMENTS[at["ELEMENT"]])
    return max(1, min(covering(at["n"], each), at["BLOCKS"] * at["multiprocessors"]))


def splits(at: Sizes) -> int:
    """Return how many blocks share a row: as many as fill the device, and no more than have a tile."""
    tile = at["THREADS"] * at["VECTORS"] * lanes(ELEMENTS[at["ELEMENT"]])
    wanted = at["BLOCKS"] * at["multiprocessors"] // max(at["rows"], 1)
    return max(1, min(covering(at["columns"], tile), wanted))


def whole_warps(constants: Sizes) -> str:
    """Return why the block does not suit the kernel, or nothing."""
    threads = constants["THREADS"]
    if threads % 32 or not 32 <= threads <= 1024:
        return f"THREADS is {threads}, it must be a multiple of 32 up to 1024; take 256"
    vectors = constants.get("VECTORS", 1)
    return "" if 1 <= vectors <= 16 else f"VECTORS is {vectors}, it must be 1 to 16; take 4"


def powers_of_two(constants: Sizes) -> str:
    """Return why the tree cannot halve the block, or nothing."""
    threads = constants["THREADS"]
    if threads & (threads - 1) or not 32 <= threads <= 1024:
        return f"THREADS is {threads}, it must be a power of two from 32 to 1024; take 256"
    return ""


def two_launches(problem: Any, name: str, twin: Callable[..., Any]) -> Kernel:
    """Return a rung of two launches: blocks leave partial values, one block merges them."""
    scratch = PLACES if problem.name == "argmax" else SCRATCH
    left = tuple(operand.name for operand in scratch)
    words = 12 if problem.name == "argmax" else 4
    size = 32 if name == "shuffle" else 0
    bulk = Geometry(
        ("THREADS",), lambda at: (at["blocks"],), static_shared=lambda at: words * (size or at["THREADS"])
    )
    single = Geometry(("THREADS",), lambda at: (1,), static_shared=bulk.static_shared)
    return Kernel(
        problem,
        name,
        ("x", "y", "n"),
        bulk,
        twin,
        constants=TREE,
        elements=ELEMENTS,
        constraint=whole_warps if size else powers_of_two,
        stages=(Stage("blocks", ("x", *left, "n"), bulk), Stage("rest", (*left, "y", "blocks"), single)),
        temporaries=scratch,
        derived={"blocks": in_blocks},
    )


def one_launch(problem: Any, twin: Callable[..., Any], fallback: Kernel) -> Kernel:
    """Return the rung `vectorised`: a grid that fills the device, whose last block merges."""
    scratch = PLACES if problem.name == "argmax" else SCRATCH
    words = 12 if problem.name == "argmax" else 4
    return Kernel(
        problem,
        "vectorised",
        ("x", "y", *(operand.name for operand in scratch), "finished", "n"),
        Geometry(("THREADS",), lambda at: (at["blocks"],), static_shared=lambda at: 32 * words + 1),
        twin,
        constants=STREAM,
        elements=ELEMENTS,
        alignment=16,
        fallback=fallback,
        constraint=whole_warps,
        temporaries=(*scratch, *COUNTER),
        derived={"blocks": filling},
        zeroed=("finished",),
    )


def row_ladder(problem: Any, warp: Callable[..., Any], split: Callable[..., Any]) -> tuple[Kernel, ...]:
    """Return the rungs of a reduction of each row."""
    is_place = problem.name == "row_argmax"
    scratch = PLACES if is_place else SCRATCH
    words = 12 if is_place else 4
    return (
        Kernel(
            problem,
            "warp",
            ("x", "y", "rows", "columns"),
            Geometry(("THREADS",), lambda at: (covering(at["rows"], at["THREADS"] // 32),)),
            warp,
            constants=WARPS,
            elements=ELEMENTS,
            alignment=16,
            constraint=whole_warps,
        ),
        Kernel(
            problem,
            "split",
            ("x", "y", *(operand.name for operand in scratch), "finished", "columns", "splits"),
            Geometry(("THREADS",), lambda at: (at["blocks"],), static_shared=lambda at: 32 * words + 1),
            split,
            constants=SPLIT,
            elements=ELEMENTS,
            alignment=16,
            constraint=whole_warps,
            temporaries=(*scratch, *COUNTERS),
            derived={"splits": splits, "blocks": lambda at: at["rows"] * at["splits"]},
            zeroed=("finished",),
        ),
    )
