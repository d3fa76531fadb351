"""Cross entropy of rows of logits, the loss of each and its gradient at once: read twice, then once."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from kernellab.catalog import elements, row_rungs, row_twins, rows, softmax, twins
from kernellab.kernel import Geometry, Kernel, Tuning, covering
from kernellab.problem import ELEMENTS, Array, Arrays, Case, Cost, Operand, Parameter, Problem, Sizes

FINER = 2.0**-13
"""The distance between neighbouring numbers of float32 over that of float16, and at least that of bfloat16."""


def logits(x: Array, bias: Array) -> Array:
    """Return the logits in float64; a bias of no elements is none."""
    wide = x.astype(np.float64)
    return wide + bias.astype(np.float64) if bias.size else wide


def picked(labels: Array, wide: Array) -> Array:
    """Return a matrix of whether a column is its row's label; of arrays on a device, too."""
    columns = np.cumsum(np.ones_like(wide[0], dtype=np.int64)) - 1
    chosen: Array = columns == labels[:, None]
    return chosen


def of_label(chosen: Array, values: Array) -> Array:
    """Return the value at each row's label, whatever stands elsewhere."""
    found: Array = np.where(chosen, values, 0).sum(axis=1)
    return found


def reference(x: Array, labels: Array, bias: Array, scale: float) -> dict[str, Array]:
    """Return the losses and their gradient in float64, NaN and infinities as in SciPy's softmax."""
    wide = logits(x, bias)
    if not wide.size:
        return {"dx": wide, "loss": wide.sum(axis=1)}
    chosen = picked(labels, wide)
    with np.errstate(all="ignore"):
        top = wide.max(axis=1)
        powers = np.exp(wide - top[:, None])
        total = powers.sum(axis=1)
        gradient = (powers / total[:, None] - chosen) * float(scale)
        return {"dx": gradient, "loss": np.log(total) + (top - of_label(chosen, wide))}


def magnitude(x: Array, labels: Array, bias: Array, scale: float) -> dict[str, Array]:
    """Return what errors are in proportion to.

    Those of the loss: the maximum and the label's logit. Those of the gradient: what is subtracted, which is computed
    in float32, and in float32 how far below the maximum an element lies, too.
    """
    wide = logits(x, bias)
    if not wide.size:
        return {}
    chosen = picked(labels, wide)
    of_float32 = 1.0 if x.dtype == np.float32 else FINER
    with np.errstate(all="ignore"):
        top = wide.max(axis=1)
        summed = np.abs(x.astype(np.float64)) + (np.abs(bias.astype(np.float64)) if bias.size else 0)
        loss = (
            1 + np.abs(top) + of_label(chosen, summed) + np.where(wide == top[:, None], summed, 0).max(axis=1)
        )
        share = np.exp(wide - top[:, None])
        share /= share.sum(axis=1)[:, None]
        size = share * (1 + top[:, None] - wide + summed) + chosen
        dx = (np.where(chosen, 0, share) + size * of_float32) * abs(float(scale))
    return {"dx": np.nan_to_num(dx, posinf=0), "loss": np.nan_to_num(loss, posinf=0)}


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Return logits, a class for each row, and a bias for each class or none."""
    count, classes = case.sizes["rows"], case.sizes["columns"]
    x = rows.matrix(case, rng)
    labels = rng.integers(0, max(classes, 1), count)
    if case.contents == "sure of itself":
        x[np.arange(count), labels] += np.float32(30)
    return {"x": x, "labels": labels, "bias": rng.standard_normal(case.sizes["biases"], dtype=np.float32) / 8}


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return every logit read and its gradient written once, labels, bias and losses too."""
    count, each = sizes["rows"] * sizes["columns"], rows.itemsize(arrays)
    read = (count + sizes["biases"]) * each + 8 * sizes["rows"]
    return Cost(read, count * each + 4 * sizes["rows"], 7 * count)


def refusal(sizes: Sizes) -> str:
    """Return why there is no cross entropy of such rows, or nothing."""
    count, classes, biases = sizes["rows"], sizes["columns"], sizes["biases"]
    if count and not classes:
        return "x has no columns, it must have one for each class; give some"
    if biases not in (0, classes):
        return (
            f"bias has {biases} elements, it must have {classes}, one a column of x, or none; make them agree"
        )
    return ""


def case(of: Case, biases: bool, **parameters: float) -> Case:
    """Return a case with a bias for each class, or with none."""
    sizes = {**of.sizes, "biases": of.sizes["columns"] if biases else 0}
    return Case(of.name, sizes, parameters, of.contents, of.element)


