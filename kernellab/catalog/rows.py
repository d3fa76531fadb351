"""Rows: what the problems on rows of a matrix share: cases, inputs, launch shapes, exchanges for the twins.

The counterpart of ``kernels_cu/include/rows.cuh``.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from kernellab.arrays import spec_of
from kernellab.catalog import elements
from kernellab.kernel import Geometry, Tuning, covering
from kernellab.problem import ELEMENTS, Array, Arrays, Case, Operand, Sizes

ALL_LANES = 0xFFFFFFFF
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


BLOCK = Geometry(block=("THREADS",), grid=a_block_a_row, static_shared=lambda at: 256)
GROUPS = Geometry(block=("THREADS",), grid=groups, static_shared=lambda at: 256)


def group_shape(constants: Sizes) -> str:
    """Return why threads cannot be grouped so, or nothing."""
    threads, group = constants["THREADS"], constants["GROUP"]
    if threads % 32:
        return f"THREADS is {threads}, it must be a multiple of 32; take 256"
    if group != threads and (group > 32 or group < 1 or group & (group - 1)):
        rule = "it must be a power of two up to 32, or THREADS"
        return f"GROUP is {group}, {rule}; take 32"
    return ""


PARTS = Geometry(
    block=("THREADS",), grid=lambda at: (at["rows"] * at["parts"],), static_shared=lambda at: 256
)


def part_count(at: Sizes) -> int:
    """Return how many blocks share a row."""
    per = elements.lanes(ELEMENTS[at["ELEMENT"]])
    return covering(at["columns"], at["THREADS"] * at["VECTORS"] * per)


PARTED = {"parts": part_count}


def partials(*names: str) -> tuple[Operand, ...]:
    """Return temporaries of one float32 for each part of each row."""
    return tuple(Operand(name, "float32", ("rows", "parts"), role="scratch") for name in names)


def shape_for(sizes: Sizes, element: str) -> dict[str, int]:
    """Return the launch shape for a row's length.

    Up to 16 KiB a row has a part of a warp, or all of it; then a block, in which every thread holds 32 values.
    A thread with few loads takes several rows, so that there are four loads of 16 bytes in flight.
    """
    per = elements.lanes(element)
    most = ITEMS_HELD // per
    vectors = max(1, covering(sizes["columns"], per))
    if vectors <= 32 * most:
        group = 1
        while group < 32 and group < vectors:
            group *= 2
        each = covering(vectors, group)
        return {"THREADS": 128, "GROUP": group, "VECTORS": each, "ROWS": max(1, ROWS_HELD // (each * per))}
    threads = min(1024, 32 * covering(covering(vectors, most), 32))
    return {"THREADS": threads, "GROUP": threads, "VECTORS": most, "ROWS": 1}


def split_shape_for(sizes: Sizes, element: str) -> dict[str, int]:
    """Return the launch shape of rows that several blocks share."""
    return {"THREADS": 256, "VECTORS": ITEMS_HELD // elements.lanes(element)}


ITEMS_HELD = 32
"""Values of a row that a thread keeps in registers: 64 registers a thread in all, 1024 threads on an SM."""
ROWS_HELD = 16
"""Values that a thread with a short row keeps, of several rows together."""
BLOCKED = {"THREADS": 256}
SPLIT = {"THREADS": 128, "VECTORS": 2}
SHAPE = {"THREADS": 128, "GROUP": 128, "VECTORS": 2, "ROWS": 1}
"""The launch shape that stands in the ``.cu`` files; `bind` takes that of the row's length."""
TUNING = Tuning(SHAPE, shape_for)
SPLIT_TUNING = Tuning(SPLIT, split_shape_for)
LONGEST = 1024 * ITEMS_HELD
"""Columns up to which one block holds a row."""


BETWEEN = (Operand("h", "element", ("rows", "columns"), role="scratch"),)
"""The array between two kernels of a chain."""


