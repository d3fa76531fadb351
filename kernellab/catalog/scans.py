"""Scans: twins of ``scan.cuh``: classical scans over a block, and what single-pass scans tell each other."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator"
# ruff: noqa: N803, N806

from __future__ import annotations

from functools import cache
from typing import Any

from kernellab.catalog.twins import ALL_LANES

NOTHING, AGGREGATE, PREFIX = 0, 1, 2


@cache
def block_scans(THREADS: int) -> tuple[Any, Any]:
    """Return the device functions ``hillis_steele(value, scratch)``, inclusive, ``blelloch``, exclusive."""
    from numba import cuda, float32

    ZERO = float32(0)

    @cuda.jit(device=True)
    def hillis_steele(value, scratch):
        t = cuda.threadIdx.x
        source, step = 0, 1
        scratch[0, t] = value
        cuda.syncthreads()
        while step < THREADS:
            mine = scratch[source, t]
            before = ZERO
            if t >= step:
                before = scratch[source, t - step]
            value = before + mine
            scratch[1 - source, t] = value
            source = 1 - source
            cuda.syncthreads()
            step *= 2
        return value

    @cuda.jit(device=True)
    def blelloch(value, scratch):
        t = cuda.threadIdx.x
        scratch[t + t // 32] = value
        cuda.syncthreads()
        step = 1
        while step < THREADS:
            right = (t + 1) * 2 * step - 1
            if right < THREADS:
                left = right - step
                lower = scratch[left + left // 32]
                upper = scratch[right + right // 32]
                scratch[right + right // 32] = lower + upper
            cuda.syncthreads()
            step *= 2
        if t == 0:
            scratch[THREADS - 1 + (THREADS - 1) // 32] = ZERO
        cuda.syncthreads()
        step = THREADS // 2
        while step > 0:
            right = (t + 1) * 2 * step - 1
            if right < THREADS:
                left = right - step
                lower = scratch[left + left // 32]
                before = scratch[right + right // 32]
                scratch[left + left // 32] = before
                scratch[right + right // 32] = before + lower
            cuda.syncthreads()
            step //= 2
        before = scratch[t + t // 32]
        cuda.syncthreads()
        return before

    return hillis_steele, blelloch


@cache
def warp_scans() -> tuple[Any, Any]:
    """Return the device functions ``warp_scan(value)``, inclusive, ``warp_total(value)``, in every lane."""
    from numba import cuda

    @cuda.jit(device=True)
    def warp_scan(value):
        lane = cuda.threadIdx.x % 32
        for step in (1, 2, 4, 8, 16):
            before = cuda.shfl_up_sync(ALL_LANES, value, step)
            if lane >= step:
                value = before + value
        return value

    @cuda.jit(device=True)
    def warp_total(value):
        for step in (16, 8, 4, 2, 1):
            value += cuda.shfl_xor_sync(ALL_LANES, value, step)
        return value

    return warp_scan, warp_total


@cache
def words() -> tuple[Any, Any, Any, Any]:
    """Return ``publish(array, i, flag, value)``, ``look(array, i)``, ``flag_of(word)``, ``value_of(word)``.

    A word of 64 bits holds a flag above and a float below. Numba has no load that must not be kept in a
    register, so these intrinsics write the PTX that ``scan.cuh`` does.
    """
    from llvmlite import ir
    from numba.cuda import types
    from numba.cuda.extending import intrinsic

    word, half = ir.IntType(64), ir.IntType(32)

    def address(context: Any, builder: Any, array_type: Any, array: Any, index_type: Any, index: Any) -> Any:
        data = context.make_array(array_type)(context, builder, array).data
        position = context.cast(builder, index, index_type, types.intp)
        return builder.ptrtoint(builder.gep(data, [position]), word)

    @intrinsic
    def publish(typing, array, index, flag, value):
        def emit(context, builder, signature, arguments):
            where = address(context, builder, array, arguments[0], index, arguments[1])
            wide = context.cast(builder, arguments[2], flag, types.uint64)
            upper = builder.shl(wide, ir.Constant(word, 32))
            lower = builder.zext(builder.bitcast(arguments[3], half), word)
            kind = ir.FunctionType(ir.VoidType(), [word, word])
            text = "st.relaxed.gpu.u64 [$0], $1;"
            store = ir.InlineAsm(kind, text, "l,l,~{memory}", side_effect=True)
            builder.call(store, [where, builder.or_(upper, lower)])
            return context.get_dummy_value()

        return types.void(array, index, flag, types.float32), emit

    @intrinsic
    def look(typing, array, index):
        def emit(context, builder, signature, arguments):
            where = address(context, builder, array, arguments[0], index, arguments[1])
            kind = ir.FunctionType(word, [word])
            text = "ld.relaxed.gpu.u64 $0, [$1];"
            return builder.call(ir.InlineAsm(kind, text, "=l,l,~{memory}", side_effect=True), [where])

        return types.uint64(array, index), emit

    @intrinsic
    def flag_of(typing, seen):
        def emit(context, builder, signature, arguments):
            return builder.trunc(builder.lshr(arguments[0], ir.Constant(word, 32)), half)

        return types.int32(types.uint64), emit

    @intrinsic
    def value_of(typing, seen):
        def emit(context, builder, signature, arguments):
            return builder.bitcast(builder.trunc(arguments[0], half), ir.FloatType())

        return types.float32(types.uint64), emit

    return publish, look, flag_of, value_of


@cache
def look_backs() -> tuple[Any, Any]:
    """Return the device functions ``look_back(state, tile)``, ``in_group(state, carries, tile, group)``."""
    from numba import cuda, float32, uint64

    _, look, flag_of, value_of = words()
    _, warp_total = warp_scans()
    ZERO = float32(0)
    NO_PREFIX, NO_CARRY, NO_TERM = uint64(PREFIX << 32), uint64(0), uint64(AGGREGATE << 32)

    @cuda.jit(device=True)
    def look_back(state, tile):
        lane = cuda.threadIdx.x % 32
        before = ZERO
        newest = tile - 1
        first = 32
        while first == 32:
            mine = newest - lane
            word = NO_PREFIX
            is_waiting = True
            while is_waiting:
                if mine >= 0:
                    word = look(state, mine)
                # Of the prefixes, and of the words that are missing, the nearest.
                first = cuda.ffs(cuda.ballot_sync(ALL_LANES, flag_of(word) == PREFIX)) - 1
                missing = cuda.ffs(cuda.ballot_sync(ALL_LANES, flag_of(word) == NOTHING)) - 1
                if first < 0:
                    first = 32
                is_waiting = 0 <= missing < first
            before += warp_total(value_of(word) if lane <= first else ZERO)
            newest -= 32
        return before

    @cuda.jit(device=True)
    def in_group(state, carries, tile, group):
        lane, place = cuda.threadIdx.x % 32, tile % group
        start_of_group = tile - place
        last_group = start_of_group // group - 1
        carry = NO_CARRY
        if last_group >= 0:
            carry = look(carries, last_group)
        before = ZERO
        for start in range(0, place, 128):
            word0, word1, word2, word3 = NO_TERM, NO_TERM, NO_TERM, NO_TERM
            is_missing = True
            while is_missing:
                other = start + lane
                if other < place:
                    word0 = look(state, start_of_group + other)
                if other + 32 < place:
                    word1 = look(state, start_of_group + other + 32)
                if other + 64 < place:
                    word2 = look(state, start_of_group + other + 64)
                if other + 96 < place:
                    word3 = look(state, start_of_group + other + 96)
                here = flag_of(word0) * flag_of(word1) * flag_of(word2) * flag_of(word3)
                is_missing = cuda.any_sync(ALL_LANES, here == NOTHING) != 0
            before += (value_of(word0) + value_of(word1)) + (value_of(word2) + value_of(word3))
        before = warp_total(before)
        while last_group >= 0 and flag_of(carry) == NOTHING:
            carry = look(carries, last_group)
        return value_of(carry) + before

    return look_back, in_group
