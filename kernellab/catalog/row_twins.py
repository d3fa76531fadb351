"""Rows for twins: exchanges within a group, rows to and from registers, as ``rows.cuh`` has them."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from kernellab.catalog import elements

ALL_LANES = 0xFFFFFFFF


def renamed(function: Any, name: str, **arguments: str) -> Any:
    """Return a twin under the names, its own and its arguments', that it has as a stage of another rung."""
    code = function.__code__
    names = tuple(arguments.get(each, each) for each in code.co_varnames)
    function.__code__ = code.replace(co_name=name, co_varnames=names)
    function.__name__ = function.__qualname__ = name
    return function


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
        if not STEPS:  # a group of one lane; Numba refuses a loop over an empty tuple

            @cuda.jit(device=True, forceinline=True)
            def alone(value, scratch):
                return value

            return alone

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
        if not STEPS:

            @cuda.jit(device=True, forceinline=True)
            def alone(first, second, scratch):
                return first, second

            return alone

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