def passed_on(between: Array, size: Array, answer: Array) -> Array:
    """Return what the error of GeLU's answer is in proportion to, where its argument has one of `size`.

    In the tail a relative error of the argument grows with its square, so the answer is the measure; near 0 it
    is the argument's error that counts.
    """
    wide = np.clip(np.nan_to_num(between), -40.0, 6.0)
    with np.errstate(all="ignore"):
        slope = np.abs(answer) / np.maximum(np.abs(between), 1e-300) * (1 + wide * wide)
        result: Array = np.nan_to_num(size * slope, nan=0.0, posinf=0.0) + np.abs(
            np.nan_to_num(answer, posinf=0)
        )
    return result


def renamed(function: Any, name: str) -> Any:
    """Return a twin under the name that it has as a stage of another rung."""
    function.__name__ = function.__qualname__ = name
    return function


def itemsize(arrays: Arrays) -> int:
    """Return the bytes of an element of ``x``."""
    return int(spec_of(arrays["x"], "x").dtype.itemsize)


@cache
def exponential(element: str) -> Any:
    """Return e to the power of a float32, as ``rows.cuh`` has it for one element."""
    from numba.cuda import libdevice

    return libdevice.expf if element == "float32" else libdevice.fast_expf


@cache
def put(count: int) -> Any:
    """Return the device function ``(array, i, values)`` that writes a tuple of so many values to an array."""
    from numba import cuda

    @cuda.jit(device=True, forceinline=True)
    def put4(array, i, values):
        array[i], array[i + 1], array[i + 2], array[i + 3] = values

    @cuda.jit(device=True, forceinline=True)
    def put8(array, i, values):
        a, b, c, d, e, f, g, h = values
        put4(array, i, (a, b, c, d))
        put4(array, i + 4, (e, f, g, h))

    return {4: put4, 8: put8}[count]


@cache
def taken(count: int) -> Any:
    """Return the device function ``(array, i) -> tuple`` of so many neighbours."""
    from numba import cuda

    @cuda.jit(device=True, forceinline=True)
    def taken4(array, i):
        return array[i], array[i + 1], array[i + 2], array[i + 3]

    @cuda.jit(device=True, forceinline=True)
    def taken8(array, i):
        return (*taken4(array, i), *taken4(array, i + 4))

    return {4: taken4, 8: taken8}[count]


@cache
def row_access(element: str, members: int, vectors: int) -> tuple[Any, Any]:
    """Return ``read_row`` and ``write_row`` of ``rows.cuh`` for one element and launch shape.

    Returns
    -------
    tuple of device functions
        ``read_row(x, r, start, held, member, is_aligned, none, value, base)`` puts `held` columns of row `r`, from
        `start` on, into ``value[base:]``, and `none` where the row has ended;
        ``write_row(y, r, start, held, member, is_aligned, value, base)`` writes them.
    """
    from numba import cuda

    PER = elements.lanes(element)  # noqa: N806
    load, store = elements.vector_access(element)
    to_float, from_float = elements.conversions(element)
    put_all, take_all = put(PER), taken(PER)

    @cuda.jit(device=True, forceinline=True)
    def read_row(x, r, start, held, member, is_aligned, none, value, base):
        first = r * x.shape[1] + start
        for i in range(vectors * PER):
            value[base + i] = none
        if is_aligned:
            for v in range(vectors):
                at = (v * members + member) * PER
                if at < held:
                    put_all(value, base + v * PER, load(x, first + at))
        else:
            for i in range(vectors * PER):
                c = i * members + member
                if c < held:
                    value[base + i] = to_float(x[r, start + c])

    @cuda.jit(device=True, forceinline=True)
    def write_row(y, r, start, held, member, is_aligned, value, base):
        first = r * y.shape[1] + start
        if is_aligned:
            for v in range(vectors):
                at = (v * members + member) * PER
                if at < held:
                    store(y, first + at, take_all(value, base + v * PER))
        else:
            for i in range(vectors * PER):
                c = i * members + member
                if c < held:
                    y[r, start + c] = from_float(value[base + i])

    return read_row, write_row


