"""Histogram of float32 over bins of equal width, with NumPy's rule for edges."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
# ruff: noqa: N803, N806

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from kernellab.catalog.reductions import whole_warps
from kernellab.catalog.streams import EACH
from kernellab.kernel import Geometry, Kernel, covering
from kernellab.problem import Array, Arrays, Case, Cost, Operand, Parameter, Problem, Sizes


def reference(x: Array, edges: Array, top: float) -> dict[str, Array]:
    """Return the counts by NumPy's rule taken literally: the last edge not above a value, the top too."""
    if edges.size == 0:
        return {"counts": np.zeros(0, np.int64)}
    inside = x[(x >= edges[0]) & (x <= top)]
    bins = np.searchsorted(edges, inside, side="right") - 1
    return {"counts": np.bincount(bins, minlength=edges.size)}


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Return n numbers, some on edges, some outside, and the lower edges of bins on (-2, 2)."""
    n, bins = case.sizes["n"], case.sizes["bins"]
    edges = np.linspace(-2, 2, bins + 1, dtype=np.float32)
    x = rng.standard_normal(n, dtype=np.float32)
    if case.contents == "edges":
        x = np.concatenate([edges, np.nextafter(edges, -9), np.nextafter(edges, 9)]).astype(np.float32)
        x = np.resize(x, n)
        x[:4] = np.nan, np.inf, -np.inf, 2.0
    if case.contents == "equal":
        x[...] = 0.5
    return {"x": x, "edges": edges[:-1].copy()}


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return every number and edge read, every count written."""
    return Cost(
        bytes_read=4 * (sizes["n"] + sizes["bins"]), bytes_written=8 * sizes["bins"], flops=2 * sizes["n"]
    )


def case(name: str, n: int, bins: int, contents: str = "random") -> Case:
    """Return a case of n numbers in so many bins up to 2."""
    return Case(name, {"n": n, "bins": bins}, {"top": 2.0}, contents)


PROBLEM = Problem(
    name="float_histogram",
    summary="counts[b] = how many x[i] lie in bin b, the last closed; NaN and what lies outside are ignored",
    operands=(
        Operand("x", "float32", ("n",)),
        Operand("edges", "float32", ("bins",)),
        Operand("counts", "int64", ("bins",), role="out"),
    ),
    parameters=(Parameter("top", "float32", default=2.0),),
    make_inputs=make_inputs,
    reference=reference,
    cost=cost,
    cases=(
        case("8 Ki numbers, 64 bins", 2**13, 64),
        *(case(f"{n} numbers, {bins} bins", n, bins) for n, bins in ((1, 1), (1000, 3), (0, 7), (3000, 257))),
        case("no bins", 5, 0),
        case("edges", 1000, 10, "edges"),
        case("equal", 5000, 10, "equal"),
    ),
)


@cache
def bin_of() -> Any:
    """Return the device function that guesses a bin and puts it right by the edges."""
    from numba import cuda, int32

    @cuda.jit(device=True)
    def find(value, borders, bins, bottom, scale):
        b = min(int32((value - bottom) * scale), bins - 1)
        while b > 0 and value < borders[b]:
            b -= 1
        while b + 1 < bins and value >= borders[b + 1]:
            b += 1
        return b

    return find


def everywhere() -> Any:
    """Make the twin of float_histogram/global."""
    from numba import cuda, float32

    find = bin_of()

    def float_histogram_global(x, edges, counts, top):
        bins = edges.size
        bottom = edges[0]
        scale = float32(bins) / (top - bottom)
        i = cuda.grid(1)
        if i < x.size:
            value = x[i]
            if bottom <= value <= top:
                cuda.atomic.add(counts, find(value, edges, bins, bottom, scale), 1)

    return float_histogram_global


def shared(THREADS: int, BLOCKS: int, COPIES: int) -> Any:
    """Make the twin of float_histogram/shared."""
    from numba import cuda, float32, uint32

    find = bin_of()
    ZERO, ONE, NOTHING = uint32(0), uint32(1), float32(float("nan"))

    def float_histogram_shared(x, edges, counts, top):
        bins = edges.size
        scratch = cuda.shared.array(0, uint32)
        borders = cuda.shared.array(0, float32)[bins * COPIES :]
        value = cuda.local.array(4, float32)
        t = cuda.threadIdx.x
        for i in range(t, bins * COPIES, THREADS):
            scratch[i] = ZERO
        for i in range(t, bins, THREADS):
            borders[i] = edges[i]
        cuda.syncthreads()
        bottom = borders[0]
        scale = float32(bins) / (top - bottom)

        # Four numbers a thread on their way at once.
        step = cuda.gridDim.x * THREADS
        for first in range(cuda.grid(1), x.size, 4 * step):
            for k in range(4):
                i = first + k * step
                value[k] = NOTHING
                if i < x.size:
                    value[k] = x[i]
            for k in range(4):
                if bottom <= value[k] <= top:
                    b = find(value[k], borders, bins, bottom, scale)
                    cuda.atomic.add(scratch, b * COPIES + t % COPIES, ONE)
        cuda.syncthreads()
        for b in range(t, bins, THREADS):
            total = ZERO
            for k in range(COPIES):
                total += scratch[b * COPIES + (b + k) % COPIES]
            if total > 0:
                cuda.atomic.add(counts, b, total)

    return float_histogram_shared


def copies(constants: Sizes) -> str:
    """Return why the copies do not suit the kernel, or nothing."""
    count = constants["COPIES"]
    if count & (count - 1) or not 1 <= count <= 32:
        return f"COPIES is {count}, it must be a power of two up to 32; take 8"
    return whole_warps(constants)


ARGUMENTS = ("x", "edges", "counts", "top", "n", "bins")

LADDER = (
    Kernel(
        PROBLEM,
        "global",
        ARGUMENTS,
        EACH,
        everywhere,
        zeroed=("counts",),
    ),
    Kernel(
        PROBLEM,
        "shared",
        ARGUMENTS,
        Geometry(
            ("THREADS",),
            lambda at: (
                max(1, min(covering(at["n"], 4 * at["THREADS"]), at["BLOCKS"] * at["multiprocessors"])),
            ),
            dynamic_shared=lambda at: 4 * at["bins"] * (at["COPIES"] + 1),
        ),
        shared,
        constants={"THREADS": 512, "BLOCKS": 4, "COPIES": 8},
        constraint=copies,
        zeroed=("counts",),
    ),
)
