"""Cumsum: running sums, inclusive or exclusive, from the classical scans to one pass over memory."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kernellab.catalog import elements, folds, reductions, scans
from kernellab.kernel import Geometry, Kernel, Stage, Tuning, covering
from kernellab.problem import ELEMENTS, Array, Arrays, Case, Cost, Operand, Parameter, Problem, Sizes


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


def cost(sizes: Sizes, arrays: Arrays) -> Cost:
    """Return every element read once and written once."""
    nbytes = int(arrays["x"].dtype.itemsize) * sizes["n"]
    return Cost(bytes_read=nbytes, bytes_written=nbytes, flops=sizes["n"])


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
    cost=cost,
    cases=CASES,
    roundings=roundings,
)


def _totals(THREADS: int, element: str) -> Any:
    from numba import cuda, float32

    to_float, _ = elements.conversions(element)
    _, block_sum = folds.over_threads("sum")
    WARPS, ZERO = THREADS // 32, float32(0)

    def totals(x, partials):
        sums = cuda.shared.array(32, float32)
        i = cuda.grid(1)
        mine = ZERO
        if i < x.size:
            mine = to_float(x[i])
        mine = block_sum(mine, sums, WARPS)
        if cuda.threadIdx.x == 0:
            partials[cuda.blockIdx.x] = mine

    return totals


def hillis_steele(THREADS: int, element: str) -> Any:
    """Make the twins of cumsum/hillis_steele."""
    from numba import cuda, float32

    to_float, from_float = elements.conversions(element)
    scan, _ = scans.block_scans(THREADS)
    ZERO = float32(0)

    def cumsum_hillis_steele_offsets(partials, offsets):
        scratch = cuda.shared.array((2, THREADS), float32)
        following = cuda.shared.array(1, float32)
        t = cuda.threadIdx.x
        carry = ZERO
        for start in range(0, partials.size, THREADS):
            i = start + t
            mine = ZERO
            if i < partials.size:
                mine = partials[i]
            total = scan(mine, scratch)
            cuda.syncthreads()
            scratch[0, t] = total
            cuda.syncthreads()
            before = ZERO
            if t > 0:
                before = scratch[0, t - 1]
            if i < partials.size:
                offsets[i] = carry + before
            if t == THREADS - 1:
                following[0] = carry + total
            cuda.syncthreads()
            carry = following[0]
            cuda.syncthreads()

    def cumsum_hillis_steele_blocks(x, offsets, y, exclusive):
        scratch = cuda.shared.array((2, THREADS), float32)
        t = cuda.threadIdx.x
        i = cuda.grid(1)
        mine = ZERO
        if i < x.size:
            mine = to_float(x[i])
        answer = scan(mine, scratch)
        # Exclusive is the neighbour's answer, not a difference, which would round anew.
        if exclusive:
            cuda.syncthreads()
            scratch[0, t] = answer
            cuda.syncthreads()
            answer = ZERO
            if t > 0:
                answer = scratch[0, t - 1]
        if i < x.size:
            y[i] = from_float(offsets[cuda.blockIdx.x] + answer)

    totals = _totals(THREADS, element)
    totals.__name__ = "cumsum_hillis_steele_totals"
    return totals, cumsum_hillis_steele_offsets, cumsum_hillis_steele_blocks


def blelloch(THREADS: int, element: str) -> Any:
    """Make the twins of cumsum/blelloch."""
    from numba import cuda, float32

    to_float, from_float = elements.conversions(element)
    _, scan = scans.block_scans(THREADS)
    ZERO = float32(0)
    PADDED = THREADS + THREADS // 32

    def cumsum_blelloch_offsets(partials, offsets):
        scratch = cuda.shared.array(PADDED, float32)
        following = cuda.shared.array(1, float32)
        t = cuda.threadIdx.x
        carry = ZERO
        for start in range(0, partials.size, THREADS):
            i = start + t
            mine = ZERO
            if i < partials.size:
                mine = partials[i]
            before = scan(mine, scratch)
            if i < partials.size:
                offsets[i] = carry + before
            if t == THREADS - 1:
                following[0] = carry + (before + mine)
            cuda.syncthreads()
            carry = following[0]
            cuda.syncthreads()

    def cumsum_blelloch_blocks(x, offsets, y, exclusive):
        scratch = cuda.shared.array(PADDED, float32)
        i = cuda.grid(1)
        mine = ZERO
        if i < x.size:
            mine = to_float(x[i])
        before = scan(mine, scratch)
        answer = before if exclusive else before + mine
        if i < x.size:
            y[i] = from_float(offsets[cuda.blockIdx.x] + answer)

    totals = _totals(THREADS, element)
    totals.__name__ = "cumsum_blelloch_totals"
    return totals, cumsum_blelloch_offsets, cumsum_blelloch_blocks


def lookback(THREADS: int, VECTORS: int, element: str) -> Any:
    """Make the twin of cumsum/lookback."""
    from numba import cuda, float32

    publish, _, _, _ = scans.words()
    look_back, _ = scans.look_backs()
    read, before_warp, write = tile_functions(THREADS, VECTORS, element)
    WARPS = THREADS // 32
    SUMS, KEPT = WARPS + 1, VECTORS * elements.lanes(element)
    ZERO, AGGREGATE, PREFIX = float32(0), scans.AGGREGATE, scans.PREFIX

    def cumsum_lookback(x, y, state, exclusive):
        sums = cuda.shared.array(SUMS, float32, alignment=16)
        value = cuda.local.array(KEPT, float32)
        before = cuda.local.array(VECTORS, float32)
        tile, t = cuda.blockIdx.x, cuda.threadIdx.x
        read(x, tile, value, True)
        earlier, aggregate = before_warp(value, before, sums)
        if t < 32:
            if t == 0:
                publish(state, tile, PREFIX if tile == 0 else AGGREGATE, aggregate)
            tiles_before = ZERO
            if tile > 0:
                tiles_before = look_back(state, tile)
            if t == 0:
                if tile > 0:
                    publish(state, tile, PREFIX, tiles_before + aggregate)
                sums[WARPS] = tiles_before
        cuda.syncthreads()
        write(y, tile, value, before, sums[WARPS] + earlier, exclusive, True)

    return cumsum_lookback


def grouped(THREADS: int, VECTORS: int, GROUP: int, element: str) -> Any:
    """Make the twin of cumsum/grouped."""
    from numba import cuda, float32

    publish, _, _, _ = scans.words()
    _, in_group = scans.look_backs()
    read, before_warp, write = tile_functions(THREADS, VECTORS, element)
    WARPS = THREADS // 32
    SUMS, KEPT = WARPS + 1, VECTORS * elements.lanes(element)
    AGGREGATE, PREFIX = scans.AGGREGATE, scans.PREFIX

    def cumsum_grouped(x, y, state, carries, exclusive):
        sums = cuda.shared.array(SUMS, float32, alignment=16)
        value = cuda.local.array(KEPT, float32)
        before = cuda.local.array(VECTORS, float32)
        tile, t = cuda.blockIdx.x, cuda.threadIdx.x
        read(x, tile, value, True)
        earlier, aggregate = before_warp(value, before, sums)
        if t < 32:
            if t == 0:
                publish(state, tile, AGGREGATE, aggregate)
            tiles_before = in_group(state, carries, tile, GROUP)
            if t == 0:
                if tile % GROUP == GROUP - 1:
                    publish(carries, tile // GROUP, PREFIX, tiles_before + aggregate)
                sums[WARPS] = tiles_before
        cuda.syncthreads()
        write(y, tile, value, before, sums[WARPS] + earlier, exclusive, True)

    return cumsum_grouped


def tile_functions(THREADS: int, VECTORS: int, element: str) -> tuple[Any, Any, Any]:
    """Return what twins do with a tile of a line: read it, scan it within warps, write it.

    `is_wide` says whether the line starts at a multiple of 16 bytes.
    """
    from numba import cuda, float32

    fill, drain = elements.register_access(element)
    to_float, from_float = elements.conversions(element)
    warp_scan, _ = scans.warp_scans()
    EACH, WARPS = elements.lanes(element), THREADS // 32
    KEPT, TILE = VECTORS * EACH, THREADS * VECTORS * EACH
    ZERO, ALL_LANES = float32(0), folds.ALL_LANES

    @cuda.jit(device=True)
    def start(tile):
        t = cuda.threadIdx.x
        return (tile * WARPS + t // 32) * (32 * VECTORS) + t % 32

    @cuda.jit(device=True)
    def read(x, tile, value, is_wide):
        first = start(tile)
        if is_wide and (tile + 1) * TILE <= x.size:
            for v in range(VECTORS):
                fill(value, EACH * v, x, EACH * (first + 32 * v))
        else:
            for j in range(KEPT):
                i = (first + 32 * (j // EACH)) * EACH + j % EACH
                value[j] = ZERO
                if i < x.size:
                    value[j] = to_float(x[i])

    @cuda.jit(device=True)
    def before_warp(value, before, sums):
        lane, warp = cuda.threadIdx.x % 32, cuda.threadIdx.x // 32
        total = ZERO
        for v in range(VECTORS):
            part = value[EACH * v]
            for k in range(EACH * v + 1, EACH * v + EACH):
                part += value[k]
            upto = warp_scan(part)
            left = cuda.shfl_up_sync(ALL_LANES, upto, 1)
            before[v] = total + (ZERO if lane == 0 else left)
            total += cuda.shfl_sync(ALL_LANES, upto, 31)
        if lane == 0:
            sums[warp] = total
        cuda.syncthreads()
        earlier, aggregate = ZERO, ZERO
        for w in range(WARPS):
            part = sums[w]
            if w == warp:
                earlier = aggregate
            aggregate += part
        return earlier, aggregate

    @cuda.jit(device=True)
    def write(y, tile, value, before, offset, exclusive, is_wide):
        first = start(tile)
        is_whole = is_wide and (tile + 1) * TILE <= y.size
        for v in range(VECTORS):
            running = offset + before[v]
            for k in range(EACH * v, EACH * v + EACH):
                following = running + value[k]
                value[k] = running if exclusive else following
                running = following
            i = EACH * (first + 32 * v)
            if is_whole:
                drain(y, i, value, EACH * v)
            else:
                for k in range(EACH):
                    if i + k < y.size:
                        y[i + k] = from_float(value[EACH * v + k])

    return read, before_warp, write


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
HILLIS_STEELE = _three_launches("hillis_steele", hillis_steele, lambda threads: 2 * threads)

LADDER = (
    HILLIS_STEELE,
    _three_launches("blelloch", blelloch, lambda threads: threads + threads // 32),
    Kernel(
        PROBLEM,
        "lookback",
        ("x", "y", "state", "exclusive", "n"),
        ONE_PASS,
        lookback,
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
        grouped,
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
