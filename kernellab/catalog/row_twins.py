"""Rows for twins: exchanges within a group, rows to and from registers, as ``rows.cuh`` has them."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from kernellab.catalog import elements

ALL_LANES = 0xFFFFFFFF


def renamed(function: Any, name: str, **arguments: str) -> Any:
    """Return a twin under the names, its own and its arguments', that it has as a stage of another rung."""
    code = function.__code__
    names = tuple(arguments.get(each, each) for each in code.co_varnames)
    function.__code__ = code.replace(co_varnames=names)
    function.__name__ = function.__qualname__ = name
    return function


@cache
def approximation(operation: str) -> Any:
    """Return the float32 function that is one PTX instruction, such as ``ex2.approx.ftz.f32``."""
    from llvmlite import ir
    from numba.cuda import types
    from numba.cuda.extending import intrinsic

    @intrinsic
    def apply(typing, value):
        def emit(context, builder, signature, arguments):
            kind = ir.FunctionType(ir.FloatType(), [ir.FloatType()])
            return builder.call(ir.InlineAsm(kind, f"{operation} $0, $1;", "=f,f"), arguments)

        return types.float32(types.float32), emit

    return apply


@cache
def exponential(element: str) -> Any:
    """Return e to the power of a float32, as ``rows.cuh`` has it for one element."""
    from numba import cuda, float32

    if element == "float32":
        return cuda.libdevice.expf
    power_of_two, LOG2_E = approximation("ex2.approx.ftz.f32"), float32(math.log2(math.e))  # noqa: N806

    @cuda.jit(device=True, forceinline=True)
    def exponential_16(value):
        return power_of_two(value * LOG2_E)

    return exponential_16


@cache
def sum_of(count: int) -> Any:
    """Return ``(value, base) -> float32``: the sum of so many values, in four chains."""
    from numba import cuda, float32

    ZERO = float32(0)  # noqa: N806

    @cuda.jit(device=True, forceinline=True)
    def add_up(value, base):
        a, b, c, d = ZERO, ZERO, ZERO, ZERO
        for i in range(base, base + count, 4):
            a += value[i]
            b += value[i + 1]
            c += value[i + 2]
            d += value[i + 3]
        return (a + b) + (c + d)

    return add_up


class Work(NamedTuple):
    """What a rung does with rows in registers, as ``rows.cuh`` says: device functions of its frame.

    Attributes
    ----------
    none : float
        What stands beyond a row's end.
    width : int
        Numbers that a warp tells the others.
    nothing : tuple of float
        What is found in no columns.
    take, meet, merge : device function
        ``take(value, base, held, member, is_aligned) -> found``,
        ``meet(own, held, member, is_aligned, scratch, turn) -> all``, ``merge(a, b) -> found``.
    finish : device function
        ``finish(own, all, value, base, start, held, member, is_aligned, first, more)``; `more` is a tuple of
        what else the entry takes.
    """

    none: float
    width: int
    nothing: tuple[float, ...]
    take: Any
    meet: Any
    merge: Any
    finish: Any
    is_sum: bool = False


