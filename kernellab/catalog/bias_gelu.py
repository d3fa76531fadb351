"""GeLU of a matrix plus a bias: a thread an element, vectors down the rows, and two kernels for the same."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

from typing import Any

import numpy as np

from kernellab.catalog import elements, gelus, norms, row_twins, rows
from kernellab.kernel import Geometry, Kernel, Stage, Tuning, covering
from kernellab.problem import ELEMENTS, Array, Arrays, Case, Cost, Operand, Problem, Sizes


def reference(x: Array, bias: Array, form: int) -> dict[str, Array]:
    """Return GeLU of the sum in float64."""
    with np.errstate(all="ignore"):
        return {"y": gelus.gelu(x.astype(np.float64) + bias.astype(np.float64), form)}


def magnitude(x: Array, bias: Array, form: int) -> dict[str, Array]:
    """Return what the error is in proportion to: the size of what is added, as GeLU passes it on."""
    wide, other = x.astype(np.float64), bias.astype(np.float64)
    with np.errstate(all="ignore"):
        between = wide + other
        return {"y": rows.passed_on(between, np.abs(wide) + np.abs(other), gelus.gelu(between, form))}


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Return ``x`` and a bias near 0 for each column; or the values at which GeLU goes wrong."""
    made = norms.inputs(case, rng)
    if case.contents == "where GeLU goes wrong":
        special = [np.inf, -np.inf, np.nan, -13.24, -6, -5, -4, -0.0, 11, 40, 1e38, -1e38]
        made["x"].reshape(-1)[: len(special)] = special
        made["bias"][...] = 0
    return {"x": made["x"], "bias": made["bias"]}


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return every element read and written once, the bias read once; eleven operations an element."""
    count, each = sizes["rows"] * sizes["columns"], rows.itemsize(arrays)
    return Cost((count + sizes["columns"]) * each, count * each, 11 * count)


WRONG = "where GeLU goes wrong"

PROBLEM = Problem(
    name="bias_gelu",
    summary="y[r] = gelu(x[r] + bias)",
    operands=(
        Operand("x", "element", ("rows", "columns")),
        Operand("bias", "element", ("columns",)),
        Operand("y", "element", ("rows", "columns"), role="out"),
    ),
    make_inputs=make_inputs,
    reference=reference,
    magnitude=magnitude,
    cost=cost,
    cases=(
        *rows.cases((WRONG,)),
        rows.case("form with erf", 3, 1000, {"form": gelus.ERF}),
        rows.case(f"{WRONG}, with erf", 2, 40, {"form": gelus.ERF}, WRONG),
        rows.case(f"{WRONG} in float16", 2, 40, {}, WRONG, "float16"),
    ),
    parameters=(gelus.FORM,),
    roundings=5,
)


def scalar(THREADS: int, element: str) -> Any:
    """Make the twin of bias_gelu/scalar."""
    from numba import cuda

    to_float, from_float = elements.conversions(element)
    gelu = gelus.twin()

    def bias_gelu_scalar(x, bias, y, form):
        i = cuda.grid(1)
        if i < x.size:
            r, c = i // x.shape[1], i % x.shape[1]
            added = to_float(bias[c])
            value = to_float(x[r, c]) + added
            y[r, c] = from_float(gelu(value, form))

    return bias_gelu_scalar


def tall(THREADS: int, GROUP: int, ROWS: int, element: str, activate: Any) -> Any:
    """Return ``(x, bias, y, form)``: all of a kernel that holds a column's bias in registers, down rows."""
    from numba import cuda, float32

    PER, ZERO = elements.lanes(element), float32(0)
    HELD, KEPT, BESIDE = GROUP * PER, ROWS * PER, THREADS // GROUP
    EACH = ROWS * BESIDE
    read_bias = row_twins.bias_access(element, GROUP)
    read_row, write_row = row_twins.row_access(element, GROUP, 1)
    starts_at_vectors = row_twins.starts_at_vectors(element)

    @cuda.jit(device=True, forceinline=True)
    def through(x, bias, y, form):
        value, added = cuda.local.array(KEPT, float32), cuda.local.array(PER, float32)
        count, columns = x.shape
        start, member, first = cuda.blockIdx.x * HELD, cuda.threadIdx.x, 0
        if BESIDE > 1:
            member, first = cuda.threadIdx.x % GROUP, cuda.threadIdx.x // GROUP
        held = columns - start if columns - start < HELD else HELD
        is_aligned = starts_at_vectors(x, y, columns) and starts_at_vectors(bias, bias, 0)
        read_bias(bias, start, held, member, is_aligned, added)
        for row in range(cuda.blockIdx.y * EACH + first, count, cuda.gridDim.y * EACH):
            for q in range(ROWS):
                r = row + q * BESIDE
                read_row(x, r, start, held if r < count else 0, member, is_aligned, ZERO, value, q * PER)
            for q in range(ROWS):
                for i in range(PER):
                    value[q * PER + i] = activate(value[q * PER + i] + added[i], form)
                r = row + q * BESIDE
                write_row(y, r, start, held if r < count else 0, member, is_aligned, value, q * PER)

    return through


