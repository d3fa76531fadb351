"""Layernorm over rows: three passes, Welford's one, rows over several blocks, rows in registers."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

from typing import Any

from kernellab.catalog import elements, group_twins, norms, row_rungs, row_twins, rows
from kernellab.problem import Array, Arrays, Cost, Operand, Parameter, Problem, Sizes


def reference(x: Array, weight: Array, bias: Array, eps: float) -> dict[str, Array]:
    """Return layernorm of each row in float64."""
    return {"y": norms.normalised(x, weight, bias, eps)}


def magnitude(x: Array, weight: Array, bias: Array, eps: float) -> dict[str, Array]:
    """Return the size of what is subtracted and added."""
    return {"y": norms.spread(x, weight, bias, eps)}


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return every element read and written once, weight and bias read once; eight operations an element."""
    count, each = sizes["rows"] * sizes["columns"], rows.itemsize(arrays)
    return Cost((count + 2 * sizes["columns"]) * each, count * each, 8 * count)


PROBLEM = Problem(
    name="layernorm",
    summary="y[r] = (x[r] - mean(x[r])) / sqrt(var(x[r]) + eps) * weight + bias",
    operands=(
        Operand("x", "element", ("rows", "columns")),
        Operand("weight", "element", ("columns",)),
        Operand("bias", "element", ("columns",)),
        Operand("y", "element", ("rows", "columns"), role="out"),
    ),
    make_inputs=norms.inputs,
    reference=reference,
    magnitude=magnitude,
    cost=cost,
    cases=rows.cases(),
    parameters=(Parameter("eps", "float32", 1e-5, minimum=0),),
    roundings=4,
)


def three_pass(THREADS: int, element: str) -> Any:
    """Make the twin of layernorm/three_pass."""
    from numba import cuda, float32

    to_float, from_float = elements.conversions(element)
    group_sum, group_sums = group_twins.exchanges(THREADS)["sum"], group_twins.exchanges(THREADS)["sums"]
    make_norm, apply = norms.norm_from(), norms.applied()
    divide, fmaf, ZERO = cuda.libdevice.fdiv_rn, cuda.libdevice.fmaf, float32(0)

    def layernorm_three_pass(x, weight, bias, y, eps):
        scratch = cuda.shared.array((1, 32), float32)
        pairs = cuda.shared.array((1, 32, 2), float32, alignment=8)
        r, columns = cuda.blockIdx.x, x.shape[1]

        # The mean.
        total = ZERO
        for c in range(cuda.threadIdx.x, columns, THREADS):
            value = to_float(x[r, c])
            total += value
        mean = divide(group_sum(total, scratch), float32(columns))

        # The deviations from it, and their squares.
        first, second = ZERO, ZERO
        for c in range(cuda.threadIdx.x, columns, THREADS):
            deviation = to_float(x[r, c]) - mean
            first += deviation
            second = fmaf(deviation, deviation, second)
        first, second = group_sums(first, second, pairs)
        norm = make_norm(mean, first, second, columns, eps)

        # The answer.
        for c in range(cuda.threadIdx.x, columns, THREADS):
            w, b = to_float(weight[c]), to_float(bias[c])
            value = to_float(x[r, c])
            y[r, c] = from_float(fmaf(apply(value, norm), w, b))

    return layernorm_three_pass


def welford(THREADS: int, element: str) -> Any:
    """Make the twin of layernorm/welford."""
    from numba import cuda, float32

    to_float, from_float = elements.conversions(element)
    include, group_moments = norms.welford()
    over_block, divide = group_moments(THREADS), cuda.libdevice.fdiv_rn
    rsqrtf, fmaf, ZERO = cuda.libdevice.rsqrtf, cuda.libdevice.fmaf, float32(0)

    def layernorm_welford(x, weight, bias, y, eps):
        scratch = cuda.shared.array((32, 3), float32)
        r, columns = cuda.blockIdx.x, x.shape[1]

        # Count, mean and squared deviations together.
        count, mean, squares = ZERO, ZERO, ZERO
        for c in range(cuda.threadIdx.x, columns, THREADS):
            value = to_float(x[r, c])
            count, mean, squares = include(count, mean, squares, value)
        count, mean, squares = over_block(count, mean, squares, scratch)

        # The answer.
        scale = rsqrtf(divide(squares, float32(columns)) + eps)
        for c in range(cuda.threadIdx.x, columns, THREADS):
            w, b = to_float(weight[c]), to_float(bias[c])
            value = to_float(x[r, c])
            y[r, c] = from_float(fmaf((value - mean) * scale, w, b))

    return layernorm_welford


