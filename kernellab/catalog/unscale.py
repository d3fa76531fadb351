"""Unscale: gradients times a factor, in place, and whether all of them are finite, in the same pass."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

from typing import Any

import numpy as np

from kernellab.catalog import elements, gradient_twins, tensors
from kernellab.catalog.streams import EACH
from kernellab.kernel import Kernel, Tuning
from kernellab.problem import ELEMENTS, Array, Arrays, Case, Cost, Parameter, Problem, Sizes
from kernellab.tensor_lists import each_of, mapped

LARGEST = float(np.finfo(np.float32).max)


def factor_of(inv_scale: Array, norm: Array, max_norm: float) -> float:
    """Return what gradients are multiplied by: the scale taken out, and clipped to a global norm."""
    scale, size = float(inv_scale[0]), float(norm[0])
    share = float(max_norm) / (size * scale + 1e-6)
    return scale * (1.0 if share >= 1 else share)


def reference(x: Any, found: Array, inv_scale: Array, norm: Array, max_norm: float) -> dict[str, Any]:
    """Return the answer in float64."""
    factor = factor_of(inv_scale, norm, max_norm)
    has_all = all(bool(np.isfinite(array.astype(np.float64)).all()) for array in each_of(x))
    before = found.astype(np.float64)
    return {
        "x": mapped(lambda array: array.astype(np.float64) * factor, x),
        "found": before if has_all else before * 0 + 1,
    }


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Any]:
    """Return gradients of which, but for lists, some are not finite."""
    return {
        "x": tensors.gradients(case, rng),
        "found": np.zeros(1, np.float32),
        "inv_scale": np.full(1, 2.0**-10, np.float32),
        "norm": np.full(1, 3000.0, np.float32),
    }


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return every gradient read and written once."""
    nbytes = tensors.nbytes(arrays["x"])
    return Cost(nbytes, nbytes, sizes["n"])


PROBLEM = Problem(
    name="unscale",
    summary="x *= factor for each of many tensors; found = 1 if any is infinite or NaN",
    operands=(
        tensors.listed("x"),
        *tensors.scalars("found", role="inout"),
        *tensors.scalars("inv_scale", "norm"),
    ),
    parameters=(Parameter("max_norm", "float32", default=LARGEST, minimum=0.0),),
    make_inputs=make_inputs,
    reference=reference,
    cost=cost,
    cases=tensors.cases("infinite"),
    roundings=4,
)


def scalar(element: str) -> Any:
    """Make the twin of unscale/scalar."""
    from numba import cuda, float32

    to_float, from_float = elements.conversions(element)
    factor_of, is_finite = gradient_twins.scaling()

    def unscale_scalar(x, found, inv_scale, norm, max_norm):
        i = cuda.grid(1)
        if i < x.size:
            factor = factor_of(inv_scale[0], norm[0], max_norm)
            value = to_float(x[i])
            x[i] = from_float(value * factor)
            if not is_finite(value):
                found[0] = float32(1)

    return unscale_scalar


def vectorised(THREADS: int, VECTORS: int, KEEPS: int, element: str) -> Any:
    """Make the twin of unscale/vectorised."""
    from numba import cuda, float32

    fill, drain = elements.register_access(element)
    to_float, from_float = elements.conversions(element)
    factor_of, is_finite = gradient_twins.scaling()
    EACH = elements.lanes(element)
    KEPT = EACH * VECTORS

    def unscale_vectorised(x, found, inv_scale, norm, max_norm):
        factor = factor_of(inv_scale[0], norm[0], max_norm)
        whole = x.size // EACH
        first = cuda.blockIdx.x * (THREADS * VECTORS) + cuda.threadIdx.x
        kept = cuda.local.array(KEPT, float32)
        is_right = True

        # All loads first.
        for v in range(VECTORS):
            i = first + v * THREADS
            if i < whole:
                fill(kept, EACH * v, x, EACH * i)

        # Then arithmetic and stores.
        for v in range(VECTORS):
            i = first + v * THREADS
            if i < whole:
                for k in range(EACH * v, EACH * v + EACH):
                    is_right &= is_finite(kept[k])
                    kept[k] *= factor
                if not KEEPS:
                    drain(x, EACH * i, kept, EACH * v)

        last = EACH * whole + cuda.grid(1)
        if last < x.size:
            value = to_float(x[last])
            is_right &= is_finite(value)
            if not KEEPS:
                x[last] = from_float(value * factor)
        if not is_right:
            found[0] = float32(1)

    return unscale_vectorised


ARGUMENTS = ("found", "inv_scale", "norm", "max_norm")


SCALAR = Kernel(PROBLEM, "scalar", ("x", *ARGUMENTS, "n"), EACH, scalar, elements=ELEMENTS)

WIDE = {"THREADS": 128, "VECTORS": 1, "KEEPS": 0}
MULTI = {"THREADS": 128, "VECTORS": 2, "TENSORS": tensors.SHAPE["TENSORS"]}
"""As measured on an H200: small blocks, several of which hide the search for a tensor."""

LADDER = (
    SCALAR,
    Kernel(
        PROBLEM,
        "vectorised",
        ("x", *ARGUMENTS, "n"),
        tensors.in_shares(tensors.share),
        vectorised,
        WIDE,
        elements=ELEMENTS,
        alignment=16,
        fallback=SCALAR,
        constraint=tensors.in_limits,
    ),
    Kernel(
        PROBLEM,
        "multi",
        ("tensors", *ARGUMENTS),
        tensors.TABLE,
        tensors.NO_TWIN,
        {**MULTI, "KEEPS": 0},
        elements=ELEMENTS,
        table=("x",),
        chunk=tensors.share,
        constraint=tensors.in_limits,
        tuning=Tuning(MULTI, tensors.chosen_for),
    ),
)