def vectorised(THREADS: int, GROUP: int, ROWS: int, element: str) -> Any:
    """Make the twin of bias_gelu/vectorised."""
    through = tall(THREADS, GROUP, ROWS, element, gelus.twin())

    def bias_gelu_vectorised(x, bias, y, form):
        through(x, bias, y, form)

    return bias_gelu_vectorised


def unfused(THREADS: int, GROUP: int, ROWS: int, element: str) -> Any:
    """Make the twins of bias_gelu/unfused."""
    from numba import cuda

    @cuda.jit(device=True, forceinline=True)
    def unchanged(value, form):
        return value

    through = tall(THREADS, GROUP, ROWS, element, unchanged)

    def bias_gelu_unfused_add(x, bias, h):
        through(x, bias, h, 0)

    return bias_gelu_unfused_add, gelus.streaming(THREADS, element, "bias_gelu_unfused_gelu")


def columns_by_rows(at: Sizes) -> tuple[int, ...]:
    """Return the blocks across the columns, and those down the rows, which walk on beyond the limit of y."""
    per = elements.lanes(ELEMENTS[at["ELEMENT"]])
    each = at["threads"] // at["GROUP"] * at["ROWS"]
    return covering(at["columns"], at["GROUP"] * per), min(covering(at["rows"], each), 65535)


def tall_shape_for(sizes: Sizes, element: str) -> dict[str, int]:
    """Return the launch shape for a row's length: no more threads a row than it has vectors."""
    vectors = max(1, covering(sizes["columns"], elements.lanes(element)))
    if vectors <= 32:
        return {"THREADS": 128, "GROUP": rows.part_of_a_warp(vectors), "ROWS": 4}
    threads = min(128, 32 * covering(vectors, 32))
    return {"THREADS": threads, "GROUP": threads, "ROWS": 4}


TALL = Geometry(block=("THREADS",), grid=columns_by_rows)
EACH = Geometry(block=("THREADS",), grid=lambda at: (covering(at["rows"] * at["columns"], at["threads"]),))
SHAPE = {"THREADS": 256, "GROUP": 256, "ROWS": 4}
TUNING = Tuning(SHAPE, tall_shape_for)
ARGUMENTS = ("x", "bias", "y", "rows", "columns", "form")

LADDER = (
    Kernel(PROBLEM, "scalar", ARGUMENTS, EACH, scalar, rows.BLOCKED, elements=ELEMENTS),
    Kernel(
        PROBLEM,
        "unfused",
        ARGUMENTS,
        TALL,
        unfused,
        SHAPE,
        elements=ELEMENTS,
        stages=(
            Stage("add", ("x", "bias", "h", "rows", "columns"), TALL),
            Stage("gelu", ("h", "y", "rows", "columns", "form"), rows.FLAT),
        ),
        temporaries=rows.BETWEEN,
        constraint=rows.group_shape,
        tuning=TUNING,
    ),
    Kernel(
        PROBLEM,
        "vectorised",
        ARGUMENTS,
        TALL,
        vectorised,
        SHAPE,
        elements=ELEMENTS,
        constraint=rows.group_shape,
        tuning=TUNING,
    ),
)
