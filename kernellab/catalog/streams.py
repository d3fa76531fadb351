"""Streams: what the problems that read and write arrays element by element share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kernellab.catalog.elements import lanes
from kernellab.kernel import Geometry, Kernel, Tuning, covering
from kernellab.problem import ELEMENTS, Array, Arrays, Case, Cost, Problem, Sizes

THREADS = 256
THREADS_RESIDENT = 2048
"""What a multiprocessor of an H200 holds at once."""

EACH = Geometry((THREADS,), lambda at: (covering(at["n"], at["threads"]),))
"""An element a thread."""

UNROLLED = {"VECTORS": 4}


def cases(**parameters: int | float) -> tuple[Case, ...]:
    """Return sizes around whole warps and vectors, special and subnormal values, and 16-bit elements."""
    halves = [
        Case(f"{n} elements, {element}", {"n": n}, parameters, contents=contents, element=element)
        for element in ELEMENTS[1:]
        for n, contents in ((1025, "random"), (100, "special values"))
    ]
    return (
        Case("16 Ki elements", {"n": 2**14}, parameters),
        *(Case(f"{n} elements", {"n": n}, parameters) for n in (0, 1, 33, 1023, 1025)),
        Case("special values", {"n": 100}, parameters, contents="special values"),
        Case("subnormal", {"n": 100}, {**parameters, "alpha": 0.5} if parameters else {}, "subnormal"),
        *halves,
    )


def arrays(*names: str) -> Callable[[Case, np.random.Generator], dict[str, Array]]:
    """Return a function that makes arrays of n floats, each of another generator state."""

    def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
        n = case.sizes["n"]
        made = {name: rng.standard_normal(n, dtype=np.float32) for name in names}
        if case.contents == "special values":
            for name in names:
                made[name][: n // 2] = rng.choice(np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1]), n // 2)
        if case.contents == "subnormal":
            tiny = np.array([1.1754944e-38, 1.4e-45, -1.1754942e-38, 3e-39], np.float32)
            made = {name: rng.choice(tiny, n) for name in names}
        return made

    return make_inputs


def cost_of(flops: int) -> Callable[[Sizes, Arrays], Cost]:
    """Return a cost: every input read and an output of as many bytes as one of them written."""

    def cost(sizes: Sizes, given: Arrays) -> Cost:
        n = sizes["n"]
        each = [int(array.dtype.itemsize) for array in given.values()]
        return Cost(bytes_read=n * sum(each), bytes_written=n * each[0], flops=n * flops)

    return cost


def wide(values: Any) -> Array:
    """Return float64: where references are computed."""
    result: Array = values.astype(np.float64)
    return result


def ladder(
    problem: Problem, arguments: Sequence[str], twins: Mapping[str, Callable[..., Any]]
) -> tuple[Kernel, ...]:
    """Return the rungs scalar, unrolled and, the one to keep, vectorised of a problem, given their twins."""

    def shape(each: Callable[[Sizes], int]) -> Geometry:
        return Geometry((THREADS,), lambda at: (max(1, covering(at["n"], at["threads"] * each(at))),))

    scalar = Kernel(
        problem, "scalar", tuple(arguments), shape(lambda at: 1), twins["scalar"], elements=ELEMENTS
    )
    return (
        scalar,
        Kernel(
            problem,
            "unrolled",
            tuple(arguments),
            shape(lambda at: _width(at) * at["VECTORS"]),
            twins["unrolled"],
            constants=UNROLLED,
            elements=ELEMENTS,
            alignment=16,
            fallback=scalar,
            constraint=in_registers,
            tuning=Tuning(UNROLLED, vectors_for),
        ),
        Kernel(
            problem,
            "vectorised",
            tuple(arguments),
            shape(_width),
            twins["vectorised"],
            elements=ELEMENTS,
            alignment=16,
            fallback=scalar,
        ),
    )


def _width(at: Sizes) -> int:
    return lanes(ELEMENTS[at["ELEMENT"]])


def vectors_for(sizes: Sizes, element: str) -> dict[str, int]:
    """Return as many vectors a thread as leave enough blocks to fill every multiprocessor, at most four."""
    blocks = sizes["n"] // (THREADS * lanes(element))
    full = sizes["multiprocessors"] * (THREADS_RESIDENT // THREADS)
    return {"VECTORS": 4 if blocks >= 4 * full else 2 if blocks >= 2 * full else 1}


def in_registers(constants: Sizes) -> str:
    """Return why so many vectors do not suit a thread, or nothing."""
    vectors = constants["VECTORS"]
    return "" if 1 <= vectors <= 16 else f"VECTORS is {vectors}, it must be 1 to 16; take 4"
