"""Rows for twins: to and from registers, and the frame of the rungs that keep them there, as ``rows.cuh`` has them."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from kernellab.catalog import elements


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
    fill, _ = elements.register_access(element)
    _, store = elements.vector_access(element)
    to_float, from_float = elements.conversions(element)
    take_all = taken(PER)

    @cuda.jit(device=True, forceinline=True)
    def read_row(x, r, start, held, member, is_aligned, none, value, base):
        first = r * x.shape[1] + start
        for i in range(vectors * PER):
            value[base + i] = none
        if is_aligned:
            for v in range(vectors):
                at = (v * members + member) * PER
                if at < held:
                    fill(value, base + v * PER, x, first + at)
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
    from numba import cuda, float32

    PER = elements.lanes(element)  # noqa: N806
    fill, _ = elements.register_access(element)
    to_float, _ = elements.conversions(element)

    @cuda.jit(device=True, forceinline=True)
    def add_row(residual, r, start, held, member, is_aligned, value, base):
        added = cuda.local.array(PER, float32)
        first = r * residual.shape[1] + start
        if is_aligned:
            for v in range(vectors):
                at = (v * members + member) * PER
                if at < held:
                    fill(added, 0, residual, first + at)
                    for i in range(PER):
                        value[base + v * PER + i] += added[i]
        else:
            for i in range(vectors * PER):
                c = i * members + member
                if c < held:
                    value[base + i] += to_float(residual[r, start + c])

    return add_row


@cache
def bias_access(element: str, members: int) -> Any:
    """Return ``read_bias(bias, start, held, member, is_aligned, added)``: one vector a thread, as of a row."""
    from numba import cuda, float32

    PER, ZERO = elements.lanes(element), float32(0)  # noqa: N806
    fill, _ = elements.register_access(element)
    to_float, _ = elements.conversions(element)

    @cuda.jit(device=True, forceinline=True)
    def read_bias(bias, start, held, member, is_aligned, added):
        for i in range(PER):
            added[i] = ZERO
        if is_aligned:
            if member * PER < held:
                fill(added, 0, bias, start + member * PER)
        else:
            for i in range(PER):
                at = i * members + member
                if at < held:
                    added[i] = to_float(bias[start + at])

    return read_bias


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
    fill, _ = elements.register_access(element)
    _, store = elements.vector_access(element)
    to_float, from_float = elements.conversions(element)
    take_all = taken(PER)

    @cuda.jit(device=True, forceinline=True)
    def read_flat(x, start, held, thread, is_aligned, value):
        columns = x.shape[1]
        for i in range(PER):
            value[i] = ZERO
        if is_aligned:
            if thread * PER < held:
                fill(value, 0, x, start + thread * PER)
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