@cache
def row_added(element: str, members: int, vectors: int) -> Any:
    """Return ``add_row(residual, r, start, held, member, is_aligned, value, base)`` of ``rows.cuh``."""
    from numba import cuda

    PER = elements.lanes(element)  # noqa: N806
    load, _ = elements.vector_access(element)
    to_float, _ = elements.conversions(element)
    put_all, take_all, added = put(PER), taken(PER), summed(PER)

    @cuda.jit(device=True, forceinline=True)
    def add_row(residual, r, start, held, member, is_aligned, value, base):
        first = r * residual.shape[1] + start
        if is_aligned:
            for v in range(vectors):
                at = (v * members + member) * PER
                if at < held:
                    here = base + v * PER
                    put_all(value, here, added(take_all(value, here), load(residual, first + at)))
        else:
            for i in range(vectors * PER):
                c = i * members + member
                if c < held:
                    value[base + i] += to_float(residual[r, start + c])

    return add_row


@cache
def summed(count: int) -> Any:
    """Return the device function that adds two tuples of so many values."""
    from numba import cuda

    @cuda.jit(device=True, forceinline=True)
    def summed4(a, b):
        return a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]

    @cuda.jit(device=True, forceinline=True)
    def summed8(a, b):
        return (*summed4(a[:4], b[:4]), *summed4(a[4:], b[4:]))

    return {4: summed4, 8: summed8}[count]


