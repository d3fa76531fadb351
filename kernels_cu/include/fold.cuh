// Folds: the phases that the rungs of sum, max and argmax share, of whole arrays and of rows. `Fold` is one of
// the types of reduce.cuh; `V` is the vector of 16 bytes that holds elements of type T.
#ifndef KERNELLAB_FOLD_CUH
#define KERNELLAB_FOLD_CUH

#include "reduce.cuh"

// The merge over a block by a tree in shared memory, whose value is then in scratch[0]. The far half first: step threads / 2 down to
// 1. The first threads work, so whole warps drop out, and lanes read neighbouring words.
template <class Fold, int threads, class... Parts>
__device__ __forceinline__ void tree_fold(typename Fold::value_t mine, Parts*... scratch) {
    using value_t = typename Fold::value_t;
    const int t = threadIdx.x;
    ((scratch[t] = Parts(mine)), ...);
    __syncthreads();
#pragma unroll 1
    for (int step = threads / 2; step > 0; step /= 2) {
        if (t < step) {
            const value_t left = value_t{scratch[t]...};
            const value_t right = value_t{scratch[t + step]...};
            const value_t merged = Fold::merge(left, right);
            ((scratch[t] = Parts(merged)), ...);
        }
        __syncthreads();
    }
}

// What thread t finds in tiles `first`, `first + step`, ... of a line of whole vectors, each tile `vectors`
// vectors a thread: all loads of a tile first, then the merges.
template <class Fold, class V, int threads, int vectors, class T>
__device__ __forceinline__ typename Fold::value_t fold_vectors(const T* x, long long whole, int t,
                                                               long long first, long long step) {
    constexpr int EACH = sizeof(V) / sizeof(T), TILE = threads * vectors;
    typename Fold::carried_t mine = Fold::start();
    unsigned visit = 0;
#pragma unroll 1
    for (long long start = first * TILE; start < whole; start += step * TILE, visit += vectors) {
        V loaded[vectors];
#pragma unroll
        for (int v = 0; v < vectors; ++v) {
            const long long i = start + v * threads + t;
            if (i < whole) {
                loaded[v] = reinterpret_cast<const V*>(x)[i];
            }
        }
#pragma unroll
        for (int v = 0; v < vectors; ++v) {
            const long long i = start + v * threads + t;
            if (i < whole) {
                float value[EACH];
                unpack<T>(loaded[v], value);
                mine = Fold::next(mine, Fold::of(value), visit + v);
            }
        }
    }
    return Fold::found(mine, [=](unsigned at) {
        const long long i = (first + at / vectors * step) * TILE + at % vectors * threads + t;
        return i < whole ? i * EACH : NOWHERE;
    });
}

// The same of elements from `from` on, one a thread in each round.
template <class Fold, int threads, class T>
__device__ __forceinline__ typename Fold::value_t fold_elements(const T* x, long long from, long long n,
                                                                int t, long long first, long long step) {
    typename Fold::carried_t mine = Fold::start();
    const long long begin = from + first * threads + t;
    unsigned visit = 0;
#pragma unroll 1
    for (long long i = begin; i < n; i += step * threads, ++visit) {
        const T element = x[i];
        mine = Fold::next(mine, to_float(element), visit);
    }
    return Fold::found(mine, [=](unsigned at) { return begin < n ? begin + at * step * threads : NOWHERE; });
}

// What thread t finds in its share of a line of n elements: vectors where it starts at 16 bytes, and the rest.
template <class Fold, class V, int threads, int vectors, class T>
__device__ __forceinline__ typename Fold::value_t fold_line(const T* x, long long n, bool is_wide, int t,
                                                            long long first, long long step) {
    constexpr int EACH = sizeof(V) / sizeof(T);
    const long long whole = is_wide ? n / EACH : 0;
    return Fold::merge(fold_vectors<Fold, V, threads, vectors>(x, whole, t, first, step),
                       fold_elements<Fold, threads>(x, whole * EACH, n, t, first, step));
}

// Leave a block's value, which thread 0 has, where the last of `blocks` blocks will see it: fence, then count. Tells
// all threads of that last block so. atomicInc sets the counter back to 0 by itself.
template <class Value, class... Parts>
__device__ __forceinline__ bool is_last_to_leave(Value mine, unsigned* finished, unsigned blocks,
                                                 long long place, Parts*... partials) {
    __shared__ bool is_last;
    if (threadIdx.x == 0) {
        ((partials[place] = Parts(mine)), ...);
        __threadfence();
        is_last = atomicInc(finished, blocks - 1) == blocks - 1;
    }
    __syncthreads();
    return is_last;
}

// What a thread of one block finds in values that blocks have left.
template <class Fold, int threads, class N, class... Parts>
__device__ __forceinline__ typename Fold::value_t fold_partials(long long first, N count,
                                                                const Parts*... partials) {
    typename Fold::value_t mine = Fold::none();
#pragma unroll 1
    for (N i = threadIdx.x; i < count; i += threads) {
        const typename Fold::value_t partial = typename Fold::value_t{partials[first + i]...};
        mine = Fold::merge(mine, partial);
    }
    return mine;
}

// Where in the vector of `each` elements at its place the best value stands, for a warp whose lane 0 has it; each
// lane looks at one element.
template <int each, class T>
__device__ __forceinline__ long long exact_place(const T* line, long long n, Best best) {
    const float value = __shfl_sync(ALL_LANES, best.value, 0);
    const long long place = __shfl_sync(ALL_LANES, best.place, 0);
    const int lane = threadIdx.x % 32;
    bool is_it = false;
    if (lane < each && place + lane < n) {
        const T element = line[place + lane];
        const float seen = to_float(element);
        is_it = seen == value || (seen != seen && value != value);
    }
    return place + __ffs(__ballot_sync(ALL_LANES, is_it)) - 1;
}

#endif
