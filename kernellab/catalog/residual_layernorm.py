"""Layernorm of a sum: in one kernel, and in two with the sum in memory between them."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

from typing import Any

import numpy as np

from kernellab.catalog import elements, layernorm, norms, row_rungs, row_twins, rows, twins
from kernellab.kernel import Stage
from kernellab.problem import Array, Arrays, Case, Cost, Operand, Problem, Sizes


def reference(x: Array, residual: Array, weight: Array, bias: Array, eps: float) -> dict[str, Array]:
    """Return layernorm of each row of the sum in float64."""
    with np.errstate(all="ignore"):
        return {"y": norms.normalised(x.astype(np.float64) + residual.astype(np.float64), weight, bias, eps)}


def magnitude(x: Array, residual: Array, weight: Array, bias: Array, eps: float) -> dict[str, Array]:
    """Return the size of what is added, subtracted and added."""
    wide, other = x.astype(np.float64), residual.astype(np.float64)
    with np.errstate(all="ignore"):
        total = wide + other
        scale = norms.scale_of(total, eps) * np.abs(weight.astype(np.float64))
        return {"y": norms.spread(total, weight, bias, eps) + (np.abs(wide) + np.abs(other)) * scale}


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Return ``x``, a residual of its size, a weight near 1 and a bias near 0 for each column."""
    made = norms.inputs(case, rng)
    shape = case.sizes["rows"], case.sizes["columns"]
    return {**made, "residual": rng.standard_normal(shape, dtype=np.float32)}


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return both arrays read and one written, weight and bias read once; nine operations an element."""
    count, each = sizes["rows"] * sizes["columns"], rows.itemsize(arrays)
    return Cost((2 * count + 2 * sizes["columns"]) * each, count * each, 9 * count)


PROBLEM = Problem(
    name="residual_layernorm",
    summary="y[r] = layernorm(x[r] + residual[r]) * weight + bias",
    operands=(
        Operand("x", "element", ("rows", "columns")),
        Operand("residual", "element", ("rows", "columns")),
        Operand("weight", "element", ("columns",)),
        Operand("bias", "element", ("columns",)),
        Operand("y", "element", ("rows", "columns"), role="out"),
    ),
    make_inputs=make_inputs,
    reference=reference,
    magnitude=magnitude,
    cost=cost,
    cases=rows.cases(),
    parameters=layernorm.PROBLEM.parameters,
    roundings=4,
)


def registers(THREADS: int, GROUP: int, VECTORS: int, ROWS: int, element: str) -> Any:
    """Make the twin of residual_layernorm/registers."""
    work = norms.work(element, GROUP, VECTORS, is_sum=True)
    through = row_twins.through_registers(work, element, THREADS, GROUP, VECTORS, ROWS)
    starts_at_vectors = row_twins.starts_at_vectors(element)

    def residual_layernorm_registers(x, residual, weight, bias, y, eps):
        is_aligned = starts_at_vectors(weight, bias, 0) and starts_at_vectors(residual, residual, 0)
        through(x, residual, y, is_aligned, (weight, bias, x.shape[1], eps))

    return residual_layernorm_registers


def unfused(THREADS: int, GROUP: int, VECTORS: int, ROWS: int, element: str) -> Any:
    """Make the twins of residual_layernorm/unfused: a sum, and that of layernorm/registers."""
    from numba import cuda, float32

    PER = elements.lanes(element)
    HELD = THREADS * PER
    read_flat, write_flat = row_twins.flat_access(element, THREADS)
    starts_at_vectors = row_twins.starts_at_vectors(element)

    def residual_layernorm_unfused_add(x, residual, h):
        value, other = cuda.local.array(PER, float32), cuda.local.array(PER, float32)
        start, thread = cuda.blockIdx.x * HELD, cuda.threadIdx.x
        held = x.size - start if x.size - start < HELD else HELD
        is_aligned = starts_at_vectors(x, h, held) and starts_at_vectors(residual, residual, 0)
        read_flat(x, start, held, thread, is_aligned, value)
        read_flat(residual, start, held, thread, is_aligned, other)
        for i in range(PER):
            value[i] += other[i]
        write_flat(h, start, held, thread, is_aligned, value)

    norm = layernorm.registers(THREADS, GROUP, VECTORS, ROWS, element)
    return residual_layernorm_unfused_add, twins.renamed(norm, "residual_layernorm_unfused_norm", x="h")


ARGUMENTS = ("x", "residual", "weight", "bias", "y", "rows", "columns", "eps")

REGISTERS = row_rungs.in_registers(PROBLEM, ARGUMENTS, registers)

LADDER = (
    row_rungs.unfused(
        REGISTERS,
        unfused,
        Stage("add", ("x", "residual", "h", "rows", "columns"), rows.FLAT),
        Stage("norm", ("h", "weight", "bias", "y", "rows", "columns", "eps"), rows.GROUPS),
    ),
    REGISTERS,
    row_rungs.pipelined(REGISTERS, inputs=2),
)
