"""Softmax with dropout: in one kernel, and in two; both drop the same elements."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

from typing import Any

import numpy as np

from kernellab.catalog import elements, philox, row_twins, rows, softmax
from kernellab.kernel import Kernel, Stage
from kernellab.problem import ELEMENTS, Array, Arrays, Cost, Problem, Sizes


def reference(x: Array, p: float, seed: int) -> dict[str, Array]:
    """Return softmax in float64, with what Philox drops as 0 and the rest over ``1 - p``."""
    return {"y": philox.dropped(softmax.reference(x)["y"], p, seed)}


def magnitude(x: Array, p: float, seed: int) -> dict[str, Array]:
    """Return what the error is in proportion to, as for softmax."""
    return {name: size / max(1 - float(p), 2.0**-24) for name, size in softmax.magnitude(x).items()}


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return the traffic of softmax and its operations; those on integers do not count."""
    return softmax.cost(sizes, arrays)


CASES = (
    *rows.cases(("a row of -inf", "NaN in some rows")),
    rows.case("p = 0", 3, 1000, {"p": 0.0, "seed": 7}),
    rows.case("p = 1", 3, 1000, {"p": 1.0, "seed": 7}),
    rows.case("a seed of 64 bits", 3, 1000, {"p": 0.5, "seed": 2**63 + 2**40 + 5}),
)

PROBLEM = Problem(
    name="softmax_dropout",
    summary="y[r] = softmax(x[r]) / (1 - p) where the random bits keep it, else 0",
    operands=softmax.PROBLEM.operands,
    make_inputs=softmax.make_inputs,
    reference=reference,
    magnitude=magnitude,
    cost=cost,
    cases=CASES,
    parameters=(philox.P, philox.SEED),
    roundings=4,
)


def registers(THREADS: int, GROUP: int, VECTORS: int, ROWS: int, element: str) -> Any:
    """Make the twin of softmax_dropout/registers."""
    from numba import cuda, float32

    ITEMS = VECTORS * elements.lanes(element)
    HELD, KEPT = GROUP * ITEMS, ROWS * ITEMS
    to_float, from_float = elements.conversions(element)
    read_row, write_row = row_twins.row_access(element, GROUP, VECTORS)
    exponential, reciprocal, fmaxf = (
        row_twins.exponential(element),
        cuda.libdevice.frcp_rn,
        cuda.libdevice.fmaxf,
    )
    group_sum, group_max = row_twins.exchanges(GROUP)["sum"], row_twins.exchanges(GROUP)["max"]
    starts_at_vectors, limits = row_twins.starts_at_vectors(element), philox.twin()[0]
    drop_row, drop_at = philox.row_dropped(element, GROUP, VECTORS)
    ZERO, LOWEST = float32(0), float32(-np.inf)

    def softmax_dropout_registers(x, y, p, seed):
        scratch = cuda.shared.array(32, float32)
        value = cuda.local.array(KEPT, float32)
        count, columns = x.shape
        member, held = cuda.threadIdx.x % GROUP, columns if columns < HELD else HELD
        row = (cuda.blockIdx.x * (THREADS // GROUP) + cuda.threadIdx.x // GROUP) * ROWS
        is_aligned, limit = starts_at_vectors(x, y, columns), limits(p)

        # Read what the registers hold.
        for q in range(ROWS):
            within = held if row + q < count else 0
            read_row(x, row + q, 0, within, member, is_aligned, LOWEST, value, q * ITEMS)

        for q in range(ROWS):
            r, base = row + q, q * ITEMS
            within, end = (held, columns) if r < count else (0, 0)

            # The maximum: NaN is lost here and comes back with the sum.
            top = LOWEST
            for i in range(base, base + ITEMS):
                top = fmaxf(top, value[i])
            for c in range(HELD + member, end, GROUP):
                top = fmaxf(top, to_float(x[r, c]))
            top = group_max(top, scratch)

            # The exponentials, in place, and their sum.
            total = ZERO
            for i in range(base, base + ITEMS):
                value[i] = exponential(value[i] - top)
                total += value[i]
            for c in range(HELD + member, end, GROUP):
                total += exponential(to_float(x[r, c]) - top)
            scale = reciprocal(group_sum(total, scratch))

            # Scale, drop, write.
            for i in range(base, base + ITEMS):
                value[i] *= scale
            drop_row(limit, seed, r * columns, member, is_aligned, value, base)
            write_row(y, r, 0, within, member, is_aligned, value, base)
            for c in range(HELD + member, end, GROUP):
                chance = exponential(to_float(x[r, c]) - top) * scale
                y[r, c] = from_float(drop_at(limit, seed, chance, r * columns + c))

    return softmax_dropout_registers


def unfused(THREADS: int, GROUP: int, VECTORS: int, ROWS: int, element: str) -> Any:
    """Make the twins of softmax_dropout/unfused: that of softmax/registers, and dropout."""
    from numba import cuda, float32

    PER = elements.lanes(element)
    HELD = THREADS * PER
    read_flat, write_flat = row_twins.flat_access(element, THREADS)
    starts_at_vectors, limits = row_twins.starts_at_vectors(element), philox.twin()[0]
    drop_row, _ = philox.row_dropped(element, THREADS, 1)

    def softmax_dropout_unfused_dropout(h, y, p, seed):
        value = cuda.local.array(PER, float32)
        start, thread = cuda.blockIdx.x * HELD, cuda.threadIdx.x
        held = h.size - start if h.size - start < HELD else HELD
        is_aligned = starts_at_vectors(h, y, held)
        read_flat(h, start, held, thread, is_aligned, value)
        drop_row(limits(p), seed, start, thread, is_aligned, value, 0)
        write_flat(y, start, held, thread, is_aligned, value)

    first = softmax.registers(THREADS, GROUP, VECTORS, ROWS, element)
    return row_twins.renamed(first, "softmax_dropout_unfused_softmax", y="h"), softmax_dropout_unfused_dropout


ARGUMENTS = ("x", "y", "rows", "columns", "p", "seed")

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
            Stage("softmax", ("x", "h", "rows", "columns"), rows.GROUPS),
            Stage("dropout", ("h", "y", "rows", "columns", "p", "seed"), rows.FLAT),
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
