// Rows: what kernels share that give GROUP threads to a row: exchanges within the group, a thread's share of a
// row in registers, and the frame from reading it to writing it.
//
// GROUP is a power of two up to 32, so that several rows share a warp, or the whole block. Every thread of the
// block takes part in each exchange, those without a row too. `scratch` is 32 values of shared memory.
#ifndef KERNELLAB_ROWS_CUH
#define KERNELLAB_ROWS_CUH

#include "element.cuh"

#define LOWEST __int_as_float(0xff800000)  // -inf: NVRTC has no INFINITY

struct Pair {
    float first, second;
};

__device__ __forceinline__ float from_lane(float value, int step) {
    return __shfl_xor_sync(0xffffffffu, value, step);
}
__device__ __forceinline__ Pair from_lane(Pair value, int step) {
    return {from_lane(value.first, step), from_lane(value.second, step)};
}

// The merge of `value` over neighbouring lanes, `width` of them, in all of them; the same bits in every run.
template <int width, class T, class Merge>
__device__ __forceinline__ T over_lanes(T value, Merge merge) {
#pragma unroll
    for (int step = width / 2; step > 0; step /= 2) {
        value = merge(value, from_lane(value, step));
    }
    return value;
}
template <int width>
__device__ __forceinline__ float sum_over(float value) {
    return over_lanes<width>(value, [](float a, float b) { return a + b; });
}
template <int width>
__device__ __forceinline__ float max_over(float value) {
    return over_lanes<width>(value, [](float a, float b) { return fmaxf(a, b); });
}

// What a group is made of: warps, or one part of a warp. Lanes as many as a power of two cover the warps.
template <int members>
struct Team {
    static_assert(members <= 1024 && (members % 32 == 0 || 32 % members == 0),
                  "rows: a group must be a power of two up to 32, or whole warps");
    static constexpr int LANES_EACH = members < 32 ? members : 32, COUNT = members / LANES_EACH;
    static constexpr int WIDTH = COUNT <= 1    ? 1
                                 : COUNT <= 2  ? 2
                                 : COUNT <= 4  ? 4
                                 : COUNT <= 8  ? 8
                                 : COUNT <= 16 ? 16
                                               : 32;
};

// What each warp of the block has found: that of warp i in lanes i, i + WIDTH, ...; one barrier.
template <int members, class T>
__device__ __forceinline__ T of_warps(T value, T none, T* scratch) {
    const int warp = threadIdx.x % Team<members>::WIDTH;
    if (threadIdx.x % 32 == 0) {
        scratch[threadIdx.x / 32] = value;
    }
    __syncthreads();
    value = none;
    if (warp < Team<members>::COUNT) {
        value = scratch[warp];
    }
    return value;
}

// The merge over the group. The barrier at the end lets the next exchange use the same scratch.
template <int members, class T, class Merge>
__device__ __forceinline__ T over_group(T value, T none, T* scratch, Merge merge) {
    value = over_lanes<Team<members>::LANES_EACH>(value, merge);
    if constexpr (members > 32) {
        value = over_lanes<Team<members>::WIDTH>(of_warps<members>(value, none, scratch), merge);
        __syncthreads();
    }
    return value;
}

template <int members>
__device__ __forceinline__ float group_sum(float value, float* scratch) {
    return over_group<members>(value, 0.0f, scratch, [](float a, float b) { return a + b; });
}
template <int members>
__device__ __forceinline__ float group_max(float value, float* scratch) {
    return over_group<members>(value, LOWEST, scratch, [](float a, float b) { return fmaxf(a, b); });
}
template <int members>
__device__ __forceinline__ Pair group_sums(Pair value, Pair* scratch) {
    return over_group<members>(value, Pair{0.0f, 0.0f}, scratch,
                               [](Pair a, Pair b) { return Pair{a.first + b.first, a.second + b.second}; });
}

