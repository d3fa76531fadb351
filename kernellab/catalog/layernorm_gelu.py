"""Layernorm followed by GeLU: in one kernel, and in two with the array between them in memory."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

from typing import Any

from kernellab.catalog import elements, gelus, layernorm, norms, row_twins, rows
from kernellab.kernel import Kernel, Stage
from kernellab.problem import ELEMENTS, Array, Arrays, Cost, Problem, Sizes


def reference(x: Array, weight: Array, bias: Array, eps: float, form: int) -> dict[str, Array]:
    """Return GeLU of the layernorm of each row in float64."""
    return {"y": gelus.gelu(norms.normalised(x, weight, bias, eps), form)}


def magnitude(x: Array, weight: Array, bias: Array, eps: float, form: int) -> dict[str, Array]:
    """Return what the error is in proportion to: that of layernorm, as GeLU passes it on."""
    between = norms.normalised(x, weight, bias, eps)
    return {"y": rows.passed_on(between, norms.spread(x, weight, bias, eps), gelus.gelu(between, form))}


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return the traffic of layernorm, and ten operations more an element."""
    norm = layernorm.cost(sizes, arrays)
    return Cost(norm.bytes_read, norm.bytes_written, norm.flops + 10 * sizes["rows"] * sizes["columns"])


PROBLEM = Problem(
    name="layernorm_gelu",
    summary="y[r] = gelu((x[r] - mean(x[r])) / sqrt(var(x[r]) + eps) * weight + bias)",
    operands=layernorm.PROBLEM.operands,
    make_inputs=norms.inputs,
    reference=reference,
    magnitude=magnitude,
    cost=cost,
    cases=(*rows.cases(), rows.case("form with erf", 3, 1000, {"form": gelus.ERF})),
    parameters=(*layernorm.PROBLEM.parameters, gelus.FORM),
    roundings=5,
)


def registers(THREADS: int, GROUP: int, VECTORS: int, ROWS: int, element: str) -> Any:
    """Make the twin of layernorm_gelu/registers."""
    from numba import cuda, float32

    ITEMS = VECTORS * elements.lanes(element)
    HELD, KEPT, ZERO = GROUP * ITEMS, ROWS * ITEMS, float32(0)
    to_float, from_float = elements.conversions(element)
    read_row, write_row = row_twins.row_access(element, GROUP, VECTORS)
    weigh_row, _ = norms.row_weighed(element, GROUP, VECTORS)
    norm_of, apply, fmaf = norms.row_norm(element, GROUP, VECTORS), norms.applied(), cuda.libdevice.fmaf
    starts_at_vectors, gelu = row_twins.starts_at_vectors(element), gelus.twin(element)

    def layernorm_gelu_registers(x, weight, bias, y, eps, form):
        scratch = cuda.shared.array(32, float32)
        pairs = cuda.shared.array((32, 2), float32, alignment=8)
        value = cuda.local.array(KEPT, float32)
        count, columns = x.shape
        member, held = cuda.threadIdx.x % GROUP, columns if columns < HELD else HELD
        row = (cuda.blockIdx.x * (THREADS // GROUP) + cuda.threadIdx.x // GROUP) * ROWS
        is_aligned = starts_at_vectors(x, y, columns) and starts_at_vectors(weight, bias, 0)

        # Read what the registers hold.
        for q in range(ROWS):
            within = held if row + q < count else 0
            read_row(x, row + q, 0, within, member, is_aligned, ZERO, value, q * ITEMS)

        for q in range(ROWS):
            r, base = row + q, q * ITEMS
            within, end = (held, columns) if r < count else (0, 0)
            norm = norm_of(x, x, r, value, base, within, end, member, is_aligned, eps, scratch, pairs)

            # Normalise, weigh, activate, write.
            for i in range(base, base + ITEMS):
                value[i] = apply(value[i], norm)
            weigh_row(weight, bias, 0, within, member, is_aligned, value, base)
            for i in range(base, base + ITEMS):
                value[i] = gelu(value[i], form)
            write_row(y, r, 0, within, member, is_aligned, value, base)
            for c in range(HELD + member, end, GROUP):
                w, b = to_float(weight[c]), to_float(bias[c])
                y[r, c] = from_float(gelu(fmaf(apply(to_float(x[r, c]), norm), w, b), form))

    return layernorm_gelu_registers


def unfused(THREADS: int, GROUP: int, VECTORS: int, ROWS: int, element: str) -> Any:
    """Make the twins of layernorm_gelu/unfused: that of layernorm/registers, and GeLU."""
    return (
        row_twins.renamed(
            layernorm.registers(THREADS, GROUP, VECTORS, ROWS, element), "layernorm_gelu_unfused_norm", y="h"
        ),
        gelus.streaming(THREADS, element, "layernorm_gelu_unfused_gelu"),
    )


IN = ("x", "weight", "bias")
ARGUMENTS = (*IN, "y", "rows", "columns", "eps", "form")

LADDER = (
    Kernel(
        PROBLEM,
        "unfused",
        ARGUMENTS,
        rows.GROUPS,
        unfused,
        rows.SHAPE,
        constraint=rows.group_shape,
        elements=ELEMENTS,
        stages=(
            Stage("norm", (*IN, "h", "rows", "columns", "eps"), rows.GROUPS),
            Stage("gelu", ("h", "y", "rows", "columns", "form"), rows.FLAT),
        ),
        temporaries=rows.BETWEEN,
        tuning=rows.TUNING,
    ),
    Kernel(
        PROBLEM,
        "registers",
        ARGUMENTS,
        rows.GROUPS,
        registers,
        rows.SHAPE,
        constraint=rows.group_shape,
        elements=ELEMENTS,
        tuning=rows.TUNING,
    ),
)
