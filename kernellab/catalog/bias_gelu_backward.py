"""The gradients of GeLU of a matrix plus a bias: in two kernels, and in one that adds up as it goes."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from kernellab.catalog import bias_gelu, column_sum, columns, elements, gelus, row_twins, rows, twins
from kernellab.kernel import Kernel, Stage, Tuning
from kernellab.problem import ELEMENTS, Array, Arrays, Case, Cost, Operand, Problem, Sizes


def parts(h: Array, form: int) -> tuple[Array, Array]:
    """Return the two terms of GeLU's slope in float64: the factor of `h` in GeLU, and `h` times its slope."""
    near = np.clip(h, -100.0, 100.0)
    if form == gelus.ERF:
        share = gelus.gelu(near, form) / np.where(near == 0, 1, near)
        share = np.where(near == 0, 0.5, share)
        return share, near * np.exp(-0.5 * near * near) / math.sqrt(2 * math.pi)
    power = np.exp(-gelus.SLOPE * np.abs(near + 0.044715 * near**3))
    share = np.where(near < 0, power, 1) / (1 + power)
    return share, near * gelus.SLOPE * (1 + 3 * 0.044715 * near * near) * power / np.square(1 + power)


def gradient(dy: Array, x: Array, bias: Array, form: int) -> Array:
    """Return ``dx`` in float64."""
    with np.errstate(all="ignore"):
        first, second = parts(x.astype(np.float64) + bias.astype(np.float64), form)
        result: Array = dy.astype(np.float64) * (first + second)
    return result


def reference(dy: Array, x: Array, bias: Array, form: int) -> dict[str, Array]:
    """Return both gradients in float64."""
    dx = gradient(dy, x, bias, form)
    with np.errstate(invalid="ignore"):
        return {"dx": dx, "dbias": dx.sum(axis=0)}


def magnitude(dy: Array, x: Array, bias: Array, form: int) -> dict[str, Array]:
    """Return what errors are in proportion to: both terms of the slope, and what of the sum's error they pass on."""
    wide, other = x.astype(np.float64), bias.astype(np.float64)
    with np.errstate(all="ignore"):
        h = wide + other
        first, second = parts(h, form)
        grown = (
            (1 + np.square(np.clip(h, -40, 1))) * (np.abs(wide) + np.abs(other)) / np.maximum(np.abs(h), 1)
        )
        size = (np.abs(first) + np.abs(second)) * (1 + np.nan_to_num(grown, nan=0.0, posinf=0.0))
        size = np.abs(dy.astype(np.float64)) * np.maximum(size, rows.TAIL)
    size = np.nan_to_num(size, nan=0.0, posinf=0.0)
    return {"dx": size, "dbias": size.sum(axis=0)}


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Return ``x`` and a bias as of bias_gelu, and a gradient of ``y``."""
    made = bias_gelu.make_inputs(case, rng)
    shape = case.sizes["rows"], case.sizes["columns"]
    return {"dy": rng.standard_normal(shape, dtype=np.float32), **made}


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return every element of three arrays moved once, bias and its gradient too; 24 operations an element."""
    count, each = sizes["rows"] * sizes["columns"], rows.itemsize(arrays)
    return Cost((2 * count + sizes["columns"]) * each, (count + sizes["columns"]) * each, 24 * count)


PROBLEM = Problem(
    name="bias_gelu_backward",
    summary="dx[r] = dy[r] * gelu'(x[r] + bias), dbias = sum of dx[r]",
    operands=(
        Operand("dy", "element", ("rows", "columns")),
        Operand("x", "element", ("rows", "columns")),
        Operand("bias", "element", ("columns",)),
        Operand("dx", "element", ("rows", "columns"), role="out"),
        Operand("dbias", "element", ("columns",), role="out"),
    ),
    make_inputs=make_inputs,
    reference=reference,
    magnitude=magnitude,
    cost=cost,
    cases=(
        *column_sum.cases(),
        rows.case("form with erf", 9, 300, {"form": gelus.ERF}),
        rows.case(bias_gelu.WRONG, 2, 40, {}, bias_gelu.WRONG),
        rows.case(f"{bias_gelu.WRONG}, with erf", 2, 40, {"form": gelus.ERF}, bias_gelu.WRONG),
        rows.case(f"{bias_gelu.WRONG} in float16", 2, 40, {}, bias_gelu.WRONG, "float16"),
    ),
    parameters=(gelus.FORM,),
    roundings=columns.roundings,
)


@cache
def slope() -> Any:
    """Return the device function ``(x, form)``: ``gelu_slope`` of ``backward.cuh``."""
    from numba import cuda, float32

    libdevice = cuda.libdevice
    fmaf, erfcf = libdevice.fmaf, libdevice.erfcf
    power_of_two = twins.approximation("ex2.approx.ftz.f32")
    reciprocal = twins.approximation("rcp.approx.ftz.f32")
    LOG2_E, CUBIC = math.log2(math.e), gelus.SLOPE * 0.044715
    CUBIC_2, SLOPE_2 = float32(-LOG2_E * CUBIC), float32(-LOG2_E * gelus.SLOPE)
    CUBIC_3, SLOPE_1, ONE, HALF = float32(3 * CUBIC), float32(gelus.SLOPE), float32(1), float32(0.5)
    DENSITY, SQUARE = float32(1 / math.sqrt(2 * math.pi)), float32(-0.5 * LOG2_E)
    ROOT, FAR_TANH, FAR_ERF = float32(-math.sqrt(0.5)), float32(10.02), float32(15)

    @cuda.jit(device=True, forceinline=True)
    def within(value, limit):
        low = -limit if value < -limit else value
        return limit if low > limit else low

    @cuda.jit(device=True, forceinline=True)
    def slope_either(x, form):
        if form != 0:
            near = within(x, FAR_TANH)
            square = near * near
            power = power_of_two(near * fmaf(square, CUBIC_2, SLOPE_2))
            part = reciprocal(ONE + power)
            return fmaf(near * part * (power * part), fmaf(square, CUBIC_3, SLOPE_1), part)
        near = within(x, FAR_ERF)
        density = DENSITY * power_of_two(near * near * SQUARE)
        return fmaf(near, density, HALF * erfcf(ROOT * near))

    return slope_either


