"""Take: elements by index; what a gather waits for, and how several wait together."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

from typing import Any

import numpy as np

from kernellab.catalog import vectors
from kernellab.catalog.copy import random_bits
from kernellab.catalog.streams import EACH
from kernellab.kernel import Geometry, Kernel, covering
from kernellab.problem import MOVED, Array, Arrays, Case, Cost, Operand, Problem, Sizes, dtype_named


def reference(table: Array, index: Array) -> dict[str, Array]:
    """Return the elements, or the rows, at the indices."""
    return {"y": table[index]}


def make_index(case: Case, rng: np.random.Generator) -> Array:
    """Return n indices far apart, or any, negative ones too."""
    n, length = case.sizes["n"], case.sizes["length"]
    if case.contents == "random":
        return np.arange(n, dtype=np.int64) * 4097 % max(length, 1)
    return rng.integers(-length, length, n)


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Return a table and indices into it."""
    table = random_bits(rng, (case.sizes["length"],), case.element)
    return {"table": table, "index": make_index(case, rng)}


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return every index read, and every element that is taken read and written."""
    n, columns = sizes["n"], sizes.get("columns", 1)
    moved = int(arrays["table"].dtype.itemsize) * n * columns
    return Cost(bytes_read=8 * n + moved, bytes_written=moved)


def case(n: int, length: int, element: str = MOVED[0]) -> Case:
    """Return a case of so many indices, some negative, into so many elements."""
    name = f"{n} of {length}{'' if element == MOVED[0] else f', {element}'}"
    return Case(name, {"n": n, "length": length}, contents="negative too", element=element)


PROBLEM = Problem(
    name="take",
    summary="y[i] = table[index[i]]",
    operands=(
        Operand("table", "element", ("length",)),
        Operand("index", "int64", ("n",), index_of="length", is_wrapping=True),
        Operand("y", "element", ("n",), role="out"),
    ),
    make_inputs=make_inputs,
    reference=reference,
    cost=cost,
    cases=(
        Case("64 Ki of 64 Ki", {"n": 2**16, "length": 2**16}),
        *(case(n, length) for n, length in ((0, 0), (0, 5), (1, 1), (33, 1), (1000, 7), (2047, 4099))),
        *(case(1037, 211, element) for element in MOVED[1:]),
    ),
    is_bitwise=True,
)


def scalar(element: str) -> Any:
    """Make the twin of take/scalar; Numba wraps negative indices by itself."""
    from numba import cuda

    def take_scalar(table, index, y):
        i = cuda.grid(1)
        if i < index.size:
            at = index[i]
            value = table[at]
            y[i] = value

    return take_scalar


def unrolled(PAIRS: int, element: str) -> Any:
    """Make the twin of take/unrolled."""
    import numba
    from numba import cuda, int64

    word = f"uint{8 * dtype_named(element).itemsize}"
    load_pair, _ = vectors.vector_access(2, "uint64")
    _, store_pair = vectors.vector_access(2, word)
    load_one, _ = vectors.vector_access(1, word)
    stored = getattr(numba, word)
    KEPT = 2 * PAIRS

    def take_unrolled(table, index, y):
        at, kept = cuda.local.array(KEPT, int64), cuda.local.array(KEPT, stored)
        pairs, length, step = index.size // 2, table.size, cuda.blockDim.x
        first = cuda.blockIdx.x * step * PAIRS + cuda.threadIdx.x

        # Indices, then elements.
        for v in range(PAIRS):
            i = first + v * step
            if i < pairs:
                low, high = load_pair(index, 2 * i)
                at[2 * v], at[2 * v + 1] = int64(low), int64(high)
        for v in range(PAIRS):
            if first + v * step < pairs:
                for k in range(2 * v, 2 * v + 2):
                    (kept[k],) = load_one(table, at[k] + length if at[k] < 0 else at[k])
        for v in range(PAIRS):
            i = first + v * step
            if i < pairs:
                store_pair(y, 2 * i, (kept[2 * v], kept[2 * v + 1]))

        # An odd number leaves one.
        last = 2 * pairs + cuda.grid(1)
        if last < index.size:
            where = index[last]
            value = table[where]
            y[last] = value

    return take_unrolled


def in_registers(constants: Sizes) -> str:
    """Return why so many pairs do not suit a thread, or nothing."""
    pairs = constants["PAIRS"]
    return "" if 1 <= pairs <= 16 else f"PAIRS is {pairs}, it must be 1 to 16; take 4"


ARGUMENTS = ("table", "index", "y", "length", "n")
PAIRED = Geometry((256,), lambda at: (max(1, covering(at["n"] // 2, at["threads"] * at["PAIRS"])),))

SCALAR = Kernel(PROBLEM, "scalar", ARGUMENTS, EACH, scalar, elements=MOVED)

LADDER = (
    SCALAR,
    Kernel(
        PROBLEM,
        "unrolled",
        ARGUMENTS,
        PAIRED,
        unrolled,
        constants={"PAIRS": 4},
        elements=MOVED,
        alignment=16,
        fallback=SCALAR,
        constraint=in_registers,
    ),
)
