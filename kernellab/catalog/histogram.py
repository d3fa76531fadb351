"""Histogram of bytes: 256 counts, from atomics in global memory to a copy for each lane."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
# ruff: noqa: N803, N806

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from kernellab.catalog import twins
from kernellab.catalog.reductions import whole_warps
from kernellab.catalog.streams import EACH
from kernellab.kernel import Geometry, Kernel, covering
from kernellab.problem import Array, Arrays, Case, Cost, Operand, Problem, Sizes

BYTES = {"BINS": 256}


def reference(x: Array) -> dict[str, Array]:
    """Return how often each byte occurs."""
    return {"counts": np.bincount(x, minlength=256)}


def make_inputs(case: Case, rng: np.random.Generator) -> dict[str, Array]:
    """Return n bytes: random, all equal, or in order."""
    n = case.sizes["n"]
    if case.contents == "equal":
        return {"x": np.full(n, 200, np.uint8)}
    if case.contents == "in order":
        return {"x": np.arange(n).astype(np.uint8)}
    return {"x": rng.integers(0, 256, n, dtype=np.uint8)}


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return every byte read and 256 counts written."""
    return Cost(bytes_read=sizes["n"], bytes_written=8 * 256)


PROBLEM = Problem(
    name="histogram",
    summary="counts[b] = how many x[i] equal b",
    operands=(
        Operand("x", "uint8", ("n",)),
        Operand("counts", "int64", ("BINS",), role="out"),
    ),
    make_inputs=make_inputs,
    reference=reference,
    cost=cost,
    cases=(
        Case("16 Ki bytes", {"n": 2**14}),
        *(Case(f"{n} bytes", {"n": n}) for n in (0, 1, 15, 17, 1000)),
        Case("equal", {"n": 5000}, contents="equal"),
        Case("in order", {"n": 4099}, contents="in order"),
    ),
)


@cache
def load16() -> Any:
    """Return the intrinsic ``load(array, i)``: four uint32 from byte ``i``, a multiple of 16."""
    from llvmlite import ir
    from numba.cuda import types
    from numba.cuda.extending import intrinsic

    vector = ir.VectorType(ir.IntType(32), 4)

    @intrinsic
    def load(typing, array, index):
        def emit(context, builder, signature, arguments):
            data = context.make_array(array)(context, builder, arguments[0]).data
            place = builder.gep(data, [context.cast(builder, arguments[1], index, types.intp)])
            loaded = builder.load(builder.bitcast(place, vector.as_pointer()), align=16)
            parts = [builder.extract_element(loaded, ir.Constant(ir.IntType(32), k)) for k in range(4)]
            return context.make_tuple(builder, signature.return_type, parts)

        return types.UniTuple(types.uint32, 4)(array, index), emit

    return load


def everywhere(BINS: int) -> Any:
    """Make the twin of histogram/global."""
    from numba import cuda

    def histogram_global(x, counts):
        i = cuda.grid(1)
        if i < x.size:
            cuda.atomic.add(counts, x[i], 1)

    return histogram_global


def shared(BINS: int, THREADS: int, BLOCKS: int) -> Any:
    """Make the twin of histogram/shared."""
    from numba import cuda, uint32

    ZERO, ONE = uint32(0), uint32(1)

    def histogram_shared(x, counts):
        scratch = cuda.shared.array(BINS, uint32)
        for b in range(cuda.threadIdx.x, BINS, THREADS):
            scratch[b] = ZERO
        cuda.syncthreads()
        for i in range(cuda.grid(1), x.size, cuda.gridDim.x * THREADS):
            cuda.atomic.add(scratch, x[i], ONE)
        cuda.syncthreads()
        for b in range(cuda.threadIdx.x, BINS, THREADS):
            total = scratch[b]
            if total > 0:
                cuda.atomic.add(counts, b, total)

    return histogram_shared


def aggregated(BINS: int, THREADS: int, BLOCKS: int) -> Any:
    """Make the twin of histogram/aggregated."""
    from numba import cuda, int32, uint32

    ZERO, EVERY = uint32(0), twins.ALL_LANES

    def histogram_aggregated(x, counts):
        scratch = cuda.shared.array(BINS, uint32)
        for b in range(cuda.threadIdx.x, BINS, THREADS):
            scratch[b] = ZERO
        cuda.syncthreads()
        lane = cuda.threadIdx.x % 32
        for first in range(cuda.grid(1) - lane, x.size, cuda.gridDim.x * THREADS):
            is_inside = first + lane < x.size
            inside = cuda.ballot_sync(EVERY, is_inside)
            if is_inside:
                byte = int32(x[first + lane])
                same = cuda.match_any_sync(inside, byte)
                if cuda.ffs(same) - 1 == lane:
                    cuda.atomic.add(scratch, byte, uint32(cuda.popc(same)))
        cuda.syncthreads()
        for b in range(cuda.threadIdx.x, BINS, THREADS):
            total = scratch[b]
            if total > 0:
                cuda.atomic.add(counts, b, total)

    return histogram_aggregated


