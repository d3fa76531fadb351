"""Rows: what the problems on rows of a matrix share: cases, inputs, launch shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from kernellab.arrays import spec_of
from kernellab.catalog import elements
from kernellab.kernel import Geometry, Tuning, covering
from kernellab.problem import ELEMENTS, Array, Arrays, Case, Operand, Sizes

Choose: TypeAlias = Callable[[Sizes, str], Mapping[str, int]]

FIRST = (8, 1024)
EDGES = (*((0, 5), (5, 0), (1, 1), (3, 31), (2, 33), (2, 1000), (2, 1024), (3, 4097)),)
CONTENTS = ("a large mean", "a row of -inf", "infinities", "NaN in some rows", "subnormal")


def cases(
    contents: Sequence[str] = CONTENTS, edges: Sequence[tuple[int, int]] = EDGES, **parameters: int | float
) -> tuple[Case, ...]:
    """Return the cases of a problem on rows: whole warps first, then edges, contents, 16-bit elements."""
    shaped = [case(f"{rows} x {columns}", rows, columns, parameters) for rows, columns in (FIRST, *edges)]
    filled = [case(word, 5, 100, parameters, word) for word in contents]
    halves = [
        case(f"{rows} x {columns} {element}", rows, columns, parameters, element=element)
        for element in ELEMENTS[1:]
        for rows, columns in ((4, 2048), (3, 33), (2, 4097))
    ]
    return (*shaped, *filled, *halves)


def case(
    name: str,
    rows: int,
    columns: int,
    parameters: Mapping[str, int | float],
    contents: str = "random",
    element: str = ELEMENTS[0],
) -> Case:
    """Return a case of so many rows and columns."""
    return Case(name, {"rows": rows, "columns": columns}, parameters, contents, element)


def matrix(case: Case, rng: np.random.Generator) -> Array:
    """Return (rows, columns) floats with the contents that the case names."""
    rows, columns = case.sizes["rows"], case.sizes["columns"]
    x = rng.standard_normal((rows, columns), dtype=np.float32)
    if case.contents == "a large mean":
        x += np.float32(1e6)
    if case.contents == "a row of -inf":
        x[1], x[2, ::3] = -np.inf, -np.inf
    if case.contents == "infinities":
        x[0, 5], x[2, 7], x[2, 8], x[3, -1] = np.inf, -np.inf, np.inf, -np.inf
    if case.contents == "NaN in some rows":
        x[0, 0], x[2, columns // 2], x[3, -1], x[3, 0] = np.nan, np.nan, np.nan, -np.inf
    if case.contents == "huge":
        x *= np.float32(1e38)
    if case.contents == "far below zero":
        x[0], x[1, :4] = -10000, (7999.99, 8000, 2, 1)
    if case.contents == "subnormal":
        x *= np.float32(1e-39)
    return x


def a_block_a_row(at: Sizes) -> tuple[int, ...]:
    """Return one block for each row that has columns."""
    return (at["rows"] if at["columns"] else 0,)


def groups(at: Sizes) -> tuple[int, ...]:
    """Return the blocks that give GROUP threads to ROWS rows at a time."""
    return (covering(at["rows"], at["threads"] // at["GROUP"] * at["ROWS"]) if at["columns"] else 0,)


BLOCK = Geometry(block=("THREADS",), grid=a_block_a_row, static_shared=lambda at: 384)
GROUPS = Geometry(block=("THREADS",), grid=groups, static_shared=lambda at: 768)


def group_shape(constants: Sizes) -> str:
    """Return why threads cannot be grouped so, or nothing."""
    threads, group = constants["THREADS"], constants["GROUP"]
    if threads % 32:
        return f"THREADS is {threads}, it must be a multiple of 32; take 256"
    if group != threads and (group > 32 or group < 1 or group & (group - 1)):
        rule = "it must be a power of two up to 32, or THREADS"
        return f"GROUP is {group}, {rule}; take 32"
    return ""


def shape_for(sizes: Sizes, element: str) -> dict[str, int]:
    """Return the launch shape for a row's length, as measured on an H200.

    Up to 1 KiB a row has a part of a warp, two vectors a thread. Then a block, in which a thread holds four
    vectors, and more only where that takes more than 512 threads: many blocks, each in another phase, keep the
    memory busier than many loads of a few.
    """
    vectors = max(1, covering(sizes["columns"], elements.lanes(element)))
    if vectors <= 64:
        return within_a_warp(vectors, 2, 128, 1)
    each = 2 if vectors == 128 else 4  # whole warps with nothing missing
    if vectors > 2048:
        each = ITEMS_HELD // elements.lanes(element)
    threads = min(1024, 32 * covering(covering(vectors, each), 32))
    return {"THREADS": threads, "GROUP": threads, "VECTORS": each, "ROWS": 1}


def part_of_a_warp(vectors: int) -> int:
    """Return how many lanes take a row of so many vectors: the least power of two that covers it, or all."""
    return next(power for power in (1, 2, 4, 8, 16, 32) if power >= min(vectors, 32))


def within_a_warp(vectors: int, each: int, threads: int, rows: int) -> dict[str, int]:
    """Return the shape in which a part of a warp holds a row, `each` vectors a thread where lanes last."""
    group = part_of_a_warp(covering(vectors, each))
    return {"THREADS": threads, "GROUP": group, "VECTORS": covering(vectors, group), "ROWS": rows}


def computing(threads: int, rows: Mapping[str, int]) -> Choose:
    """Return the choice of a launch shape for what computes more: so many of the shortest rows a thread."""

    def choose(sizes: Sizes, element: str) -> dict[str, int]:
        per = elements.lanes(element)
        vectors = max(1, covering(sizes["columns"], per))
        if vectors > 64:
            return shape_for(sizes, element)
        shape = within_a_warp(vectors, 8 // per, threads, 1)
        most = ITEMS_HELD // (per * shape["VECTORS"])
        return {**shape, "ROWS": max(1, min(rows.get(element, 4), most))}

    return choose


ITEMS_HELD = 32
"""Values of a row that a thread keeps in registers: 64 registers a thread in all, 1024 threads on an SM."""
BLOCKED = {"THREADS": 256}
SHAPE = {"THREADS": 128, "GROUP": 128, "VECTORS": 2, "ROWS": 1}
"""The launch shape that stands in the ``.cu`` files; `bind` takes that of the row's length."""
TUNING = Tuning(SHAPE, shape_for)
LONGEST = 1024 * ITEMS_HELD
"""Columns up to which one block holds a row."""


