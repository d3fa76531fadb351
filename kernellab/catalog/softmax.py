"""Softmax over rows: three passes, then online, then a row that never leaves the registers."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from kernellab.catalog import elements, group_twins, row_rungs, row_twins, rows, twins
from kernellab.problem import Array, Arrays, Case, Cost, Operand, Problem, Sizes


def reference(x: Array) -> dict[str, Array]:
    """Return the exponentials of each row over their sum in float64, NaN and infinities as in SciPy."""
    wide = x.astype(np.float64)
    if not wide.size:
        return {"y": wide}
    with np.errstate(all="ignore"):
        powers = np.exp(wide - wide.max(axis=1, keepdims=True))
        return {"y": powers / powers.sum(axis=1, keepdims=True)}


def magnitude(x: Array) -> dict[str, Array]:
    """Return what the error is in proportion to: in float32, how far below the maximum an element lies."""
    if x.dtype != np.float32 or not x.size:
        return {}
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        depth = wide.max(axis=1, keepdims=True) - wide
        return {"y": reference(x)["y"] * (1 + depth)}


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Return a (rows, columns) array of floats."""
    return {"x": rows.matrix(case, rng)}


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return every element read and written once; a subtraction, an exponential, two sums and a product."""
    count = sizes["rows"] * sizes["columns"]
    nbytes = count * rows.itemsize(arrays)
    return Cost(bytes_read=nbytes, bytes_written=nbytes, flops=5 * count)


PROBLEM = Problem(
    name="softmax",
    summary="y[r] = exp(x[r] - max(x[r])) / sum(exp(x[r] - max(x[r])))",
    operands=(
        Operand("x", "element", ("rows", "columns")),
        Operand("y", "element", ("rows", "columns"), role="out"),
    ),
    make_inputs=make_inputs,
    reference=reference,
    cost=cost,
    cases=rows.cases((*rows.CONTENTS, "huge", "far below zero")),
    roundings=4,
    magnitude=magnitude,
)


@cache
def raising(element: str) -> tuple[Any, Any, Any]:
    """Return ``unit_of(top)``, ``raised(difference)`` and ``raised_from(value, top)`` of ``softmax.cuh``."""
    from numba import cuda, float32

    expf, fmaf = cuda.libdevice.expf, cuda.libdevice.fmaf
    power_of_two = twins.approximation("ex2.approx.ftz.f32")
    LOG2_E, IS_WIDE = float32(math.log2(math.e)), element == "float32"  # noqa: N806

    @cuda.jit(device=True, forceinline=True)
    def unit_of(top):
        return top if IS_WIDE else top * LOG2_E

    @cuda.jit(device=True, forceinline=True)
    def raised(difference):
        return expf(difference) if IS_WIDE else power_of_two(difference)

    @cuda.jit(device=True, forceinline=True)
    def raised_from(value, top):
        return expf(value - top) if IS_WIDE else power_of_two(fmaf(value, LOG2_E, -top))

    return unit_of, raised, raised_from


@cache
def merging(element: str, members: int) -> tuple[Any, Any]:
    """Return ``merge(a, b)`` of pairs (maximum, sum), and ``group_softmax(pair, scratch)``."""
    from numba import cuda, float32

    _, raised, _ = raising(element)
    fmaxf, STEPS = cuda.libdevice.fmaxf, (16, 8, 4, 2, 1)  # noqa: N806
    _, _, WIDTH = group_twins.team(members)  # noqa: N806
    LAST = tuple(step for step in STEPS if step < WIDTH)  # noqa: N806
    ALL, NONE = twins.ALL_LANES, (float32(-np.inf), float32(0))  # noqa: N806
    _, of_two, _ = group_twins.of_warps(members)

    @cuda.jit(device=True, forceinline=True)
    def merge(a, b):
        top = fmaxf(a[0], b[0])
        left = a[1] if a[0] == top else a[1] * raised(a[0] - top)
        right = b[1] if b[0] == top else b[1] * raised(b[0] - top)
        return top, left + right

    @cuda.jit(device=True, forceinline=True)
    def group_softmax(pair, scratch):
        for step in STEPS:
            other = cuda.shfl_xor_sync(ALL, pair[0], step), cuda.shfl_xor_sync(ALL, pair[1], step)
            pair = merge(pair, other)
        if WIDTH > 1:
            pair = of_two(pair, NONE, scratch, 0)
            for step in LAST:
                other = cuda.shfl_xor_sync(ALL, pair[0], step), cuda.shfl_xor_sync(ALL, pair[1], step)
                pair = merge(pair, other)
            cuda.syncthreads()
        return pair

    return merge, group_softmax


@cache
def work(element: str, members: int, vectors: int) -> row_twins.Work:
    """Return what softmax does with rows in registers: ``Softmax`` of ``softmax.cuh``."""
    from numba import cuda, float32

    ITEMS = vectors * elements.lanes(element)  # noqa: N806
    ZERO, LOWEST = float32(0), float32(-np.inf)  # noqa: N806
    lanes, _, width = group_twins.team(members)
    IS_BLOCK = members > 32  # noqa: N806
    (warp_sum, warp_max), (last_sum, last_max) = group_twins.over_lanes(lanes), group_twins.over_lanes(width)
    unit_of, raised, raised_from = raising(element)
    merge, _ = merging(element, 32)
    _, of_two, _ = group_twins.of_warps(members)
    add_up, fmaxf, divide = twins.sum_of(ITEMS), cuda.libdevice.fmaxf, cuda.libdevice.fdiv_rn

    @cuda.jit(device=True, forceinline=True)
    def take(value, base, held, member, is_aligned):
        top = LOWEST
        for i in range(base, base + ITEMS):
            top = fmaxf(top, value[i])
        top = unit_of(warp_max(top))
        shift = ZERO if top == LOWEST else top
        for i in range(base, base + ITEMS):
            value[i] = raised_from(value[i], shift)
        return top, warp_sum(add_up(value, base))

    @cuda.jit(device=True, forceinline=True)
    def meet(own, held, member, is_aligned, scratch, turn):
        if IS_BLOCK:
            first, second = of_two(own, (LOWEST, ZERO), scratch, turn)
            top = last_max(first)
            if first != top:
                second *= raised(first - top)
            own = top, last_sum(second)
        return own

    @cuda.jit(device=True, forceinline=True)
    def finish(own, found, value, base, start, held, member, is_aligned, first, more):
        factor = divide(raised(own[0] - found[0]), found[1])
        for i in range(base, base + ITEMS):
            value[i] *= factor

    return row_twins.Work(-np.inf, 2, (-np.inf, 0.0), take, meet, merge, finish)


def three_pass(THREADS: int, element: str) -> Any:
    """Make the twin of softmax/three_pass."""
    from numba import cuda, float32

    to_float, from_float = elements.conversions(element)
    exponential, reciprocal = twins.exponential(element), cuda.libdevice.frcp_rn
    fmaxf, exchanges = cuda.libdevice.fmaxf, group_twins.exchanges(THREADS)
    group_sum, group_max = exchanges["sum"], exchanges["max"]
    ZERO, LOWEST = float32(0), float32(-np.inf)  # noqa: N806

    def softmax_three_pass(x, y):
        scratch = cuda.shared.array((1, 32), float32)
        r, columns = cuda.blockIdx.x, x.shape[1]

        # The maximum. NaN is lost here and comes back with the sum.
        top = LOWEST
        for c in range(cuda.threadIdx.x, columns, THREADS):
            value = to_float(x[r, c])
            top = fmaxf(top, value)
        top = group_max(top, scratch)

        # The sum.
        total = ZERO
        for c in range(cuda.threadIdx.x, columns, THREADS):
            value = to_float(x[r, c])
            total += exponential(value - top)
        scale = reciprocal(group_sum(total, scratch))

        # The answer.
        for c in range(cuda.threadIdx.x, columns, THREADS):
            value = to_float(x[r, c])
            y[r, c] = from_float(exponential(value - top) * scale)

    return softmax_three_pass


def online(THREADS: int, element: str) -> Any:
    """Make the twin of softmax/online."""
    from numba import cuda, float32

    to_float, from_float = elements.conversions(element)
    exponential, reciprocal = twins.exponential(element), cuda.libdevice.frcp_rn
    merge, group_softmax = merging("float32", THREADS)
    ZERO, ONE, LOWEST = float32(0), float32(1), float32(-np.inf)  # noqa: N806

    def softmax_online(x, y):
        scratch = cuda.shared.array((1, 32, 2), float32, alignment=8)
        r, columns = cuda.blockIdx.x, x.shape[1]

        # Maximum and sum together.
        found = LOWEST, ZERO
        for c in range(cuda.threadIdx.x, columns, THREADS):
            value = to_float(x[r, c])
            found = merge(found, (value, ONE))
        top, total = group_softmax(found, scratch)

        # The answer; an infinite maximum gives NaN, as subtracting it from itself does.
        scale = reciprocal(total + (top - top))
        for c in range(cuda.threadIdx.x, columns, THREADS):
            value = to_float(x[r, c])
            y[r, c] = from_float(exponential(value - top) * scale)

    return softmax_online


def registers(THREADS: int, GROUP: int, VECTORS: int, ROWS: int, element: str) -> Any:
    """Make the twin of softmax/registers."""
    through = row_twins.through_registers(
        work(element, GROUP, VECTORS), element, THREADS, GROUP, VECTORS, ROWS
    )

    def softmax_registers(x, y):
        through(x, x, y, True, ())

    return softmax_registers


def split(THREADS: int, VECTORS: int, element: str) -> Any:
    """Make the twins of softmax/split."""
    from numba import cuda, float32

    ITEMS = VECTORS * elements.lanes(element)  # noqa: N806
    HELD = THREADS * ITEMS  # noqa: N806
    read_row, write_row = row_twins.row_access(element, THREADS, VECTORS)
    reciprocal, starts_at_vectors = cuda.libdevice.frcp_rn, row_twins.starts_at_vectors(element)
    take, meet = work(element, THREADS, VECTORS).take, work(element, THREADS, VECTORS).meet
    (merge, group_softmax), (_, _, raised_from) = merging(element, THREADS), raising(element)
    ZERO, LOWEST = float32(0), float32(-np.inf)  # noqa: N806

    def softmax_split_partial(x, tops, sums):
        scratch = cuda.shared.array((1, 32, 2), float32, alignment=8)
        value = cuda.local.array(ITEMS, float32)
        columns, parts = x.shape[1], tops.shape[1]
        r, part = cuda.blockIdx.x // parts, cuda.blockIdx.x % parts
        start, thread = part * HELD, cuda.threadIdx.x
        held = columns - start if columns - start < HELD else HELD
        is_aligned = starts_at_vectors(x, x, columns)
        read_row(x, r, start, held, thread, is_aligned, LOWEST, value, 0)
        own = take(value, 0, held, thread, is_aligned)
        top, total = meet(own, held, thread, is_aligned, scratch, 0)
        if thread == 0:
            tops[r, part] = top
            sums[r, part] = total

    def softmax_split_write(x, tops, sums, y):
        scratch = cuda.shared.array((1, 32, 2), float32, alignment=8)
        value = cuda.local.array(ITEMS, float32)
        columns, parts = x.shape[1], tops.shape[1]
        block = cuda.gridDim.x - 1 - cuda.blockIdx.x  # the last parts are still in L2
        r, start, thread = block // parts, block % parts * HELD, cuda.threadIdx.x
        held = columns - start if columns - start < HELD else HELD
        is_aligned = starts_at_vectors(x, y, columns)
        read_row(x, r, start, held, thread, is_aligned, LOWEST, value, 0)

        # Merge the parts of the row; an infinite maximum makes the sum NaN.
        found = LOWEST, ZERO
        for k in range(thread, parts, THREADS):
            found = merge(found, (tops[r, k], sums[r, k]))
        top, total = group_softmax(found, scratch)
        scale = reciprocal(total + (top - top))

        for i in range(ITEMS):
            value[i] = raised_from(value[i], top) * scale
        write_row(y, r, start, held, thread, is_aligned, value, 0)

    return softmax_split_partial, softmax_split_write


REGISTERS = row_rungs.in_registers(PROBLEM, ("x", "y", "rows", "columns"), registers)

LADDER = (
    row_rungs.by_blocks(PROBLEM, "three_pass", ("x", "y", "columns"), three_pass),
    row_rungs.by_blocks(PROBLEM, "online", ("x", "y", "columns"), online),
    row_rungs.split(
        PROBLEM,
        ("x", "y", "columns"),
        split,
        ("tops", "sums"),
        ("x", "tops", "sums", "y", "columns", "parts"),
    ),
    REGISTERS,
    row_rungs.pipelined(REGISTERS),
)
