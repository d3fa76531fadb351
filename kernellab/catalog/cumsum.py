"""Cumsum: running sums, inclusive or exclusive, from the classical scans to one pass over memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernellab.catalog import cumsum_twins, elements, reductions, streams
from kernellab.kernel import Geometry, Kernel, Stage, Tuning, covering
from kernellab.problem import ELEMENTS, Array, Case, Operand, Parameter, Problem, Sizes


def reference(x: Array, exclusive: int) -> dict[str, Array]:
    """Return the running sums in float64."""
    sums = np.cumsum(x.astype(np.float64), axis=-1)
    if exclusive:
        sums = np.concatenate([np.zeros((*x.shape[:-1], 1)), sums], axis=-1)[..., : x.shape[-1]]
    return {"y": sums}


def magnitude(x: Array, exclusive: int) -> dict[str, Array]:
    """Return the running sums of absolute values: what the rounding errors are in proportion to."""
    return reference(np.abs(x), exclusive)


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Return n floats: random, ones, or ones at two places (field report F17)."""
    n = case.sizes["n"]
    if case.contents == "ones":
        return {"x": np.ones(n, np.float32)}
    x = rng.standard_normal(n, dtype=np.float32)
    if case.contents == "two ones":
        x[...] = 0
        x[[511, 599]] = 1
    if case.contents == "NaN and infinities":
        x[n // 2], x[n // 3] = np.nan, np.inf
    return {"x": x}


def roundings(sizes: Sizes) -> int:
    """Return how many roundings a running sum may carry: those of a tree, and of a chain of tiles."""
    n = max(sizes["n"], 2)
    return 8 + math.ceil(math.log2(n)) + math.isqrt(n // 4096)


EXCLUSIVE = {"exclusive": 1}
CASES = (
    Case("16 Ki elements", {"n": 2**14}),
    *(Case(f"{n} elements", {"n": n}) for n in (0, 1, 31, 255, 257, 1023)),
    Case("exclusive, 12345 elements", {"n": 12345}, EXCLUSIVE),
    Case("exclusive, 15 ones", {"n": 15}, EXCLUSIVE, "ones"),
    Case("exclusive, two ones", {"n": 1024}, EXCLUSIVE, "two ones"),
    Case("NaN and infinities", {"n": 1000}, contents="NaN and infinities"),
    *(Case(f"9000 elements, {element}", {"n": 9000}, element=element) for element in ELEMENTS[1:]),
    *(Case(f"exclusive, {element}", {"n": 1003}, EXCLUSIVE, element=element) for element in ELEMENTS[1:]),
)

PROBLEM = Problem(
    name="cumsum",
    summary="y[i] = x[0] + ... + x[i], or without x[i] where exclusive is 1",
    operands=(
        Operand("x", "element", ("n",)),
        Operand("y", "element", ("n",), role="out"),
    ),
    parameters=(Parameter("exclusive", "int32", default=0, minimum=0, maximum=1),),
    make_inputs=make_inputs,
    reference=reference,
    magnitude=magnitude,
    cost=streams.cost_of(flops=1),
    cases=CASES,
    roundings=roundings,
)


def few_vectors(constants: Sizes) -> str:
    """Return why the tile does not suit the single-pass kernels, or nothing."""
    if broken := reductions.whole_warps(constants):
        return broken
    vectors, group = constants["VECTORS"], constants.get("GROUP", 256)
    if vectors > 8:
        return f"VECTORS is {vectors}, it must be 1 to 8; take 4"
    if group % 32 or not 32 <= group <= 2048:
        return f"GROUP is {group}, it must be a multiple of 32 up to 2048; take 1024"
    return ""


GROUPED = {"THREADS": 512, "VECTORS": 7, "GROUP": 1024}


def grouped_for(sizes: Sizes, element: str) -> dict[str, int]:
    """Return the constants of cumsum/grouped: as many values a thread as registers hold."""
    return GROUPED if element == ELEMENTS[0] else {**GROUPED, "VECTORS": 4}


def _three_launches(name: str, twin: Any, words: Any) -> Kernel:
    bulk = Geometry(
        ("THREADS",), lambda at: (at["blocks"],), static_shared=lambda at: 4 * words(at["THREADS"])
    )
    single = Geometry(("THREADS",), lambda at: (1,), static_shared=lambda at: 4 * words(at["THREADS"]) + 4)
    first = Geometry(("THREADS",), lambda at: (at["blocks"],), static_shared=lambda at: 128)
    return Kernel(
        PROBLEM,
        name,
        ("x", "y", "exclusive", "n"),
        bulk,
        twin,
        constants=reductions.TREE,
        elements=ELEMENTS,
        constraint=reductions.powers_of_two,
        stages=(
            Stage("totals", ("x", "partials", "n"), first),
            Stage("offsets", ("partials", "offsets", "blocks"), single),
            Stage("blocks", ("x", "offsets", "y", "exclusive", "n"), bulk),
        ),
        temporaries=(
            Operand("partials", "float32", ("blocks",), role="scratch"),
            Operand("offsets", "float32", ("blocks",), role="scratch"),
        ),
        derived={"blocks": reductions.in_blocks},
    )


def tiles(at: Sizes) -> int:
    """Return how many tiles the single-pass kernels make of the array."""
    return covering(at["n"], at["THREADS"] * at["VECTORS"] * elements.lanes(ELEMENTS[at["ELEMENT"]]))


ONE_PASS = Geometry(
    ("THREADS",), lambda at: (at["tiles"],), static_shared=lambda at: 4 * (at["THREADS"] // 32 + 1)
)
STATE = Operand("state", "uint64", ("tiles",), role="scratch")
HILLIS_STEELE = _three_launches("hillis_steele", cumsum_twins.hillis_steele, lambda threads: 2 * threads)

LADDER = (
    HILLIS_STEELE,
    _three_launches("blelloch", cumsum_twins.blelloch, lambda threads: threads + threads // 32),
    Kernel(
        PROBLEM,
        "lookback",
        ("x", "y", "state", "exclusive", "n"),
        ONE_PASS,
        cumsum_twins.lookback,
        constants={"THREADS": 256, "VECTORS": 8},
        deterministic=False,
        elements=ELEMENTS,
        alignment=16,
        fallback=HILLIS_STEELE,
        constraint=few_vectors,
        temporaries=(STATE,),
        derived={"tiles": tiles},
        zeroed=("state",),
    ),
    Kernel(
        PROBLEM,
        "grouped",
        ("x", "y", "state", "carries", "exclusive", "n"),
        ONE_PASS,
        cumsum_twins.grouped,
        constants=GROUPED,
        tuning=Tuning(GROUPED, grouped_for),
        elements=ELEMENTS,
        alignment=16,
        fallback=HILLIS_STEELE,
        constraint=few_vectors,
        temporaries=(STATE, Operand("carries", "uint64", ("groups",), role="scratch")),
        derived={"tiles": tiles, "groups": lambda at: covering(at["tiles"], at["GROUP"])},
        zeroed=("state", "carries"),
    ),
)