def through_registers(work: Work, element: str, threads: int, members: int, vectors: int, each: int) -> Any:
    """Return ``(x, residual, y, is_aligned, more)``: the frame of the rungs that keep rows in registers."""
    from numba import cuda, float32, int64

    ITEMS = vectors * elements.lanes(element)  # noqa: N806
    HELD, KEPT, NONE = members * ITEMS, each * ITEMS, float32(work.none)  # noqa: N806
    numbers = tuple(float32(number) for number in work.nothing)
    NOTHING = numbers if len(numbers) > 1 else numbers[0]  # noqa: N806
    SHAPE = (2, 32, work.width) if work.width > 1 else (2, 32)  # noqa: N806
    take, meet, merge, finish, is_sum = work.take, work.meet, work.merge, work.finish, work.is_sum
    read_row, write_row = row_access(element, members, vectors)
    add_row, vectors_at = row_added(element, members, vectors), starts_at_vectors(element)

    @cuda.jit(device=True, forceinline=True)
    def gather(x, residual, r, start, held, member, is_aligned, value, base):
        read_row(x, r, start, held, member, is_aligned, NONE, value, base)
        if is_sum:
            add_row(residual, r, start, held, member, is_aligned, value, base)

    @cuda.jit(device=True, forceinline=True)
    def long_row(x, residual, y, r, end, member, is_aligned, value, scratch, more):
        columns = x.shape[1]
        found = NOTHING
        for start in range(0, columns, HELD):
            held = min(max(end - start, int64(0)), int64(HELD))
            gather(x, residual, r, start, held, member, is_aligned, value, 0)
            own = take(value, 0, held, member, is_aligned)
            found = merge(found, meet(own, held, member, is_aligned, scratch, 0))
            cuda.syncthreads()
        for start in range(0, columns, HELD):
            held = min(max(end - start, int64(0)), int64(HELD))
            gather(x, residual, r, start, held, member, is_aligned, value, 0)
            own = take(value, 0, held, member, is_aligned)
            finish(own, found, value, 0, start, held, member, is_aligned, r * columns, more)
            write_row(y, r, start, held, member, is_aligned, value, 0)

    @cuda.jit(device=True, forceinline=True)
    def through(x, residual, y, weights_aligned, more):
        scratch = cuda.shared.array(SHAPE, float32, alignment=8)
        value = cuda.local.array(KEPT, float32)
        count, columns = x.shape
        member = cuda.threadIdx.x % members
        row = (cuda.blockIdx.x * (threads // members) + cuda.threadIdx.x // members) * each
        is_aligned = vectors_at(x, y, columns) and weights_aligned
        if columns > HELD:
            for q in range(each):
                end = columns if row + q < count else 0
                long_row(x, residual, y, row + q, end, member, is_aligned, value, scratch, more)
            return
        for q in range(each):
            held = columns if row + q < count else 0
            gather(x, residual, row + q, 0, held, member, is_aligned, value, q * ITEMS)
        for q in range(each):
            r, base = row + q, q * ITEMS
            held = columns if r < count else 0
            own = take(value, base, held, member, is_aligned)
            found = meet(own, held, member, is_aligned, scratch, q % 2)
            finish(own, found, value, base, 0, held, member, is_aligned, r * columns, more)
            write_row(y, r, 0, held, member, is_aligned, value, base)

    return through


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
        ``read_row(x, r, start, held, member, is_aligned, none, value, base)`` puts `held` columns of row `r`,
        from `start` on, into ``value[base:]``, and `none` where the row has ended;
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


@cache
def over_lanes(width: int) -> tuple[Any, Any]:
    """Return ``sum(value)`` and ``max(value)`` over so many neighbouring lanes, a power of two."""
    from numba import cuda

    STEPS = tuple(step for step in (16, 8, 4, 2, 1) if step < width)  # noqa: N806
    fmaxf = cuda.libdevice.fmaxf
    if not STEPS:  # one lane; Numba refuses a loop over an empty tuple

        @cuda.jit(device=True, forceinline=True)
        def alone(value):
            return value

        return alone, alone

    @cuda.jit(device=True, forceinline=True)
    def total(value):
        for step in STEPS:
            value += cuda.shfl_xor_sync(ALL_LANES, value, step)
        return value

    @cuda.jit(device=True, forceinline=True)
    def largest(value):
        for step in STEPS:
            value = fmaxf(value, cuda.shfl_xor_sync(ALL_LANES, value, step))
        return value

    return total, largest


def team(members: int) -> tuple[int, int, int]:
    """Return the lanes of a group's warp, its warps, and the lanes that cover them.

    Examples
    --------
    >>> team(8), team(96), team(1024)
    ((8, 1, 1), (32, 3, 4), (32, 32, 32))
    """
    warps = max(1, members // 32)
    return min(members, 32), warps, 1 << (warps - 1).bit_length()


@cache
def of_warps(members: int) -> tuple[Any, Any, Any]:
    """Return what gives lane i, i + WIDTH, ... what warp i has found: of one, two and three numbers.

    They are ``(value, none, scratch, turn)`` on numbers or tuples; ``scratch[turn]`` is shared memory for 32.
    """
    from numba import cuda

    _, WARPS, WIDTH = team(members)  # noqa: N806

    @cuda.jit(device=True, forceinline=True)
    def of_one(value, none, scratch, turn):
        thread = cuda.threadIdx.x
        if thread % 32 == 0:
            scratch[turn, thread // 32] = value
        cuda.syncthreads()
        value = none
        if thread % WIDTH < WARPS:
            value = scratch[turn, thread % WIDTH]
        return value

    @cuda.jit(device=True, forceinline=True)
    def of_two(value, none, scratch, turn):
        thread = cuda.threadIdx.x
        if thread % 32 == 0:
            scratch[turn, thread // 32, 0] = value[0]
            scratch[turn, thread // 32, 1] = value[1]
        cuda.syncthreads()
        a, b = none
        if thread % WIDTH < WARPS:
            a, b = scratch[turn, thread % WIDTH, 0], scratch[turn, thread % WIDTH, 1]
        return a, b

    @cuda.jit(device=True, forceinline=True)
    def of_three(value, none, scratch, turn):
        thread = cuda.threadIdx.x
        if thread % 32 == 0:
            scratch[turn, thread // 32, 0] = value[0]
            scratch[turn, thread // 32, 1] = value[1]
            scratch[turn, thread // 32, 2] = value[2]
        cuda.syncthreads()
        a, b, c = none
        if thread % WIDTH < WARPS:
            at = thread % WIDTH
            a, b, c = scratch[turn, at, 0], scratch[turn, at, 1], scratch[turn, at, 2]
        return a, b, c

    return of_one, of_two, of_three


@cache
def exchanges(members: int) -> dict[str, Any]:
    """Return device functions that merge a value over a block of so many threads, as ``rows.cuh`` does.

    Parameters
    ----------
    members : int
        Whole warps. ``scratch`` is shared memory for 32 values, (1, 32) or (1, 32, 2) float32.

    Returns
    -------
    dict of str to device function
        ``sum(value, scratch)``, ``max(value, scratch)`` and ``sums(first, second, scratch)``.
    """
    from numba import cuda, float32

    ZERO, LOWEST = float32(0), float32(-np.inf)  # noqa: N806
    lanes, _, width = team(members)
    IS_BLOCK = members > 32  # noqa: N806
    (warp_sum, warp_max), (last_sum, last_max) = over_lanes(lanes), over_lanes(width)
    of_one, of_two, _ = of_warps(members)

    @cuda.jit(device=True, forceinline=True)
    def group_sum(value, scratch):
        value = warp_sum(value)
        if IS_BLOCK:
            value = last_sum(of_one(value, ZERO, scratch, 0))
            cuda.syncthreads()
        return value

    @cuda.jit(device=True, forceinline=True)
    def group_max(value, scratch):
        value = warp_max(value)
        if IS_BLOCK:
            value = last_max(of_one(value, LOWEST, scratch, 0))
            cuda.syncthreads()
        return value

    @cuda.jit(device=True, forceinline=True)
    def group_sums(first, second, scratch):
        first, second = warp_sum(first), warp_sum(second)
        if IS_BLOCK:
            first, second = of_two((first, second), (ZERO, ZERO), scratch, 0)
            first, second = last_sum(first), last_sum(second)
            cuda.syncthreads()
        return first, second

    return {"sum": group_sum, "max": group_max, "sums": group_sums}


@cache
def starts_at_vectors(element: str) -> Any:
    """Return ``(x, y, count) -> bool``: whether rows of `count` elements start at 16 bytes in both arrays."""
    from numba import cuda
    from numba.cuda import types
    from numba.cuda.extending import intrinsic

    NBYTES = 4 if element == "float32" else 2  # noqa: N806
    SIXTEEN, ZERO = types.uint64(16), types.uint64(0)  # noqa: N806
    uint64 = types.uint64

    @intrinsic
    def address(typing, array):
        def emit(context, builder, signature, arguments):
            data = context.make_array(array)(context, builder, arguments[0]).data
            return builder.ptrtoint(data, context.get_value_type(types.uint64))

        return types.uint64(array), emit

    @cuda.jit(device=True, forceinline=True)
    def is_aligned(x, y, count):
        return (address(x) | address(y) | uint64(count * NBYTES)) % SIXTEEN == ZERO

    return is_aligned
