"""All-reduce of two ranks: each forms half of the sums and writes them to both; the arrays may lie on two GPUs."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
# ruff: noqa: N803, N806

from __future__ import annotations

from functools import cache
from typing import Any

from kernellab.catalog import elements, streams, vectors
from kernellab.kernel import Geometry, Kernel, covering
from kernellab.problem import ELEMENTS, Array, Arrays, Case, Cost, Operand, Parameter, Problem, Sizes

BOTH = 2
"""In place of a rank, where one device reaches both arrays and does the work of both."""
SHAPE = {"THREADS": 1024, "VECTORS": 4, "BLOCKS": 4}
"""Four multiprocessors, all of whose threads load: the others go on with what they compute."""


def middle(n: int, each: int) -> int:
    """Return where the second rank's half begins: at a whole vector of `each` elements.

    Examples
    --------
    >>> middle(1025, 4), middle(3, 4), middle(0, 4)
    (516, 3, 0)
    """
    return min(covering(n, 2 * each) * each, n)


def reference(x: Array, y: Array, rank: int) -> dict[str, Array]:
    """Return the sums, in float64, of which a rank owns half; the rest as it was."""
    n, between = x.size, middle(x.size, 16 // x.dtype.itemsize)
    owned = slice(between if rank == 1 else 0, between if rank == 0 else n)
    found = {"x": streams.wide(x).copy(), "y": streams.wide(y).copy()}
    sums = found["x"][owned] + found["y"][owned]
    for array in found.values():
        array[owned] = sums
    return found


def magnitude(x: Array, y: Array, rank: int) -> dict[str, Array]:
    """Return the sum of absolute terms: what the rounding errors are in proportion to."""
    size = abs(streams.wide(x)) + abs(streams.wide(y))
    return {"x": size, "y": size}


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return both arrays read and written once."""
    nbytes = 2 * int(arrays["x"].size) * int(arrays["x"].dtype.itemsize)
    return Cost(nbytes, nbytes, sizes["n"])


def cases() -> tuple[Case, ...]:
    """Return those of other arrays that are read element by element, and what one rank does alone."""
    alone = [
        Case(f"rank {rank} of {n} elements, {element}", {"n": n}, {"rank": rank}, element=element)
        for element, n in zip(ELEMENTS, (1025, 1, 1003), strict=True)
        for rank in (0, 1)
    ]
    return (*streams.cases(), *alone)


PROBLEM = Problem(
    name="all_reduce",
    summary="x = y = x + y; of two ranks each forms half of the sums",
    operands=(
        Operand("x", "element", ("n",), role="inout"),
        Operand("y", "element", ("n",), role="inout"),
    ),
    parameters=(Parameter("rank", "int32", default=BOTH, minimum=0, maximum=BOTH),),
    make_inputs=streams.arrays("x", "y"),
    reference=reference,
    magnitude=magnitude,
    cost=cost,
    cases=cases(),
)


@cache
def shares(element: str) -> Any:
    """Return ``share(rank, n)``: the first of the elements that a rank adds up, and the first after them."""
    from numba import cuda

    EACH = elements.lanes(element)
    TOGETHER = BOTH

    @cuda.jit(device=True, forceinline=True)
    def share(rank, n):
        half = (n + 2 * EACH - 1) // (2 * EACH) * EACH
        middle = half if half < n else n
        owner = cuda.blockIdx.y if rank == TOGETHER else rank
        if owner == 0:
            return 0, middle
        return middle, n

    return share


def scalar(THREADS: int, BLOCKS: int, element: str) -> Any:
    """Make the twin of all_reduce/scalar."""
    from numba import cuda

    to_float, from_float = elements.conversions(element)
    share = shares(element)

    def all_reduce_scalar(x, y, rank):
        n = x.size
        begin, end = share(rank, n)
        step = cuda.gridDim.x * THREADS
        for i in range(begin + cuda.blockIdx.x * THREADS + cuda.threadIdx.x, end, step):
            x_value = to_float(x[i])
            y_value = to_float(y[i])
            total = from_float(x_value + y_value)
            x[i] = total
            y[i] = total

    return all_reduce_scalar


