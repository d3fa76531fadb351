"""Update of a loss scale: back-off after a step that overflowed, growth after many that did not."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from typing import Any

import numpy as np

from kernellab.kernel import Geometry, Kernel, covering
from kernellab.problem import Array, Arrays, Case, Cost, Operand, Parameter, Problem, Sizes

LEAST, MOST = 2.0**-126, 2.0**126
"""Scales that are normal numbers in float32, and so is 1 over them."""


def reference(
    scale: Array, tracker: Array, found: Array, growth: float, backoff: float, interval: int
) -> dict[str, Array]:
    """Return the answer, the scale in float64."""
    is_skipped = found != 0
    clean = np.where(is_skipped, 0, tracker + 1)
    is_full = clean >= int(interval)
    factor = np.where(is_skipped, float(backoff), np.where(is_full, float(growth), 1.0))
    after = np.clip(scale.astype(np.float64) * factor, LEAST, MOST)
    return {
        "scale": after,
        "inv_scale": 1 / after,
        "tracker": np.where(is_full, 0, clean).astype(np.int32),
        "found": np.zeros(found.shape),
    }


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Return scales of which every third overflowed and every second is about to grow."""
    n = case.sizes["n"]
    return {
        "scale": np.ldexp(np.float32(1), rng.choice([-126, -4, 16, 126], n)).astype(np.float32),
        "tracker": np.where(np.arange(n) % 2, 1, 0).astype(np.int32),
        "found": (np.arange(n) % 3 == 0).astype(np.float32),
    }


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return three numbers of each scale read and four written."""
    return Cost(12 * sizes["n"], 16 * sizes["n"])


PROBLEM = Problem(
    name="update_scale",
    summary="scale *= backoff, or growth after so many clean steps",
    operands=(
        Operand("scale", "float32", ("n",), role="inout"),
        Operand("inv_scale", "float32", ("n",), role="out"),
        Operand("tracker", "int32", ("n",), role="inout"),
        Operand("found", "float32", ("n",), role="inout"),
    ),
    parameters=(
        Parameter("growth", "float32", default=2.0),
        Parameter("backoff", "float32", default=0.5),
        Parameter("interval", "int32", default=2, minimum=1),
    ),
    make_inputs=make_inputs,
    reference=reference,
    cost=cost,
    cases=(Case("64 scales", {"n": 64}), *(Case(f"{n} scales", {"n": n}) for n in (0, 1, 33))),
)


def scalar() -> Any:
    """Make the twin of update_scale/scalar."""
    from numba import cuda, float32

    lower, higher = cuda.libdevice.fminf, cuda.libdevice.fmaxf
    least, most = float32(LEAST), float32(MOST)

    def update_scale_scalar(scale, inv_scale, tracker, found, growth, backoff, interval):
        i = cuda.grid(1)
        if i < scale.size:
            is_skipped = found[i] != float32(0)
            clean = 0 if is_skipped else tracker[i] + 1
            factor = backoff if is_skipped else growth if clean >= interval else float32(1)
            after = lower(higher(scale[i] * factor, least), most)
            scale[i] = after
            inv_scale[i] = float32(1) / after
            tracker[i] = 0 if clean >= interval else clean
            found[i] = float32(0)

    return update_scale_scalar


LADDER = (
    Kernel(
        PROBLEM,
        "scalar",
        ("scale", "inv_scale", "tracker", "found", "growth", "backoff", "interval", "n"),
        Geometry((32,), lambda at: (covering(at["n"], at["threads"]),)),
        scalar,
    ),
)
