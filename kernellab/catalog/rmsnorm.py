"""RMSNorm over rows: two passes, rows over several blocks, rows in registers."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from kernellab.catalog import elements, group_twins, norms, row_rungs, row_twins, rows
from kernellab.problem import Array, Arrays, Case, Cost, Operand, Parameter, Problem, Sizes


def reference(x: Array, weight: Array, eps: float) -> dict[str, Array]:
    """Return each row over its root mean square, times the weight, in float64."""
    wide = x.astype(np.float64)
    if not wide.size:
        return {"y": wide}
    with np.errstate(all="ignore"):
        scale = 1 / np.sqrt(np.square(wide).mean(axis=1, keepdims=True) + float(eps))
        return {"y": wide * scale * weight.astype(np.float64)}


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Return ``x`` and a weight near 1 for each column."""
    made = norms.inputs(case, rng)
    return {"x": made["x"], "weight": made["weight"]}


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return every element read and written once, the weight read once; four operations an element."""
    count, each = sizes["rows"] * sizes["columns"], rows.itemsize(arrays)
    return Cost((count + sizes["columns"]) * each, count * each, 4 * count)


PROBLEM = Problem(
    name="rmsnorm",
    summary="y[r] = x[r] / sqrt(mean(x[r] ** 2) + eps) * weight",
    operands=(
        Operand("x", "element", ("rows", "columns")),
        Operand("weight", "element", ("columns",)),
        Operand("y", "element", ("rows", "columns"), role="out"),
    ),
    make_inputs=make_inputs,
    reference=reference,
    cost=cost,
    cases=rows.cases(),
    parameters=(Parameter("eps", "float32", 1e-6, minimum=0),),
    roundings=5,
)


@cache
def work_of(element: str, members: int, vectors: int) -> row_twins.Work:
    """Return what rmsnorm does with rows in registers: ``Rmsnorm`` of ``norm.cuh``."""
    from numba import cuda, float32

    ITEMS, ZERO = vectors * elements.lanes(element), float32(0)
    IS_BLOCK = members > 32
    lanes, _, width = group_twins.team(members)
    (warp_sum, _), (last_sum, _) = group_twins.over_lanes(lanes), group_twins.over_lanes(width)
    of_one, _, _ = group_twins.of_warps(members)
    _, scale_row = norms.row_weighed(element, members, vectors)
    rsqrtf, fmaf, divide = cuda.libdevice.rsqrtf, cuda.libdevice.fmaf, cuda.libdevice.fdiv_rn

    @cuda.jit(device=True, forceinline=True)
    def take(value, base, held, member, is_aligned):
        a, b = ZERO, ZERO
        for i in range(base, base + ITEMS, 2):
            a = fmaf(value[i], value[i], a)
            b = fmaf(value[i + 1], value[i + 1], b)
        return warp_sum(a + b)

    @cuda.jit(device=True, forceinline=True)
    def meet(own, held, member, is_aligned, scratch, turn):
        if IS_BLOCK:
            own = last_sum(of_one(own, ZERO, scratch, turn))
        return own

    @cuda.jit(device=True, forceinline=True)
    def merge(a, b):
        return a + b

    @cuda.jit(device=True, forceinline=True)
    def finish(own, found, value, base, start, held, member, is_aligned, first, more):
        scale = rsqrtf(divide(found, float32(more[1])) + more[2])
        for i in range(base, base + ITEMS):
            value[i] *= scale
        scale_row(more[0], start, held, member, is_aligned, value, base)

    return row_twins.Work(0.0, 1, (0.0,), take, meet, merge, finish)


def two_pass(THREADS: int, element: str) -> Any:
    """Make the twin of rmsnorm/two_pass."""
    from numba import cuda, float32

    to_float, from_float = elements.conversions(element)
    group_sum, divide = group_twins.exchanges(THREADS)["sum"], cuda.libdevice.fdiv_rn
    rsqrtf, fmaf, ZERO = cuda.libdevice.rsqrtf, cuda.libdevice.fmaf, float32(0)

    def rmsnorm_two_pass(x, weight, y, eps):
        scratch = cuda.shared.array((1, 32), float32)
        r, columns = cuda.blockIdx.x, x.shape[1]

        # The mean square.
        total = ZERO
        for c in range(cuda.threadIdx.x, columns, THREADS):
            value = to_float(x[r, c])
            total = fmaf(value, value, total)
        scale = rsqrtf(divide(group_sum(total, scratch), float32(columns)) + eps)

        # The answer.
        for c in range(cuda.threadIdx.x, columns, THREADS):
            w = to_float(weight[c])
            value = to_float(x[r, c])
            y[r, c] = from_float(value * scale * w)

    return rmsnorm_two_pass


def split(THREADS: int, VECTORS: int, element: str) -> Any:
    """Make the twins of rmsnorm/split."""
    from numba import cuda, float32

    ITEMS = VECTORS * elements.lanes(element)
    HELD = THREADS * ITEMS
    read_row, write_row = row_twins.row_access(element, THREADS, VECTORS)
    group_sum, divide = group_twins.exchanges(THREADS)["sum"], cuda.libdevice.fdiv_rn
    _, scale_row = norms.row_weighed(element, THREADS, VECTORS)
    starts_at_vectors = row_twins.starts_at_vectors(element)
    rsqrtf, fmaf, ZERO = cuda.libdevice.rsqrtf, cuda.libdevice.fmaf, float32(0)

    def rmsnorm_split_partial(x, squares):
        scratch = cuda.shared.array((1, 32), float32)
        value = cuda.local.array(ITEMS, float32)
        columns, parts = x.shape[1], squares.shape[1]
        r, part, thread = cuda.blockIdx.x // parts, cuda.blockIdx.x % parts, cuda.threadIdx.x
        start = part * HELD
        held = columns - start if columns - start < HELD else HELD
        read_row(x, r, start, held, thread, starts_at_vectors(x, x, columns), ZERO, value, 0)
        total = ZERO
        for i in range(ITEMS):
            total = fmaf(value[i], value[i], total)
        total = group_sum(total, scratch)
        if thread == 0:
            squares[r, part] = total

    def rmsnorm_split_write(x, weight, squares, y, eps):
        scratch = cuda.shared.array((1, 32), float32)
        value = cuda.local.array(ITEMS, float32)
        columns, parts = x.shape[1], squares.shape[1]
        block = cuda.gridDim.x - 1 - cuda.blockIdx.x  # the last parts are still in L2
        r, start, thread = block // parts, block % parts * HELD, cuda.threadIdx.x
        held = columns - start if columns - start < HELD else HELD
        is_aligned = starts_at_vectors(x, y, columns) and starts_at_vectors(weight, weight, 0)
        read_row(x, r, start, held, thread, is_aligned, ZERO, value, 0)

        # Merge the parts of the row.
        total = ZERO
        for k in range(thread, parts, THREADS):
            total += squares[r, k]
        scale = rsqrtf(divide(group_sum(total, scratch), float32(columns)) + eps)

        for i in range(ITEMS):
            value[i] *= scale
        scale_row(weight, start, held, thread, is_aligned, value, 0)
        write_row(y, r, start, held, thread, is_aligned, value, 0)

    return rmsnorm_split_partial, rmsnorm_split_write


def registers(THREADS: int, GROUP: int, VECTORS: int, ROWS: int, element: str) -> Any:
    """Make the twin of rmsnorm/registers."""
    work = work_of(element, GROUP, VECTORS)
    through = row_twins.through_registers(work, element, THREADS, GROUP, VECTORS, ROWS)
    starts_at_vectors = row_twins.starts_at_vectors(element)

    def rmsnorm_registers(x, weight, y, eps):
        through(x, x, y, starts_at_vectors(weight, weight, 0), (weight, x.shape[1], eps))

    return rmsnorm_registers


REGISTERS = row_rungs.in_registers(PROBLEM, ("x", "weight", "y", "rows", "columns", "eps"), registers)

LADDER = (
    row_rungs.by_blocks(PROBLEM, "two_pass", ("x", "weight", "y", "columns", "eps"), two_pass),
    row_rungs.split(
        PROBLEM,
        ("x", "weight", "y", "columns", "eps"),
        split,
        ("squares",),
        ("x", "weight", "squares", "y", "columns", "parts", "eps"),
    ),
    REGISTERS,
    row_rungs.pipelined(REGISTERS),
)