@cache
def word_sum(element: str) -> Any:
    """Return ``add(a, b)`` of words of 4 bytes: a float, or two elements of 16 bits."""
    from numba import cuda, uint16, uint32

    to_float, from_float = elements.conversions(element)

    @cuda.jit(device=True, forceinline=True)
    def add(a, b):
        return a + b

    @cuda.jit(device=True, forceinline=True)
    def add_pairs(a, b):
        low = from_float(to_float(uint16(a)) + to_float(uint16(b)))
        high = from_float(to_float(uint16(a >> 16)) + to_float(uint16(b >> 16)))
        return uint32(low) | uint32(high) << 16

    return add if element == "float32" else add_pairs


def vectorised(THREADS: int, VECTORS: int, BLOCKS: int, element: str) -> Any:
    """Make the twin of all_reduce/vectorised."""
    from numba import cuda, float32, uint32

    WORD = float32 if element == "float32" else uint32
    load, store = vectors.vector_access(4, WORD.name)
    to_float, from_float = elements.conversions(element)
    EACH, KEPT, SHARE = elements.lanes(element), 4 * VECTORS, THREADS * VECTORS
    share, add = shares(element), word_sum(element)

    def all_reduce_vectorised(x, y, rank):
        n = x.size
        begin, end = share(rank, n)
        whole = end // EACH
        # As words, and not as floats: of 16 bits these would take twice the registers.
        x_kept = cuda.local.array(KEPT, WORD)
        y_kept = cuda.local.array(KEPT, WORD)
        start = begin // EACH + cuda.blockIdx.x * SHARE + cuda.threadIdx.x
        for first in range(start, whole, cuda.gridDim.x * SHARE):
            # All loads first.
            for v in range(VECTORS):
                i, k = first + v * THREADS, 4 * v
                if i < whole:
                    x_kept[k], x_kept[k + 1], x_kept[k + 2], x_kept[k + 3] = load(x, EACH * i)
                    y_kept[k], y_kept[k + 1], y_kept[k + 2], y_kept[k + 3] = load(y, EACH * i)

            # Then the sums, each to both.
            for v in range(VECTORS):
                i, k = first + v * THREADS, 4 * v
                if i < whole:
                    one, two = add(x_kept[k], y_kept[k]), add(x_kept[k + 1], y_kept[k + 1])
                    three, four = add(x_kept[k + 2], y_kept[k + 2]), add(x_kept[k + 3], y_kept[k + 3])
                    store(x, EACH * i, (one, two, three, four))
                    store(y, EACH * i, (one, two, three, four))

        last = (whole * EACH if whole * EACH > begin else begin) + cuda.threadIdx.x
        if cuda.blockIdx.x == 0 and last < end:
            x_last = to_float(x[last])
            y_last = to_float(y[last])
            total = from_float(x_last + y_last)
            x[last] = total
            y[last] = total

    return all_reduce_vectorised


def in_limits(constants: Sizes) -> str:
    """Return why a launch of such a shape cannot be, or nothing."""
    threads, blocks = constants["THREADS"], constants["BLOCKS"]
    if threads % 32 or not 32 <= threads <= 1024:
        return f"THREADS is {threads}, it must be whole warps, at most 1024; take {SHAPE['THREADS']}"
    if not 1 <= constants.get("VECTORS", 1) <= 16:
        return f"VECTORS is {constants['VECTORS']}, it must be 1 to 16; take {SHAPE['VECTORS']}"
    return "" if blocks >= 1 else f"BLOCKS is {blocks}, it must be at least 1; take {SHAPE['BLOCKS']}"


def few_blocks(at: Sizes) -> tuple[int, ...]:
    """Return BLOCKS blocks for each rank of the launch, or as many as have anything to do."""
    each = at["THREADS"] * at.get("VECTORS", 1)
    items = covering(at["n"], 2 * (elements.lanes(ELEMENTS[at["ELEMENT"]]) if "VECTORS" in at else 1))
    return max(1, min(at["BLOCKS"], covering(items, each))), 2 if at["rank"] == BOTH else 1


ARGUMENTS = ("x", "y", "rank", "n")
SCALAR = Kernel(
    PROBLEM,
    "scalar",
    ARGUMENTS,
    Geometry(("THREADS",), few_blocks),
    scalar,
    {"THREADS": SHAPE["THREADS"], "BLOCKS": SHAPE["BLOCKS"]},
    elements=ELEMENTS,
    constraint=in_limits,
)
LADDER = (
    SCALAR,
    Kernel(
        PROBLEM,
        "vectorised",
        ARGUMENTS,
        Geometry(("THREADS",), few_blocks),
        vectorised,
        SHAPE,
        elements=ELEMENTS,
        alignment=16,
        fallback=SCALAR,
        constraint=in_limits,
    ),
)
