"""Tally: how often each key occurs, by additions that meet in one address, or do not."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

from typing import Any

import numpy as np

from kernellab.catalog.reductions import whole_warps
from kernellab.catalog.streams import EACH
from kernellab.kernel import Geometry, Kernel, covering
from kernellab.problem import Array, Arrays, Case, Cost, Operand, Problem, Sizes

WARP = 32
MOST_BINS = 8192
"""That a block keeps in shared memory: four blocks of them fit into a multiprocessor."""
PATTERNS = ("equal", "warps", "spread", "random")
"""Keys all alike; alike in a warp, the next warp's the next; each its neighbour's successor; any."""


def reference(keys: Array, counts: Array) -> dict[str, Array]:
    """Return the counts with the keys counted in, modulo 2**32."""
    return {"counts": counts + np.bincount(keys, minlength=counts.size).astype(np.uint32)}


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Return keys in one of `PATTERNS`, and counts near the largest, which then wrap."""
    n, bins = case.sizes["n"], case.sizes["bins"]
    places = np.arange(n, dtype=np.int64)
    keys = {
        "equal": places * 0 + bins // 2,
        "warps": places // WARP % max(bins, 1),
        "spread": places % max(bins, 1),
        "random": rng.integers(0, max(bins, 1), n),
    }[case.contents]
    counts = rng.integers(2**32 - 99, 2**32, bins, dtype=np.uint32)
    return {"keys": keys.astype(np.uint32), "counts": counts}


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return every key read, every count read and written."""
    n, bins = sizes["n"], sizes["bins"]
    return Cost(bytes_read=4 * n + 4 * bins, bytes_written=4 * bins)


PROBLEM = Problem(
    name="tally",
    summary="counts[k] += how many keys[i] equal k",
    operands=(
        Operand("keys", "uint32", ("n",), index_of="bins"),
        Operand("counts", "uint32", ("bins",), role="inout"),
    ),
    make_inputs=make_inputs,
    reference=reference,
    cost=cost,
    cases=(
        Case("4 Ki equal keys", {"n": 4096, "bins": 64}, contents="equal"),
        *(
            Case(f"{n} of {bins}", {"n": n, "bins": bins})
            for n, bins in ((0, 0), (0, 5), (1, 1), (33, 7), (1000, 600))
        ),
        Case("one bin", {"n": 777, "bins": 1}, contents="spread"),
        Case("by warps", {"n": 1037, "bins": 50}, contents="warps"),
        Case("spread", {"n": 2047, "bins": 1000}, contents="spread"),
    ),
    is_bitwise=True,
)


def contended() -> Any:
    """Make the twin of tally/contended."""
    from numba import cuda, uint32

    ONE = uint32(1)

    def tally_contended(keys, counts):
        i = cuda.grid(1)
        if i < keys.size:
            cuda.atomic.add(counts, keys[i], ONE)

    return tally_contended


def warp() -> Any:
    """Make the twin of tally/warp."""
    from numba import cuda, int32, uint32

    EVERY = 0xFFFFFFFF

    def tally_warp(keys, counts):
        i = cuda.grid(1)
        active = cuda.ballot_sync(EVERY, i < keys.size)
        if i < keys.size:
            key = keys[i]
            same = cuda.match_any_sync(active, int32(key))
            if cuda.ffs(same) - 1 == cuda.threadIdx.x % 32:
                cuda.atomic.add(counts, key, uint32(cuda.popc(same)))

    return tally_warp


def block(THREADS: int, BLOCKS: int) -> Any:
    """Make the twin of tally/block."""
    from numba import cuda, uint32

    ZERO, ONE = uint32(0), uint32(1)

    def tally_block(keys, counts):
        own = cuda.shared.array(0, uint32)
        for bin in range(cuda.threadIdx.x, counts.size, THREADS):
            own[bin] = ZERO
        cuda.syncthreads()
        for i in range(cuda.grid(1), keys.size, cuda.gridDim.x * THREADS):
            cuda.atomic.add(own, keys[i], ONE)
        cuda.syncthreads()
        for bin in range(cuda.threadIdx.x, counts.size, THREADS):
            total = own[bin]
            if total > 0:
                cuda.atomic.add(counts, bin, total)

    return tally_block


def few_bins(sizes: Sizes) -> str:
    """Return why a block cannot keep the counts, or nothing."""
    bins = sizes["bins"]
    return (
        f"there are {bins} bins, a block keeps at most {MOST_BINS}; take tally/warp"
        if bins > MOST_BINS
        else ""
    )


LADDER = (
    Kernel(PROBLEM, "contended", ("keys", "counts", "n"), EACH, contended),
    Kernel(PROBLEM, "warp", ("keys", "counts", "n"), EACH, warp),
    Kernel(
        PROBLEM,
        "block",
        ("keys", "counts", "n", "bins"),
        Geometry(
            ("THREADS",),
            lambda at: (min(covering(at["n"], at["THREADS"]), at["BLOCKS"] * at["multiprocessors"]),),
            dynamic_shared=lambda at: 4 * at["bins"],
        ),
        block,
        constants={"THREADS": 512, "BLOCKS": 4},
        constraint=whole_warps,
        refusal=few_bins,
    ),
)