// One instruction each, to 2 ulp: what 16-bit elements are rounded to is so much coarser that no more is needed.
__device__ __forceinline__ float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float reciprocal(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#define LOG2_E 1.4426950408889634f

// e to the power d, to 2 ulp in float.
template <class T>
__device__ __forceinline__ float exponential(float d) {
    return sizeof(T) == 4 ? expf(d) : power_of_two(d * LOG2_E);
}

// Pieces of a row: sixteen bytes of elements, or one.
template <class T, bool is_single>
struct Piece {
    using type = T;
};
template <>
struct Piece<float, false> {
    using type = float4;
};
template <>
struct Piece<__half, false> {
    using type = uint4;
};
template <>
struct Piece<__nv_bfloat16, false> {
    using type = uint4;
};
template <class T>
__device__ __forceinline__ void unpack(T loaded, float* value) {
    *value = to_float(loaded);
}
template <class P, class T>
__device__ __forceinline__ P packed(const float* value) {
    if constexpr (sizeof(P) == sizeof(T)) {
        return from_float<T>(*value);
    } else {
        return pack<P, T>(value);
    }
}

// A piece of nothing but -inf, or of 0: what a thread holds beyond the end of its row.
template <class P, class T>
__device__ __forceinline__ P filled(bool is_lowest) {
    const float each = is_lowest ? LOWEST : 0.0f;
    const float value[8] = {each, each, each, each, each, each, each, each};
    return packed<P, T>(value);
}

// Whether rows of these arrays start at multiples of 16 bytes, so that vectors can be read and written.
template <class T>
__device__ __forceinline__ bool starts_at_vectors(const T* x, const T* y, long long columns) {
    return ((size_t)x | (size_t)y | (size_t)columns * sizeof(T)) % 16 == 0;
}
template <class T>
__device__ __forceinline__ bool starts_at_vector(const T* weight) {
    return (size_t)weight % 16 == 0;
}

// How a row lies in registers: element by element, in vectors of 16 bytes, or in vectors with none missing.
enum Layout { SINGLE, WIDE, FULL };

template <Layout layout>
struct Laid {
    static constexpr Layout LAYOUT = layout;
};

// A thread's share of the `held` columns that its group has in registers: STEPS pieces, which are vectors or
// single elements; piece s is number s * members + member of the row.
template <class Element, int of, int vectors, Layout layout>
struct Share {
    using T = Element;
    static constexpr Layout LAYOUT = layout;
    static constexpr int members = of, EACH = 16 / sizeof(T), ITEMS = vectors * EACH, HELD = members * ITEMS;
    static constexpr int PIECE = layout == SINGLE ? 1 : EACH, STEPS = ITEMS / PIECE;
    static constexpr bool is_aligned = layout != SINGLE;
    using Held = typename Piece<T, layout == SINGLE>::type;  // a piece as it lies in memory
    int member, held;
    __device__ __forceinline__ int at(int step) const {
        return step * members + member;
    }
    __device__ __forceinline__ bool has(int step) const {
        return layout == FULL || at(step) * PIECE < held;
    }
    __device__ __forceinline__ float count() const {
        return (float)(layout == FULL ? HELD : held);
    }
    // How many columns the lanes of one warp hold, or those of a group within a warp.
    __device__ __forceinline__ float count(int warp) const {
        constexpr int LANES_EACH = Team<members>::LANES_EACH;
        if (layout == FULL) {
            return (float)(LANES_EACH * ITEMS);
        }
        const int pieces = held / PIECE, whole = pieces / members;
        const int rest = pieces - whole * members - warp * LANES_EACH;
        return (float)((whole * LANES_EACH + max(0, min(rest, LANES_EACH))) * PIECE);
    }
};

// A share of the row at x into registers, with -inf or 0 beyond its end; all loads are issued before the first is
// needed.
template <class S>
__device__ __forceinline__ void read(const typename S::T* __restrict__ x, S share, bool is_lowest,
                                     float* value) {
    using T = typename S::T;
    typename S::Held loaded[S::STEPS];
#pragma unroll
    for (int s = 0; s < S::STEPS; ++s) {
        loaded[s] = filled<typename S::Held, T>(is_lowest);
        if (share.has(s)) {
            loaded[s] = reinterpret_cast<const typename S::Held*>(x)[share.at(s)];
        }
    }
#pragma unroll
    for (int s = 0; s < S::STEPS; ++s) {
        unpack<T>(loaded[s], value + s * S::PIECE);
    }
}

// The same columns of another array, added.
template <class S>
__device__ __forceinline__ void add(const typename S::T* __restrict__ residual, S share, float* value) {
    using T = typename S::T;
#pragma unroll
    for (int s = 0; s < S::STEPS; ++s) {
        typename S::Held loaded = filled<typename S::Held, typename S::T>(false);
        if (share.has(s)) {
            loaded = reinterpret_cast<const typename S::Held*>(residual)[share.at(s)];
        }
        float added[S::PIECE];
        unpack<T>(loaded, added);
#pragma unroll
        for (int i = 0; i < S::PIECE; ++i) {
            value[s * S::PIECE + i] += added[i];
        }
    }
}

// The same columns from registers to the row at y.
template <class S>
__device__ __forceinline__ void write(typename S::T* __restrict__ y, S share, const float* value) {
    using T = typename S::T;
#pragma unroll
    for (int s = 0; s < S::STEPS; ++s) {
        if (share.has(s)) {
            reinterpret_cast<typename S::Held*>(y)[share.at(s)] =
                packed<typename S::Held, T>(value + s * S::PIECE);
        }
    }
}

// A share in registers, piece after piece: what `change(step, value)` does to the values stays there.
template <class S>
struct Kept {
    static constexpr bool IS_KEPT = true;
    float* value;
    template <class Change>
    __device__ __forceinline__ void each(Change change) const {
#pragma unroll
        for (int s = 0; s < S::STEPS; ++s) {
            change(s, value + s * S::PIECE);
        }
    }
};
template <class S>
__device__ __forceinline__ Kept<S> kept(S, float* value) {
    return {value};
}

// A row, or as many columns of it as registers hold. The work says what is done with it:
//     LOWEST_BEYOND, IS_SUM        what stands beyond the end; whether a second array is added
//     State, Scratch               what is found in some columns; what of it one warp tells the others
//     take(share, row)             what one warp finds in its values, which row.each(change) goes through
//     again(own, value)            what else take leaves in each value; for rows that keep nothing between passes
//     meet(own, share, scratch)    the same of the whole group, after one barrier
//     nothing(), merge(a, b)       of no columns; of two stretches of a row
//     settle(own, all)             what the answer takes of it
//     finish(settled, share, first, start, value)
//                                  the answer, in place: columns from `start` on, of the row whose first element
//                                  is number `first` of the array
template <class Work, class S>
__device__ __forceinline__ void gather(const Work& work, S share, long long from, float* value) {
    read(work.x + from, share, Work::LOWEST_BEYOND, value);
    if constexpr (Work::IS_SUM) {
        add(work.residual + from, share, value);
    }
}

// A row longer than the group's registers: read once for what is found in it, and again for the answer.
template <class S, class Work>
__device__ __forceinline__ void long_row(const Work& work, long long row, long long rows, long long columns,
                                         int member, typename Work::Scratch* scratch, typename S::T* y) {
    const long long end = row < rows ? columns : 0, first = row * columns;
    float value[S::ITEMS];
    typename Work::State all = Work::nothing();
#pragma unroll 1
    for (long long start = 0; start < columns; start += S::HELD) {
        const S share = {member, (int)max(0ll, min(end - start, (long long)S::HELD))};
        gather(work, share, first + start, value);
        all = work.merge(all, work.meet(work.take(share, kept(share, value)), share, scratch));
        __syncthreads();
    }
#pragma unroll 1
    for (long long start = 0; start < columns; start += S::HELD) {
        const S share = {member, (int)max(0ll, min(end - start, (long long)S::HELD))};
        gather(work, share, first + start, value);
        const auto own = work.take(share, kept(share, value));
        work.finish(work.settle(own, all), share, first, start, value);
        write(y + first + start, share, value);
    }
}

template <class S, int rows_each, class Work>
__device__ __forceinline__ void rows_of(const Work& work, long long row, long long rows, long long columns,
                                        int member, typename Work::Scratch (*scratch)[32], typename S::T* y) {
    float value[rows_each][S::ITEMS];
#pragma unroll
    for (int q = 0; q < rows_each; ++q) {
        const S share = {member, row + q < rows ? (int)columns : 0};
        gather(work, share, (row + q) * columns, value[q]);
    }
#pragma unroll
    for (int q = 0; q < rows_each; ++q) {
        const S share = {member, row + q < rows ? (int)columns : 0};
        const auto own = work.take(share, kept(share, value[q]));
        const auto all = work.meet(own, share, scratch[q % 2]);
        work.finish(work.settle(own, all), share, (row + q) * columns, 0, value[q]);
        write(y + (row + q) * columns, share, value[q]);
    }
}

// The frame of the rungs that keep rows in registers: `members` of the block's threads have rows_each rows. Two
// scratches take turns, so that one barrier a row is enough.
template <class T, int threads, int members, int vectors, int rows_each, class Work>
__device__ __forceinline__ void through_registers(const Work& work, T* y,
                                                  typename Work::Scratch (*scratch)[32], long long rows,
                                                  long long columns) {
    constexpr int HELD = members * vectors * int(16 / sizeof(T)), EACH = threads / members * rows_each;
    const int member = threadIdx.x % members;
    const long long block = (long long)blockIdx.x * EACH, row = block + threadIdx.x / members * rows_each;
    const auto all = [&](auto wide) {
        using S = Share<T, members, vectors, wide.LAYOUT>;
        if (columns <= HELD) {
            rows_of<S, rows_each>(work, row, rows, columns, member, scratch, y);
        } else {
#pragma unroll 1
            for (int q = 0; q < rows_each; ++q) {
                long_row<S>(work, row + q, rows, columns, member, scratch[0], y);
            }
        }
    };
    if (!work.is_aligned() || !starts_at_vectors(work.x, y, columns)) {
        all(Laid<SINGLE>{});
    } else if (columns == HELD && block + EACH <= rows) {
        rows_of<Share<T, members, vectors, FULL>, rows_each>(work, row, rows, columns, member, scratch, y);
    } else {
        all(Laid<WIDE>{});
    }
}

// Part number `part` of a row that several blocks share: `change(share, start, value)`, with room for its values.
template <int threads, int vectors, class T, class Change>
__device__ __forceinline__ void in_part(const T* x, const T* y, long long columns, bool is_aligned,
                                        long long part, Change change) {
    constexpr int HELD = threads * vectors * int(16 / sizeof(T));
    const long long start = part * HELD;
    const int held = columns - start < HELD ? columns - start : HELD, member = threadIdx.x;
    float value[vectors * int(16 / sizeof(T))];
    if (is_aligned && starts_at_vectors(x, y, columns)) {
        change(Share<T, threads, vectors, WIDE>{member, held}, start, value);
    } else {
        change(Share<T, threads, vectors, SINGLE>{member, held}, start, value);
    }
}

// A streaming kernel: an array taken as flat, a vector of 16 bytes a thread. `change(share, start, value)` works on
// the values in place, which begin at element number `start` of the array; `is_aligned` says whether what else it
// reads starts at 16 bytes.
template <int threads, class T, class Change>
__device__ __forceinline__ void flat(const T* __restrict__ x, T* __restrict__ y, long long count,
                                     bool is_aligned, Change change) {
    constexpr int HELD = threads * int(16 / sizeof(T));
    const long long start = (long long)blockIdx.x * HELD;
    const int held = count - start < HELD ? count - start : HELD;
    float value[16 / sizeof(T)];
    auto all = [&](auto share) {
        read(x + start, share, false, value);
        change(share, start, value);
        write(y + start, share, value);
    };
    if (is_aligned && starts_at_vectors(x, y, held)) {
        all(Share<T, threads, 1, WIDE>{(int)threadIdx.x, held});
    } else {
        all(Share<T, threads, 1, SINGLE>{(int)threadIdx.x, held});
    }
}

#endif
