"""Global norm: the root of the sum of the squares of many tensors."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

from kernellab.catalog import elements, folds, tensors
from kernellab.kernel import Geometry, Kernel, Stage, Tuning, covering
from kernellab.problem import ELEMENTS, Array, Arrays, Case, Cost, Operand, Problem, Sizes
from kernellab.tensor_lists import each_of

SHAPE = {**tensors.SHAPE, "THREADS": 512, "VECTORS": 8, "ROUNDS": 4}


def reference(x: Any) -> dict[str, Array]:
    """Return the norm in float64."""
    totals = [np.square(array.astype(np.float64)).sum().reshape(1) for array in each_of(x)]
    return {"norm": np.sqrt(functools.reduce(operator.add, totals, np.zeros(1) if not totals else 0))}


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Any]:
    """Return gradients."""
    return {"x": tensors.gradients(case, rng)}


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return every element read once, and one number written."""
    return Cost(tensors.nbytes(arrays["x"]), 4, 2 * sizes["n"])


PROBLEM = Problem(
    name="global_norm",
    summary="norm = the root of the sum of squares over many tensors",
    operands=(tensors.listed("x", role="in"), Operand("norm", "float32", ("1",), role="out")),
    make_inputs=make_inputs,
    reference=reference,
    cost=cost,
    cases=tensors.cases(),
    roundings=16,
)


def atomic(THREADS: int, element: str) -> tuple[Any, Any]:
    """Make the twins of global_norm/atomic."""
    from numba import cuda, float32

    to_float, _ = elements.conversions(element)
    _, over_block = folds.over_threads("sum")
    root, WARPS = cuda.libdevice.fsqrt_rn, THREADS // 32

    def global_norm_atomic_add(x, total):
        scratch = cuda.shared.array(32, float32)
        i = cuda.grid(1)
        mine = float32(0)
        if i < x.size:
            value = to_float(x[i])
            mine = value * value
        mine = over_block(mine, scratch, WARPS)
        if cuda.threadIdx.x == 0:
            cuda.atomic.add(total, 0, mine)

    def global_norm_atomic_root(total, norm):
        if cuda.threadIdx.x == 0:
            norm[0] = root(total[0])

    return global_norm_atomic_add, global_norm_atomic_root


def vectorised(THREADS: int, VECTORS: int, BLOCKS: int, element: str) -> tuple[Any, Any]:
    """Make the twins of global_norm/vectorised."""
    from numba import cuda, float32

    fill, _ = elements.register_access(element)
    to_float, _ = elements.conversions(element)
    _, over_block = folds.over_threads("sum")
    EACH = elements.lanes(element)
    KEPT, SHARE = EACH * VECTORS, THREADS * VECTORS
    root, WARPS = cuda.libdevice.fsqrt_rn, THREADS // 32

    def global_norm_vectorised_add(x, partials):
        scratch = cuda.shared.array(32, float32)
        kept = cuda.local.array(KEPT, float32)
        t, whole, mine = cuda.threadIdx.x, x.size // EACH, float32(0)
        for start in range(cuda.blockIdx.x * SHARE, whole, cuda.gridDim.x * SHARE):
            for v in range(VECTORS):
                i = start + v * THREADS + t
                if i < whole:
                    fill(kept, EACH * v, x, EACH * i)
            for v in range(VECTORS):
                i = start + v * THREADS + t
                if i < whole:
                    for k in range(EACH * v, EACH * v + EACH):
                        mine += kept[k] * kept[k]
        last = EACH * whole + cuda.grid(1)
        if last < x.size:
            value = to_float(x[last])
            mine += value * value
        mine = over_block(mine, scratch, WARPS)
        if t == 0:
            partials[cuda.blockIdx.x] = partials[cuda.blockIdx.x] + mine

    def global_norm_vectorised_root(partials, norm):
        scratch = cuda.shared.array(32, float32)
        mine = float32(0)
        for i in range(cuda.threadIdx.x, BLOCKS, THREADS):
            mine += partials[i]
        mine = over_block(mine, scratch, WARPS)
        if cuda.threadIdx.x == 0:
            norm[0] = root(mine)

    return global_norm_vectorised_add, global_norm_vectorised_root


def chosen_for(sizes: Sizes, element: str) -> dict[str, int]:
    """Return fewer rounds a block where there would be too few blocks, and a larger table where there are more tensors."""
    blocks = covering(sizes["n"], SHAPE["THREADS"] * SHAPE["VECTORS"] * elements.lanes(element))
    rounds = min(SHAPE["ROUNDS"], blocks // (BLOCKS_EACH * sizes["multiprocessors"]))
    return {"ROUNDS": max(rounds, 1), **tensors.chosen_for(sizes, element)}


BLOCKS_EACH = 3
"""Blocks of 512 threads that each multiprocessor gets at least, before a block takes more than one round."""
ROOT = Geometry(("THREADS",), lambda at: (1,), static_shared=lambda at: 128)
BY_BLOCKS = Geometry(
    ("THREADS",),
    lambda at: (min(at["BLOCKS"], covering(at["n"], tensors.share(at))),),
    static_shared=lambda at: 128,
)

ATOMIC = Kernel(
    PROBLEM,
    "atomic",
    ("x", "norm"),
    tensors.in_shares(lambda at: at["THREADS"]),
    atomic,
    {"THREADS": 256},
    elements=ELEMENTS,
    stages=(
        Stage("add", ("x", "total", "n"), tensors.in_shares(lambda at: at["THREADS"])),
        Stage("root", ("total", "norm"), Geometry((32,), lambda at: (1,))),
    ),
    temporaries=(Operand("total", "float32", ("1",), role="scratch"),),
    zeroed=("total",),
    deterministic=False,
)

LADDER = (
    ATOMIC,
    Kernel(
        PROBLEM,
        "vectorised",
        ("x", "norm"),
        BY_BLOCKS,
        vectorised,
        {**tensors.WIDE, "BLOCKS": 1024},
        elements=ELEMENTS,
        stages=(
            Stage("add", ("x", "partials", "n"), BY_BLOCKS),
            Stage("root", ("partials", "norm"), ROOT),
        ),
        temporaries=(Operand("partials", "float32", ("BLOCKS",), role="scratch"),),
        zeroed=("partials",),
        alignment=16,
        fallback=ATOMIC,
        constraint=tensors.in_limits,
    ),
    Kernel(
        PROBLEM,
        "multi",
        ("tensors", "norm"),
        tensors.TABLE,
        tensors.NO_TWIN,
        SHAPE,
        elements=ELEMENTS,
        stages=(
            Stage("add", ("tensors", "partials"), tensors.TABLE),
            Stage("root", ("partials", "norm", "blocks"), ROOT),
        ),
        temporaries=(Operand("partials", "float32", ("blocks",), role="scratch"),),
        derived={"blocks": lambda at: at["blocks"]},
        table=("x",),
        chunk=tensors.share,
        constraint=tensors.in_limits,
        tuning=Tuning(SHAPE, chosen_for),
    ),
)