CONTENTS = (*rows.CONTENTS, "far below zero", "sure of itself")
EDGES = ((0, 5), (1, 1), (3, 31), (9, 10), (2, 1000), (3, 4097))

PROBLEM = Problem(
    name="softmax_cross_entropy",
    summary="loss[r] = -log(softmax(x[r] + bias)[labels[r]]), dx = scale * its gradient",
    operands=(
        Operand("x", "element", ("rows", "columns")),
        Operand("labels", "int64", ("rows",), index_of="columns"),
        Operand("bias", "element", ("biases",)),
        Operand("dx", "element", ("rows", "columns"), role="out"),
        Operand("loss", "float32", ("rows",), role="out"),
    ),
    make_inputs=make_inputs,
    reference=reference,
    magnitude=magnitude,
    cost=cost,
    cases=tuple(
        case(each, index % 2 == 0, scale=(1.0, 0.125, 1024.0)[index % 3])
        for index, each in enumerate(rows.cases(CONTENTS, EDGES))
    ),
    parameters=(Parameter("scale", "float32", 1.0),),
    roundings=4,
    refusal=refusal,
)


@cache
def losing() -> Any:
    """Return the device function ``(top, sum, picked)``: ``loss_of`` of ``cross_entropy.cuh``."""
    from numba import cuda

    logf = cuda.libdevice.logf

    @cuda.jit(device=True, forceinline=True)
    def loss_of(top, total, picked):
        return logf(total) + (top - picked)

    return loss_of


@cache
def reading(element: str) -> Any:
    """Return the device function ``(x, bias, r, c)``: one logit."""
    from numba import cuda

    to_float, _ = elements.conversions(element)

    @cuda.jit(device=True, forceinline=True)
    def logit(x, bias, r, c):
        value = to_float(x[r, c])
        if bias.size:
            value += to_float(bias[c])
        return value

    return logit


def online(THREADS: int, element: str) -> Any:
    """Make the twin of softmax_cross_entropy/online."""
    from numba import cuda, float32

    _, from_float = elements.conversions(element)
    exponential, reciprocal = twins.exponential(element), cuda.libdevice.frcp_rn
    merge, group_softmax = softmax.merging("float32", THREADS)
    logit, loss_of = reading(element), losing()
    ZERO, ONE, LOWEST, NAN = float32(0), float32(1), float32(-np.inf), float32(np.nan)

    def softmax_cross_entropy_online(x, labels, bias, dx, loss, scale):
        scratch = cuda.shared.array((1, 32, 2), float32, alignment=8)
        r, columns = cuda.blockIdx.x, x.shape[1]
        label = labels[r]

        # Maximum and sum together.
        found = LOWEST, ZERO
        for c in range(cuda.threadIdx.x, columns, THREADS):
            found = merge(found, (logit(x, bias, r, c), ONE))
        top, total = group_softmax(found, scratch)

        # An infinite maximum gives NaN, as subtracting it from itself does.
        total += top - top
        if cuda.threadIdx.x == 0:
            lost = NAN
            if label >= 0 and label < columns:
                lost = loss_of(top, total, logit(x, bias, r, label))
            loss[r] = lost

        # The gradient.
        inverse = reciprocal(total)
        for c in range(cuda.threadIdx.x, columns, THREADS):
            share = exponential(logit(x, bias, r, c) - top) * inverse
            dx[r, c] = from_float((share - (ONE if c == label else ZERO)) * scale)

    return softmax_cross_entropy_online


