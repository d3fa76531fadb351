"""Softmax with dropout: in one kernel, and in two; both drop the same elements."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernellab.catalog import elements, philox, row_rungs, row_twins, rows, softmax, twins
from kernellab.kernel import Stage, Tuning, covering
from kernellab.problem import Array, Arrays, Cost, Problem, Sizes


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


def work_of(element: str, members: int, vectors: int) -> row_twins.Work:
    """Return what this does with rows in registers: that of softmax, and dropout; ``more`` is p and the seed."""
    from numba import cuda

    ITEMS = vectors * elements.lanes(element)
    _, raised, _ = softmax.raising(element)
    divide, (limits, _, _) = cuda.libdevice.fdiv_rn, philox.twin()
    drop_row, _ = philox.row_dropped(element, members, vectors)

    @cuda.jit(device=True, forceinline=True)
    def finish(own, found, value, base, start, held, member, is_aligned, first, more):
        limit = limits(more[0])
        factor = divide(raised(own[0] - found[0]), found[1]) * limit[1]
        for i in range(base, base + ITEMS):
            value[i] *= factor
        drop_row(limit, more[1], first + start, member, is_aligned, value, base)

    return softmax.work(element, members, vectors)._replace(finish=finish)


def registers(THREADS: int, GROUP: int, VECTORS: int, ROWS: int, element: str) -> Any:
    """Make the twin of softmax_dropout/registers."""
    work = work_of(element, GROUP, VECTORS)
    through = row_twins.through_registers(work, element, THREADS, GROUP, VECTORS, ROWS)

    def softmax_dropout_registers(x, y, p, seed):
        through(x, x, y, True, (p, seed))

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
        limit = limits(p)
        for i in range(PER):
            value[i] *= limit[1]
        drop_row(limit, seed, start, thread, is_aligned, value, 0)
        write_flat(y, start, held, thread, is_aligned, value)

    first = softmax.registers(THREADS, GROUP, VECTORS, ROWS, element)
    return twins.renamed(first, "softmax_dropout_unfused_softmax", y="h"), softmax_dropout_unfused_dropout


ARGUMENTS = ("x", "y", "rows", "columns", "p", "seed")


def shape_for(sizes: Sizes, element: str) -> Mapping[str, int]:
    """Return the launch shape: rows up to 1024 columns need no barrier, a warp holds them."""
    per = elements.lanes(element)
    vectors = covering(sizes["columns"], per)
    if 64 < vectors <= 1024 // per:
        threads = 32 if per == 8 else 128
        return rows.within_a_warp(vectors, rows.ITEMS_HELD // per, threads, 1)
    if vectors > 1024:
        each = rows.ITEMS_HELD // per
        threads = min(1024, 32 * covering(vectors, 32 * each))
        return {"THREADS": threads, "GROUP": threads, "VECTORS": each, "ROWS": 1}
    return rows.computing(128, {})(sizes, element)


TUNING = Tuning(rows.SHAPE, shape_for)

REGISTERS = row_rungs.in_registers(PROBLEM, ARGUMENTS, registers, TUNING)

LADDER = (
    row_rungs.unfused(
        REGISTERS,
        unfused,
        Stage("softmax", ("x", "h", "rows", "columns"), rows.GROUPS),
        Stage("dropout", ("h", "y", "rows", "columns", "p", "seed"), rows.FLAT),
    ),
    REGISTERS,
    row_rungs.pipelined(REGISTERS),
)
