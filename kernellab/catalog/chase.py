"""Chase: a walk in which every load needs the answer of the one before, so that its time is a latency."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

from typing import Any

import numpy as np

from kernellab.kernel import Geometry, Kernel, covering
from kernellab.problem import Array, Arrays, Case, Cost, Operand, Parameter, Problem, Sizes

LINE = 32
"""Words of a line of the caches."""
NODES, A, C = 16384, 1664525, 1013904223
"""Of the table in constant memory: its words, and that the k-th is A k + C."""


def built_in() -> Array:
    """Return the table of chase/constant, which nothing may change.

    Examples
    --------
    >>> (built_in()[:4] & 3).tolist()
    [3, 0, 1, 2]
    """
    table = np.arange(NODES, dtype=np.uint32) * np.uint32(A) + np.uint32(C)
    table.flags.writeable = False
    return table


def cycle(n: int, spacing: int, rng: np.random.Generator) -> Array:
    """Return a table of n words: every `spacing`-th is a node of one random cycle, the others lead to themselves.

    Examples
    --------
    >>> table, place = cycle(12, 4, np.random.default_rng(0)), 0
    >>> sorted((place := table[place]).item() for _ in range(3)), int(table[5])
    ([0, 4, 8], 5)
    """
    table = np.arange(n, dtype=np.uint32)
    order = (spacing * rng.permutation(-(-n // spacing))).astype(np.uint32)
    table[order] = np.roll(order, -1)
    return table


def reference(
    steps: int,
    start: Array | None = None,
    next: Array | None = None,
    seed: Array | None = None,
    mask: int = 0,
) -> dict[str, Array]:
    """Return where each walker is after so many steps, in a table given or in the constant one."""
    table, place, kept = built_in(), np.asarray(seed), np.uint32(mask)
    if next is not None and start is not None:
        table, place, kept = next, start, np.uint32(2**32 - 1)
    for _ in range(int(steps)):
        place = table[place & kept]
    return {"last": place}


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Return a table with a node in every word, walkers anywhere; or in every line, all at one node."""
    n, walkers = case.sizes["n"], case.sizes["walkers"]
    is_one = case.contents == "one chain"
    start = rng.integers(0, max(n, 1), 1 if is_one else walkers, dtype=np.uint32)
    if is_one:
        start = np.full(walkers, start[0] // LINE * LINE, np.uint32)
    seed = np.full(walkers, 7, np.uint32) if is_one else rng.integers(0, 2**32, walkers, dtype=np.uint32)
    return {"next": cycle(n, LINE if is_one else 1, rng), "start": start, "seed": seed}


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return the table and where walkers start, read once, and where they end, written."""
    walkers = sizes["walkers"]
    return Cost(bytes_read=4 * sizes.get("n", 0) + 4 * walkers, bytes_written=4 * walkers)


def case(n: int, walkers: int, steps: int) -> Case:
    """Return a case of some walkers in a table of n nodes."""
    return Case(f"{walkers} in {n}, {steps} steps", {"n": n, "walkers": walkers}, {"steps": steps})


PROBLEM = Problem(
    name="chase",
    summary="last[i] = next[next[... start[i]]], so many steps",
    operands=(
        Operand("next", "uint32", ("n",), index_of="n"),
        Operand("start", "uint32", ("walkers",), index_of="n"),
        Operand("seed", "uint32", ("walkers",)),
        Operand("last", "uint32", ("walkers",), role="out"),
    ),
    parameters=(
        Parameter("steps", "int32", default=64, minimum=0),
        Parameter("mask", "int32", default=1023, minimum=0, maximum=NODES - 1),
    ),
    make_inputs=make_inputs,
    reference=reference,
    cost=cost,
    cases=(
        Case("one chain", {"n": 1024, "walkers": 32}, contents="one chain"),
        *(
            case(*numbers)
            for numbers in ((1, 1, 5), (7, 3, 100), (1000, 33, 17), (1000, 100, 0), (5, 0, 3), (0, 0, 1))
        ),
    ),
    is_bitwise=True,
)


def everywhere() -> Any:
    """Make the twin of chase/global."""
    from numba import cuda

    def chase_global(next, start, last, steps):
        i = cuda.grid(1)
        if i < start.size:
            place = start[i]
            for _ in range(steps):
                place = next[place]
            last[i] = place

    return chase_global


def shared() -> Any:
    """Make the twin of chase/shared."""
    from numba import cuda, uint32

    def chase_shared(next, start, last, steps):
        table = cuda.shared.array(0, uint32)
        for k in range(cuda.threadIdx.x, next.size, cuda.blockDim.x):
            filled = next[k]
            table[k] = filled
        cuda.syncthreads()
        i = cuda.grid(1)
        if i < start.size:
            place = start[i]
            for _ in range(steps):
                place = table[place]
            last[i] = place

    return chase_shared


def constant(NODES: int) -> Any:
    """Make the twin of chase/constant."""
    from numba import cuda

    TABLE = built_in()

    def chase_constant(seed, last, steps, mask):
        table = cuda.const.array_like(TABLE)
        i = cuda.grid(1)
        if i < seed.size:
            place = seed[i]
            for _ in range(steps):
                place = table[place & mask]
            last[i] = place

    return chase_constant


def only(constants: Sizes) -> str:
    """Return why a number of nodes is not that of the table, or nothing."""
    return "" if constants["NODES"] == NODES else f"NODES is {constants['NODES']}, it must be {NODES}"


EACH = Geometry((32,), lambda at: (covering(at["walkers"], at["threads"]),))

LADDER = (
    Kernel(PROBLEM, "global", ("next", "start", "last", "steps", "walkers"), EACH, everywhere),
    Kernel(
        PROBLEM,
        "shared",
        ("next", "start", "last", "steps", "n", "walkers"),
        Geometry(EACH.block, EACH.grid, dynamic_shared=lambda at: 4 * at["n"]),
        shared,
    ),
    Kernel(
        PROBLEM,
        "constant",
        ("seed", "last", "steps", "mask", "walkers"),
        EACH,
        constant,
        constants={"NODES": NODES},
        constraint=only,
    ),
)
