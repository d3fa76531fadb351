"""Layernorm followed by GeLU: in one kernel, and in two with the array between them in memory."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803

from __future__ import annotations

from typing import Any

from kernellab.catalog import elements, gelus, layernorm, norms, row_rungs, row_twins, rows, twins
from kernellab.kernel import Stage, Tuning
from kernellab.problem import Array, Arrays, Cost, Problem, Sizes


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
    work = norms.work(element, GROUP, VECTORS, activated=gelus.in_place(VECTORS * elements.lanes(element)))
    through = row_twins.through_registers(work, element, THREADS, GROUP, VECTORS, ROWS)
    starts_at_vectors = row_twins.starts_at_vectors(element)

    def layernorm_gelu_registers(x, weight, bias, y, eps, form):
        through(x, x, y, starts_at_vectors(weight, bias, 0), (weight, bias, x.shape[1], eps, form))

    return layernorm_gelu_registers


def unfused(THREADS: int, GROUP: int, VECTORS: int, ROWS: int, element: str) -> Any:
    """Make the twins of layernorm_gelu/unfused: that of layernorm/registers, and GeLU."""
    return (
        twins.renamed(
            layernorm.registers(THREADS, GROUP, VECTORS, ROWS, element), "layernorm_gelu_unfused_norm", y="h"
        ),
        gelus.streaming(THREADS, element, "layernorm_gelu_unfused_gelu"),
    )


IN = ("x", "weight", "bias")
ARGUMENTS = (*IN, "y", "rows", "columns", "eps", "form")

TUNING = Tuning(rows.SHAPE, rows.computing(64, {"float32": 2}))

REGISTERS = row_rungs.in_registers(PROBLEM, ARGUMENTS, registers, TUNING)

LADDER = (
    row_rungs.unfused(
        REGISTERS,
        unfused,
        Stage("norm", (*IN, "h", "rows", "columns", "eps"), rows.GROUPS),
        Stage("gelu", ("h", "y", "rows", "columns", "form"), rows.FLAT),
    ),
    REGISTERS,
    row_rungs.pipelined(REGISTERS),
)