BETWEEN = (Operand("h", "element", ("rows", "columns"), role="scratch"),)
"""The array between two kernels of a chain."""


TAIL = 2.0**-46
"""The least size that an error is in proportion to: far below 0, where GeLU vanishes, a kernel may stop."""


def passed_on(between: Array, size: Array, answer: Array) -> Array:
    """Return what the error of GeLU's answer is in proportion to, where its argument has one of `size`.

    In the tail a relative error of the argument grows with its square, so the answer is the measure; near 0
    and above it is the argument's error that counts.
    """
    wide = np.clip(np.nan_to_num(between), -40.0, 1.0)
    with np.errstate(all="ignore"):
        slope = np.abs(answer) / np.maximum(np.abs(between), 1e-300) * (1 + wide * wide)
        result: Array = np.nan_to_num(size * slope, nan=0.0, posinf=0.0) + np.abs(
            np.nan_to_num(answer, posinf=0)
        )
    return np.maximum(result, TAIL)


def itemsize(arrays: Arrays) -> int:
    """Return the bytes of an element of ``x``."""
    return int(spec_of(arrays["x"], "x").dtype.itemsize)


def stretches(at: Sizes) -> tuple[int, ...]:
    """Return the blocks of a launch over all elements, a vector of 16 bytes a thread."""
    per = elements.lanes(ELEMENTS[at["ELEMENT"]])
    return (covering(at["rows"] * at["columns"], at["threads"] * per),)


FLAT = Geometry(block=("THREADS",), grid=stretches)
