"""Cumsum twins: the rungs of cumsum in Numba, and what row_cumsum shares with them; see `scans`."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"
# ruff: noqa: N803, N806

from __future__ import annotations

from typing import Any

from kernellab.catalog import elements, folds, scans, twins


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

    totals = twins.renamed(_totals(THREADS, element), "cumsum_hillis_steele_totals")
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

    totals = twins.renamed(_totals(THREADS, element), "cumsum_blelloch_totals")
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
    ZERO, ALL_LANES = float32(0), twins.ALL_LANES

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