def registers(THREADS: int, GROUP: int, VECTORS: int, element: str) -> Any:
    """Make the twin of softmax_cross_entropy/registers."""
    from numba import cuda, float32, int64

    ITEMS, PER = VECTORS * elements.lanes(element), elements.lanes(element)
    HELD = GROUP * ITEMS
    read_row, write_row = row_twins.row_access(element, GROUP, VECTORS)
    work = softmax.work(element, GROUP, VECTORS)
    take, meet, merge = work.take, work.meet, work.merge
    _, raised, raised_from = softmax.raising(element)
    fill, _ = elements.register_access(element)
    to_float, from_float = elements.conversions(element)
    starts_at_vectors = row_twins.starts_at_vectors(element)
    logit, loss_of, divide = reading(element), losing(), cuda.libdevice.fdiv_rn
    ZERO, ONE, LOWEST, NAN = float32(0), float32(1), float32(-np.inf), float32(np.nan)
    UNIT = float32(1 if element == "float32" else math.log(2))

    @cuda.jit(device=True, forceinline=True)
    def held_of(end, start):
        return min(max(end - start, int64(0)), int64(HELD))

    @cuda.jit(device=True, forceinline=True)
    def gather(x, bias, r, start, held, member, is_aligned, value):
        added = cuda.local.array(PER, float32)
        read_row(x, r, start, held, member, is_aligned, LOWEST, value, 0)
        if bias.size:
            if is_aligned:
                for v in range(VECTORS):
                    at = (v * GROUP + member) * PER
                    if at < held:
                        fill(added, 0, bias, start + at)
                        for i in range(PER):
                            value[v * PER + i] += added[i]
            else:
                for i in range(ITEMS):
                    if i * GROUP + member < held:
                        value[i] += to_float(bias[start + i * GROUP + member])
        return take(value, 0, held, member, is_aligned)

    @cuda.jit(device=True, forceinline=True)
    def leave(dx, r, start, held, member, is_aligned, own, found, scale, value):
        factor = divide(raised(own[0] - found[0]), found[1]) * scale
        for i in range(ITEMS):
            value[i] *= factor
        write_row(dx, r, start, held, member, is_aligned, value, 0)

    @cuda.jit(device=True, forceinline=True)
    def leave_label(x, labels, bias, dx, loss, r, member, is_aligned, found, scale):
        label = labels[r]
        is_class = label >= 0 and label < x.shape[1]
        piece = PER if is_aligned else 1
        if member == (label // piece % GROUP if is_class else 0):
            lost = NAN
            if is_class:
                picked = logit(x, bias, r, label)
                shift = ZERO if found[0] == LOWEST else found[0]
                share = divide(raised_from(picked, shift), found[1])
                dx[r, label] = from_float((share - ONE) * scale)
                lost = loss_of(found[0] * UNIT, found[1], picked)
            loss[r] = lost

    def softmax_cross_entropy_registers(x, labels, bias, dx, loss, scale):
        scratch = cuda.shared.array((1, 32, 2), float32, alignment=8)
        value = cuda.local.array(ITEMS, float32)
        count, columns = x.shape
        member = cuda.threadIdx.x % GROUP
        r = cuda.blockIdx.x * (THREADS // GROUP) + cuda.threadIdx.x // GROUP
        is_aligned = starts_at_vectors(x, dx, columns) and starts_at_vectors(bias, bias, 0)
        end = columns if r < count else 0
        found = LOWEST, ZERO
        if columns <= HELD:
            own = gather(x, bias, r, 0, end, member, is_aligned, value)
            found = meet(own, end, member, is_aligned, scratch, 0)
            leave(dx, r, 0, end, member, is_aligned, own, found, scale, value)
        else:
            for start in range(0, columns, HELD):
                held = held_of(end, start)
                own = gather(x, bias, r, start, held, member, is_aligned, value)
                found = merge(found, meet(own, held, member, is_aligned, scratch, 0))
                cuda.syncthreads()
            for start in range(0, columns, HELD):
                held = held_of(end, start)
                own = gather(x, bias, r, start, held, member, is_aligned, value)
                leave(dx, r, start, held, member, is_aligned, own, found, scale, value)
        if r < count:
            leave_label(x, labels, bias, dx, loss, r, member, is_aligned, found, scale)

    return softmax_cross_entropy_registers


def shape_for(sizes: Sizes, element: str) -> dict[str, int]:
    """Return the launch shape for a row's length: as of the other problems on rows, a row at a time."""
    return {name: to for name, to in rows.shape_for(sizes, element).items() if name != "ROWS"}


def groups(at: Sizes) -> tuple[int, ...]:
    """Return the blocks that give GROUP threads to a row."""
    return (covering(at["rows"], at["threads"] // at["GROUP"]),)


ARGUMENTS = ("x", "labels", "bias", "dx", "loss")
SHAPE = {"THREADS": 128, "GROUP": 128, "VECTORS": 2}

LADDER = (
    row_rungs.by_blocks(PROBLEM, "online", (*ARGUMENTS, "columns", "biases", "scale"), online),
    Kernel(
        PROBLEM,
        "registers",
        (*ARGUMENTS, "rows", "columns", "biases", "scale"),
        Geometry(("THREADS",), groups, static_shared=lambda at: 256),
        registers,
        SHAPE,
        elements=ELEMENTS,
        constraint=rows.group_shape,
        tuning=Tuning(SHAPE, shape_for),
    ),
)