def warps(BINS: int, THREADS: int, BLOCKS: int, VECTORS: int) -> Any:
    """Make the twin of histogram/warps."""
    return _in_copies("histogram_warps", BINS, THREADS, VECTORS, is_each_lane=False)


def lanes(BINS: int, THREADS: int, BLOCKS: int, VECTORS: int) -> Any:
    """Make the twin of histogram/lanes."""
    return _in_copies("histogram_lanes", BINS, THREADS, VECTORS, is_each_lane=True)


def _in_copies(name: str, BINS: int, THREADS: int, VECTORS: int, is_each_lane: bool) -> Any:
    """Make a twin that keeps a copy of the counts for each warp, or for each lane."""
    from numba import cuda, int32, uint32

    load = load16()
    ZERO, ONE = uint32(0), uint32(1)
    COPIES = 32 if is_each_lane else THREADS // 32
    SIZE, KEPT = BINS * COPIES, 4 * VECTORS

    @cuda.jit(device=True)
    def place(byte):
        t = cuda.threadIdx.x
        if is_each_lane:
            return int32(32 * byte + t % 32)
        return int32(t // 32 * BINS + byte)

    def twin(x, counts):
        scratch = cuda.shared.array(SIZE, uint32)
        kept = cuda.local.array(KEPT, uint32)
        t = cuda.threadIdx.x
        for i in range(t, SIZE, THREADS):
            scratch[i] = ZERO
        cuda.syncthreads()

        # Sixteen bytes a load, all loads of a tile first.
        whole = x.size // 16
        first = cuda.blockIdx.x * (THREADS * VECTORS) + t
        for start in range(first, whole, cuda.gridDim.x * (THREADS * VECTORS)):
            for v in range(VECTORS):
                if start + v * THREADS < whole:
                    words = load(x, 16 * (start + v * THREADS))
                    kept[4 * v], kept[4 * v + 1], kept[4 * v + 2], kept[4 * v + 3] = words
            for v in range(VECTORS):
                if start + v * THREADS < whole:
                    for k in range(16):
                        byte = int32(kept[4 * v + k // 4] >> uint32(8 * (k % 4)) & uint32(255))
                        cuda.atomic.add(scratch, place(byte), ONE)
        last = 16 * whole + cuda.grid(1)
        if last < x.size:
            cuda.atomic.add(scratch, place(int32(x[last])), ONE)
        cuda.syncthreads()

        # One thread a bin adds up the copies.
        for b in range(t, BINS, THREADS):
            total = ZERO
            for k in range(COPIES):
                total += scratch[32 * b + (b + k) % 32 if is_each_lane else k * BINS + b]
            if total > 0:
                cuda.atomic.add(counts, b, total)

    return twins.renamed(twin, name)


def bytes_in_warps(constants: Sizes) -> str:
    """Return why the block does not suit the kernel, or nothing."""
    if constants["BINS"] != 256:
        return f"BINS is {constants['BINS']}, it must be 256; a byte has no more"
    return whole_warps(constants)


def _filling(each: int, words: Any) -> Geometry:
    return Geometry(
        ("THREADS",),
        lambda at: (
            max(
                1,
                min(
                    covering(at["n"], at["THREADS"] * each * at.get("VECTORS", 1)),
                    at["BLOCKS"] * at["multiprocessors"],
                ),
            ),
        ),
        static_shared=lambda at: 4 * words(at),
    )


def _rung(name: str, twin: Any, geometry: Geometry, constants: dict[str, int], **changes: Any) -> Kernel:
    return Kernel(
        PROBLEM,
        name,
        ("x", "counts", "n"),
        geometry,
        twin,
        constants={**BYTES, **constants},
        constraint=bytes_in_warps,
        zeroed=("counts",),
        **changes,
    )


SHARED = _rung("shared", shared, _filling(1, lambda at: 256), {"THREADS": 256, "BLOCKS": 8})

LADDER = (
    Kernel(
        PROBLEM,
        "global",
        ("x", "counts", "n"),
        EACH,
        everywhere,
        constants=BYTES,
        zeroed=("counts",),
    ),
    SHARED,
    _rung("aggregated", aggregated, _filling(1, lambda at: 256), {"THREADS": 256, "BLOCKS": 8}),
    _rung(
        "warps",
        warps,
        _filling(16, lambda at: 8 * at["THREADS"]),
        {"THREADS": 256, "BLOCKS": 8, "VECTORS": 2},
        alignment=16,
        fallback=SHARED,
    ),
    _rung(
        "lanes",
        lanes,
        _filling(16, lambda at: 8192),
        {"THREADS": 512, "BLOCKS": 4, "VECTORS": 2},
        alignment=16,
        fallback=SHARED,
    ),
)