def split(THREADS: int, VECTORS: int, element: str) -> Any:
    """Make the twins of layernorm/split."""
    from numba import cuda, float32

    ITEMS = VECTORS * elements.lanes(element)
    HELD = THREADS * ITEMS
    read_row, write_row = row_twins.row_access(element, THREADS, VECTORS)
    take, meet, _ = norms.deviating(element, THREADS, VECTORS)
    group_sum, group_sums = group_twins.exchanges(THREADS)["sum"], group_twins.exchanges(THREADS)["sums"]
    weigh_row, _ = norms.row_weighed(element, THREADS, VECTORS)
    make_norm, apply, starts_at_vectors = (
        norms.norm_from(),
        norms.applied(),
        row_twins.starts_at_vectors(element),
    )
    divide, fmaf, ZERO = cuda.libdevice.fdiv_rn, cuda.libdevice.fmaf, float32(0)
    moved = norms.about()

    def layernorm_split_partial(x, means, squares):
        scratch = cuda.shared.array((1, 32, 3), float32)
        value = cuda.local.array(ITEMS, float32)
        columns, parts = x.shape[1], means.shape[1]
        r, part, thread = cuda.blockIdx.x // parts, cuda.blockIdx.x % parts, cuda.threadIdx.x
        start = part * HELD
        held = columns - start if columns - start < HELD else HELD
        is_aligned = starts_at_vectors(x, x, columns)
        read_row(x, r, start, held, thread, is_aligned, ZERO, value, 0)
        own = take(value, 0, held, thread, is_aligned)
        count, mean, first, second = meet(own, held, thread, is_aligned, scratch, 0)
        if thread == 0:
            offset = divide(first, count)
            means[r, part] = mean + offset
            squares[r, part] = fmaf(-offset, first, second)

    def layernorm_split_write(x, weight, bias, means, squares, y, eps):
        scratch = cuda.shared.array((1, 32), float32)
        pairs = cuda.shared.array((1, 32, 2), float32, alignment=8)
        value = cuda.local.array(ITEMS, float32)
        columns, parts = x.shape[1], means.shape[1]
        block = cuda.gridDim.x - 1 - cuda.blockIdx.x  # the last parts are still in L2
        r, start, thread = block // parts, block % parts * HELD, cuda.threadIdx.x
        held = columns - start if columns - start < HELD else HELD
        is_aligned = starts_at_vectors(x, y, columns) and starts_at_vectors(weight, bias, 0)
        read_row(x, r, start, held, thread, is_aligned, ZERO, value, 0)

        # Merge the parts of the row: their means, then how far each lies from the common one.
        total = ZERO
        for k in range(thread, parts, THREADS):
            total += means[r, k] * float32(HELD if k + 1 < parts else columns - k * HELD)
        mean = divide(group_sum(total, scratch), float32(columns))
        first, second = ZERO, ZERO
        for k in range(thread, parts, THREADS):
            count = float32(HELD if k + 1 < parts else columns - k * HELD)
            _, more, squared = moved((means[r, k], ZERO, squares[r, k]), mean, count)
            first += more
            second += squared
        first, second = group_sums(first, second, pairs)
        norm = make_norm(mean, first, second, columns, eps)

        for i in range(ITEMS):
            value[i] = apply(value[i], norm)
        weigh_row(weight, bias, start, held, thread, is_aligned, value, 0)
        write_row(y, r, start, held, thread, is_aligned, value, 0)

    return layernorm_split_partial, layernorm_split_write


def registers(THREADS: int, GROUP: int, VECTORS: int, ROWS: int, element: str) -> Any:
    """Make the twin of layernorm/registers."""
    work = norms.work(element, GROUP, VECTORS)
    through = row_twins.through_registers(work, element, THREADS, GROUP, VECTORS, ROWS)
    starts_at_vectors = row_twins.starts_at_vectors(element)

    def layernorm_registers(x, weight, bias, y, eps):
        through(x, x, y, starts_at_vectors(weight, bias, 0), (weight, bias, x.shape[1], eps))

    return layernorm_registers


IN = ("x", "weight", "bias")

REGISTERS = row_rungs.in_registers(PROBLEM, (*IN, "y", "rows", "columns", "eps"), registers)

LADDER = (
    row_rungs.by_blocks(PROBLEM, "three_pass", (*IN, "y", "columns", "eps"), three_pass),
    row_rungs.by_blocks(PROBLEM, "welford", (*IN, "y", "columns", "eps"), welford),
    row_rungs.split(
        PROBLEM,
        (*IN, "y", "columns", "eps"),
        split,
        ("means", "squares"),
        (*IN, "means", "squares", "y", "columns", "parts", "eps"),
    ),
    REGISTERS,
    row_rungs.pipelined(REGISTERS),
)
