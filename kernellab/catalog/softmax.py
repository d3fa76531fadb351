"""Softmax over rows: three passes, then online, then a row that never leaves the registers."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803

from __future__ import annotations

from typing import Any

import numpy as np

from kernellab.catalog import elements, row_twins, rows
from kernellab.kernel import Kernel, Stage
from kernellab.problem import ELEMENTS, Array, Arrays, Case, Cost, Operand, Problem, Sizes


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
    roundings=3,
    magnitude=magnitude,
)


def three_pass(THREADS: int, element: str) -> Any:
    """Make the twin of softmax/three_pass."""
    from numba import cuda, float32

    to_float, from_float = elements.conversions(element)
    exponential, reciprocal, fmaxf = (
        row_twins.exponential(element),
        cuda.libdevice.frcp_rn,
        cuda.libdevice.fmaxf,
    )
    group_sum, group_max = row_twins.exchanges(THREADS)["sum"], row_twins.exchanges(THREADS)["max"]
    ZERO, LOWEST = float32(0), float32(-np.inf)  # noqa: N806

    def softmax_three_pass(x, y):
        scratch = cuda.shared.array(32, float32)
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
    exponential, reciprocal = row_twins.exponential(element), cuda.libdevice.frcp_rn
    merge, group_softmax = (
        row_twins.exchanges(THREADS)["merge_softmax"],
        row_twins.exchanges(THREADS)["softmax"],
    )
    ZERO, ONE, LOWEST = float32(0), float32(1), float32(-np.inf)  # noqa: N806

    def softmax_online(x, y):
        scratch = cuda.shared.array((32, 2), float32, alignment=8)
        r, columns = cuda.blockIdx.x, x.shape[1]

        # Maximum and sum together.
        top, total = LOWEST, ZERO
        for c in range(cuda.threadIdx.x, columns, THREADS):
            value = to_float(x[r, c])
            top, total = merge(top, total, value, ONE)
        top, total = group_softmax(top, total, scratch)

        # The answer; an infinite maximum gives NaN, as subtracting it from itself does.
        scale = reciprocal(total + (top - top))
        for c in range(cuda.threadIdx.x, columns, THREADS):
            value = to_float(x[r, c])
            y[r, c] = from_float(exponential(value - top) * scale)

    return softmax_online


def registers(THREADS: int, GROUP: int, VECTORS: int, ROWS: int, element: str) -> Any:
    """Make the twin of softmax/registers."""
    from numba import cuda, float32

    ITEMS = VECTORS * elements.lanes(element)  # noqa: N806
    HELD = GROUP * ITEMS  # noqa: N806
    KEPT = ROWS * ITEMS  # noqa: N806
    to_float, from_float = elements.conversions(element)
    read_row, write_row = row_twins.row_access(element, GROUP, VECTORS)
    exponential, reciprocal, fmaxf = (
        row_twins.exponential(element),
        cuda.libdevice.frcp_rn,
        cuda.libdevice.fmaxf,
    )
    group_sum, group_max = row_twins.exchanges(GROUP)["sum"], row_twins.exchanges(GROUP)["max"]
    starts_at_vectors = row_twins.starts_at_vectors(element)
    ZERO, LOWEST = float32(0), float32(-np.inf)  # noqa: N806

    def softmax_registers(x, y):
        scratch = cuda.shared.array(32, float32)
        value = cuda.local.array(KEPT, float32)
        count, columns = x.shape
        member, held = cuda.threadIdx.x % GROUP, columns if columns < HELD else HELD
        row = (cuda.blockIdx.x * (THREADS // GROUP) + cuda.threadIdx.x // GROUP) * ROWS
        is_aligned = starts_at_vectors(x, y, columns)

        # Read what the registers hold.
        for q in range(ROWS):
            within = held if row + q < count else 0
            read_row(x, row + q, 0, within, member, is_aligned, LOWEST, value, q * ITEMS)

        for q in range(ROWS):
            within = held if row + q < count else 0
            end = columns if row + q < count else 0

            # The maximum: NaN is lost here and comes back with the sum.
            top = LOWEST
            for i in range(q * ITEMS, q * ITEMS + ITEMS):
                top = fmaxf(top, value[i])
            for c in range(HELD + member, end, GROUP):
                top = fmaxf(top, to_float(x[row + q, c]))
            top = group_max(top, scratch)

            # The exponentials, in place, and their sum.
            total = ZERO
            for i in range(q * ITEMS, q * ITEMS + ITEMS):
                value[i] = exponential(value[i] - top)
                total += value[i]
            for c in range(HELD + member, end, GROUP):
                total += exponential(to_float(x[row + q, c]) - top)
            scale = reciprocal(group_sum(total, scratch))

            # Write.
            for i in range(q * ITEMS, q * ITEMS + ITEMS):
                value[i] *= scale
            write_row(y, row + q, 0, within, member, is_aligned, value, q * ITEMS)
            for c in range(HELD + member, end, GROUP):
                y[row + q, c] = from_float(exponential(to_float(x[row + q, c]) - top) * scale)

    return softmax_registers


def split(THREADS: int, VECTORS: int, element: str) -> Any:
    """Make the twins of softmax/split."""
    from numba import cuda, float32

    ITEMS = VECTORS * elements.lanes(element)  # noqa: N806
    HELD = THREADS * ITEMS  # noqa: N806
    read_row, write_row = row_twins.row_access(element, THREADS, VECTORS)
    exponential, reciprocal, fmaxf = (
        row_twins.exponential(element),
        cuda.libdevice.frcp_rn,
        cuda.libdevice.fmaxf,
    )
    exchanges = row_twins.exchanges(THREADS)
    group_sum, group_max, group_softmax = exchanges["sum"], exchanges["max"], exchanges["softmax"]
    merge, starts_at_vectors = exchanges["merge_softmax"], row_twins.starts_at_vectors(element)
    ZERO, LOWEST = float32(0), float32(-np.inf)  # noqa: N806

    def softmax_split_partial(x, tops, sums):
        scratch = cuda.shared.array(32, float32)
        value = cuda.local.array(ITEMS, float32)
        columns, parts = x.shape[1], tops.shape[1]
        r, part = cuda.blockIdx.x // parts, cuda.blockIdx.x % parts
        start, thread = part * HELD, cuda.threadIdx.x
        held = columns - start if columns - start < HELD else HELD
        read_row(x, r, start, held, thread, starts_at_vectors(x, x, columns), LOWEST, value, 0)
        top = LOWEST
        for i in range(ITEMS):
            top = fmaxf(top, value[i])
        top = group_max(top, scratch)

        # A part of nothing but -inf sums to 0; NaN and +inf come through.
        shift = ZERO if top == LOWEST else top
        total = ZERO
        for i in range(ITEMS):
            total += exponential(value[i] - shift)
        total = group_sum(total, scratch)
        if thread == 0:
            tops[r, part] = top
            sums[r, part] = total

    def softmax_split_write(x, tops, sums, y):
        scratch = cuda.shared.array((32, 2), float32, alignment=8)
        value = cuda.local.array(ITEMS, float32)
        columns, parts = x.shape[1], tops.shape[1]
        block = cuda.gridDim.x - 1 - cuda.blockIdx.x  # the last parts are still in L2
        r, start, thread = block // parts, block % parts * HELD, cuda.threadIdx.x
        held = columns - start if columns - start < HELD else HELD
        is_aligned = starts_at_vectors(x, y, columns)
        read_row(x, r, start, held, thread, is_aligned, LOWEST, value, 0)

        # Merge the parts of the row; an infinite maximum makes the sum NaN.
        top, total = LOWEST, ZERO
        for k in range(thread, parts, THREADS):
            top, total = merge(top, total, tops[r, k], sums[r, k])
        top, total = group_softmax(top, total, scratch)
        scale = reciprocal(total + (top - top))

        for i in range(ITEMS):
            value[i] = exponential(value[i] - top) * scale
        write_row(y, r, start, held, thread, is_aligned, value, 0)

    return softmax_split_partial, softmax_split_write


LADDER = (
    Kernel(
        PROBLEM, "three_pass", ("x", "y", "columns"), rows.BLOCK, three_pass, rows.BLOCKED, elements=ELEMENTS
    ),
    Kernel(PROBLEM, "online", ("x", "y", "columns"), rows.BLOCK, online, rows.BLOCKED, elements=ELEMENTS),
    Kernel(
        PROBLEM,
        "split",
        ("x", "y", "columns"),
        rows.PARTS,
        split,
        rows.SPLIT,
        elements=ELEMENTS,
        stages=(
            Stage("partial", ("x", "tops", "sums", "columns", "parts"), rows.PARTS),
            Stage("write", ("x", "tops", "sums", "y", "columns", "parts"), rows.PARTS),
        ),
        temporaries=rows.partials("tops", "sums"),
        derived=rows.PARTED,
        tuning=rows.SPLIT_TUNING,
    ),
    Kernel(
        PROBLEM,
        "registers",
        ("x", "y", "rows", "columns"),
        rows.GROUPS,
        registers,
        rows.SHAPE,
        constraint=rows.group_shape,
        elements=ELEMENTS,
        tuning=rows.TUNING,
    ),
)