def unfused(THREADS: int, GROUP: int, ROWS: int, BLOCKS: int, element: str) -> Any:
    """Make the twins of bias_gelu_backward/unfused."""
    from numba import cuda

    to_float, from_float = elements.conversions(element)
    gelu_slope, add_up = slope(), columns.sums(THREADS, GROUP, ROWS, element)

    def bias_gelu_backward_unfused_slope(dy, x, bias, dx, form):
        i = cuda.grid(1)
        if i < x.size:
            r, c = i // x.shape[1], i % x.shape[1]
            value = to_float(x[r, c]) + to_float(bias[c])
            dx[r, c] = from_float(to_float(dy[r, c]) * gelu_slope(value, form))

    def bias_gelu_backward_unfused_sum(dx, dbias, partials, finished):
        add_up(dx, dbias, partials, finished)

    return bias_gelu_backward_unfused_slope, bias_gelu_backward_unfused_sum


def fused(THREADS: int, GROUP: int, ROWS: int, BLOCKS: int, element: str) -> Any:
    """Make the twin of bias_gelu_backward/fused."""
    from numba import cuda, float32

    ITEMS, ZERO = elements.lanes(element), float32(0)
    KEPT = ROWS * ITEMS
    read_row, write_row = row_twins.row_access(element, GROUP, 1)
    read_bias = row_twins.bias_access(element, GROUP)
    starts_at_vectors, gelu_slope = row_twins.starts_at_vectors(element), slope()

    @cuda.jit(device=True, forceinline=True)
    def gather(given, r, start, held, is_aligned, kept, base):
        dy, x, _, _ = given
        value, passed, _ = kept
        member = cuda.threadIdx.x % GROUP
        read_row(x, r, start, held, member, is_aligned, ZERO, value, base)
        read_row(dy, r, start, held, member, is_aligned, ZERO, passed, base)

    @cuda.jit(device=True, forceinline=True)
    def add(given, r, start, held, is_aligned, kept, base, total):
        _, _, dx, form = given
        value, passed, added = kept
        for i in range(ITEMS):
            passed[base + i] *= gelu_slope(value[base + i] + added[i], form)
            total[i] += passed[base + i]
        write_row(dx, r, start, held, cuda.threadIdx.x % GROUP, is_aligned, passed, base)

    place, add_up = columns.summing(THREADS, GROUP, ROWS, element, gather, add)

    def bias_gelu_backward_fused(dy, x, bias, dx, dbias, partials, finished, form):
        value, passed = cuda.local.array(KEPT, float32), cuda.local.array(KEPT, float32)
        added = cuda.local.array(ITEMS, float32)
        here, columns = place(x), x.shape[1]
        _, _, _, _, start, width = here
        is_aligned = starts_at_vectors(x, dx, columns) and starts_at_vectors(dy, bias, columns)
        read_bias(bias, start, width, cuda.threadIdx.x % GROUP, is_aligned, added)
        add_up(x, here, (dy, x, dx, form), (value, passed, added), is_aligned, dbias, partials, finished)

    return bias_gelu_backward_fused


ARGUMENTS = ("dy", "x", "bias", "dx", "dbias")
SUMMING = ("partials", "finished")
SHAPE = {**columns.SHAPE, "ROWS": 2}  # of two arrays: as many bytes on their way


def shape_for(sizes: Sizes, element: str) -> dict[str, int]:
    """Return the launch shape for a row's length; of several tiles, in 16 bits, the fastest on an H200."""
    shape = columns.shape_for(sizes, element)
    is_wide = sizes["columns"] > 32 * elements.lanes(element) and element != "float32"
    return {**shape, "THREADS": 512, "ROWS": 4, "BLOCKS": 2} if is_wide else shape


COLUMNS: dict[str, Any] = {
    "constants": SHAPE,
    "elements": ELEMENTS,
    "constraint": columns.whole_tiles,
    "temporaries": columns.PARTIALS,
    "derived": columns.DERIVED,
    "zeroed": ("finished",),
}

LADDER = (
    Kernel(
        PROBLEM,
        "unfused",
        (*ARGUMENTS, "rows", "columns", "form"),
        columns.TILES,
        unfused,
        stages=(
            Stage("slope", ("dy", "x", "bias", "dx", "rows", "columns", "form"), bias_gelu.EACH),
            Stage("sum", ("dx", "dbias", *SUMMING, "rows", "columns", "splits"), columns.TILES),
        ),
        tuning=Tuning(SHAPE, columns.shape_for),
        **COLUMNS,
    ),
    Kernel(
        PROBLEM,
        "fused",
        (*ARGUMENTS, *SUMMING, "rows", "columns", "splits", "form"),
        columns.TILES,
        fused,
        tuning=Tuning(SHAPE, shape_for),
        **COLUMNS,
    ),
)