@cache
def flat_access(element: str, members: int) -> tuple[Any, Any]:
    """Return ``read_flat`` and ``write_flat``: one vector a thread of a matrix taken as flat.

    Returns
    -------
    tuple of device functions
        ``read_flat(x, start, held, thread, is_aligned, value)`` and
        ``write_flat(y, start, held, thread, is_aligned, value)``, for `held` elements from `start` on.
    """
    from numba import cuda, float32

    PER = elements.lanes(element)  # noqa: N806
    ZERO = float32(0)  # noqa: N806
    load, store = elements.vector_access(element)
    to_float, from_float = elements.conversions(element)
    put_all, take_all = put(PER), taken(PER)

    @cuda.jit(device=True, forceinline=True)
    def read_flat(x, start, held, thread, is_aligned, value):
        columns = x.shape[1]
        for i in range(PER):
            value[i] = ZERO
        if is_aligned:
            if thread * PER < held:
                put_all(value, 0, load(x, start + thread * PER))
        else:
            for i in range(PER):
                at = i * members + thread
                if at < held:
                    value[i] = to_float(x[(start + at) // columns, (start + at) % columns])

    @cuda.jit(device=True, forceinline=True)
    def write_flat(y, start, held, thread, is_aligned, value):
        columns = y.shape[1]
        if is_aligned:
            if thread * PER < held:
                store(y, start + thread * PER, take_all(value, 0))
        else:
            for i in range(PER):
                at = i * members + thread
                if at < held:
                    y[(start + at) // columns, (start + at) % columns] = from_float(value[i])

    return read_flat, write_flat


def stretches(at: Sizes) -> tuple[int, ...]:
    """Return the blocks of a launch over all elements, a vector of 16 bytes a thread."""
    per = elements.lanes(ELEMENTS[at["ELEMENT"]])
    return (covering(at["rows"] * at["columns"], at["threads"] * per),)


FLAT = Geometry(block=("THREADS",), grid=stretches)


@cache
def exchanges(members: int) -> dict[str, Any]:
    """Return device functions that merge a value over a group of so many threads, as ``rows.cuh`` does.

    Parameters
    ----------
    members : int
        A power of two up to 32, or whole warps: then the whole block, and ``scratch`` is shared memory for 32
        values, (32,) or (32, 2) float32.

    Returns
    -------
    dict of str to device function
        ``sum(value, scratch)``, ``max(value, scratch)``, ``sums(first, second, scratch)`` and
        ``softmax(top, sum, scratch)``, with ``merge_softmax(top, sum, top, sum)``.
    """
    from numba import cuda, float32
    from numba.cuda import libdevice

    STEPS = tuple(step for step in (16, 8, 4, 2, 1) if step < members)  # noqa: N806
    WARPS = members // 32  # noqa: N806
    ZERO, LOWEST = float32(0), float32(-np.inf)  # noqa: N806
    fmaxf = libdevice.fmaxf
    expf = libdevice.expf

    @cuda.jit(device=True, forceinline=True)
    def add(a, b):
        return a + b

    @cuda.jit(device=True, forceinline=True)
    def larger(a, b):
        return fmaxf(a, b)

    @cuda.jit(device=True, forceinline=True)
    def add_pairs(a, b, c, d):
        return a + c, b + d

    @cuda.jit(device=True, forceinline=True)
    def merge_softmax(a, b, c, d):
        top = fmaxf(a, c)
        left = b if a == top else b * expf(a - top)
        right = d if c == top else d * expf(c - top)
        return top, left + right

    def single(merge, none):
        @cuda.jit(device=True, forceinline=True)
        def over_group(value, scratch):
            for step in STEPS:
                value = merge(value, cuda.shfl_xor_sync(ALL_LANES, value, step))
            if WARPS > 1:
                thread = cuda.threadIdx.x
                lane = thread % 32
                if lane == 0:
                    scratch[thread // 32] = value
                cuda.syncthreads()
                value = none
                if lane < WARPS:
                    value = scratch[lane]
                for step in STEPS:
                    value = merge(value, cuda.shfl_xor_sync(ALL_LANES, value, step))
                cuda.syncthreads()
            return value

        return over_group

    def double(merge, none):
        @cuda.jit(device=True, forceinline=True)
        def over_group(first, second, scratch):
            for step in STEPS:
                a = cuda.shfl_xor_sync(ALL_LANES, first, step)
                b = cuda.shfl_xor_sync(ALL_LANES, second, step)
                first, second = merge(first, second, a, b)
            if WARPS > 1:
                thread = cuda.threadIdx.x
                lane = thread % 32
                if lane == 0:
                    scratch[thread // 32, 0] = first
                    scratch[thread // 32, 1] = second
                cuda.syncthreads()
                first, second = none, ZERO
                if lane < WARPS:
                    first, second = scratch[lane, 0], scratch[lane, 1]
                for step in STEPS:
                    a = cuda.shfl_xor_sync(ALL_LANES, first, step)
                    b = cuda.shfl_xor_sync(ALL_LANES, second, step)
                    first, second = merge(first, second, a, b)
                cuda.syncthreads()
            return first, second

        return over_group

    return {
        "sum": single(add, ZERO),
        "max": single(larger, LOWEST),
        "sums": double(add_pairs, ZERO),
        "softmax": double(merge_softmax, LOWEST),
        "merge_softmax": merge_softmax,
    }


@cache
def starts_at_vectors(element: str) -> Any:
    """Return the device function ``(x, y, count) -> bool``: whether rows of both start at multiples of 16 bytes."""
    from numba import cuda
    from numba.cuda import types
    from numba.cuda.extending import intrinsic

    NBYTES = 4 if element == "float32" else 2  # noqa: N806
    SIXTEEN, ZERO = types.uint64(16), types.uint64(0)  # noqa: N806
    uint64 = types.uint64

    @intrinsic  # type: ignore[untyped-decorator]
    def address(typing, array):
        def emit(context, builder, signature, arguments):
            data = context.make_array(array)(context, builder, arguments[0]).data
            return builder.ptrtoint(data, context.get_value_type(types.uint64))

        return types.uint64(array), emit

    @cuda.jit(device=True, forceinline=True)
    def is_aligned(x, y, count):
        return (address(x) | address(y) | uint64(count * NBYTES)) % SIXTEEN == ZERO

    return is_aligned
