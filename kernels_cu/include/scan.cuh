// Scans: the two classical ones over a block, and what single-pass scans tell each other.
#ifndef KERNELLAB_SCAN_CUH
#define KERNELLAB_SCAN_CUH

#include "reduce.cuh"

// Hillis and Steele: log2(threads) steps, in each of which every thread adds the value `step` places before
// its own. Two buffers, or a thread would read what its neighbour has just replaced. Inclusive.
template <int threads>
__device__ __forceinline__ float hillis_steele(float value, float (*scratch)[threads]) {
    const int t = threadIdx.x;
    int from = 0;
    scratch[0][t] = value;
    __syncthreads();
#pragma unroll 1
    for (int step = 1; step < threads; step *= 2) {
        const float mine = scratch[from][t];
        float before = 0.0f;
        if (t >= step) {
            before = scratch[from][t - step];
        }
        value = before + mine;
        scratch[1 - from][t] = value;
        from = 1 - from;
        __syncthreads();
    }
    return value;
}

// Where Blelloch's tree keeps its word i: one unused word after each 32, or the strides of the tree would put
// many lanes in one bank.
__device__ __forceinline__ int padded(int i) {
    return i + i / 32;
}

// Blelloch: up the tree with partial sums, down again with what comes before each: 2 * threads additions
// where Hillis and Steele take threads * log2(threads), in twice the steps. Exclusive.
template <int threads>
__device__ __forceinline__ float blelloch(float value, float* scratch) {
    const int t = threadIdx.x;
    scratch[padded(t)] = value;
    __syncthreads();
#pragma unroll 1
    for (int step = 1; step < threads; step *= 2) {
        const int right = (t + 1) * 2 * step - 1;
        if (right < threads) {
            const float lower = scratch[padded(right - step)];
            const float upper = scratch[padded(right)];
            scratch[padded(right)] = lower + upper;
        }
        __syncthreads();
    }
    if (t == 0) {
        scratch[padded(threads - 1)] = 0.0f;
    }
    __syncthreads();
#pragma unroll 1
    for (int step = threads / 2; step > 0; step /= 2) {
        const int right = (t + 1) * 2 * step - 1;
        if (right < threads) {
            const float lower = scratch[padded(right - step)];
            const float before = scratch[padded(right)];
            scratch[padded(right - step)] = before;
            scratch[padded(right)] = before + lower;
        }
        __syncthreads();
    }
    const float before = scratch[padded(t)];
    __syncthreads();
    return before;
}

// The inclusive scan over a warp.
__device__ __forceinline__ float warp_scan(float value) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const float before = __shfl_up_sync(ALL_LANES, value, step);
        value = lane >= step ? before + value : value;
    }
    return value;
}

// The sum over a warp, the same bits in every lane.
__device__ __forceinline__ float warp_total(float value) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        value += __shfl_xor_sync(ALL_LANES, value, step);
    }
    return value;
}

// A warp's part of a tile, `vectors` vectors a lane and 32 neighbouring lanes a row: what comes before each
// of the lane's vectors, and, returned, the sum of the part.
template <int vectors, int each>
__device__ __forceinline__ float scan_vectors(const float (&value)[vectors][each], float (&before)[vectors]) {
    float sum = 0.0f;
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
        float total = value[v][0];
#pragma unroll
        for (int k = 1; k < each; ++k) {
            total += value[v][k];
        }
        const float upto = warp_scan(total);
        const float left = __shfl_up_sync(ALL_LANES, upto, 1);
        before[v] = sum + (threadIdx.x % 32 == 0 ? 0.0f : left);
        sum += __shfl_sync(ALL_LANES, upto, 31);
    }
    return sum;
}

// A line's tile, each lane's vectors from `first` on, 32 apart. Read: all loads of a whole tile first; the tile that
// the line of n elements ends in goes by elements.
template <class V, int vectors, int each, class T>
__device__ __forceinline__ void read_tile(const T* x, long long first, bool is_whole, long long n,
                                          float (&value)[vectors][each]) {
    if (is_whole) {
        V loaded[vectors];
#pragma unroll
        for (int v = 0; v < vectors; ++v) {
            loaded[v] = reinterpret_cast<const V*>(x)[first + 32 * v];
        }
#pragma unroll
        for (int v = 0; v < vectors; ++v) {
            unpack<T>(loaded[v], value[v]);
        }
    } else {
#pragma unroll
        for (int j = 0; j < vectors * each; ++j) {
            const long long i = (first + 32 * (j / each)) * each + j % each;
            value[j / each][j % each] = 0.0f;
            if (i < n) {
                const T one = x[i];
                value[j / each][j % each] = to_float(one);
            }
        }
    }
}

// Scan: what a warp's part holds before each of the lane's vectors; then, from the sums of warps, what the tile
// holds before this warp, and in all.
struct TileSums {
    float earlier, aggregate;
};
template <int warps, int vectors, int each>
__device__ __forceinline__ TileSums scan_tile(const float (&value)[vectors][each], float (&before)[vectors],
                                              float* sums) {
    const int warp = threadIdx.x / 32;
    const float sum = scan_vectors<vectors, each>(value, before);
    if (threadIdx.x % 32 == 0) {
        sums[warp] = sum;
    }
    __syncthreads();
    TileSums of = {0.0f, 0.0f};
#pragma unroll
    for (int w = 0; w < warps; ++w) {
        const float part = sums[w];
        of.earlier = w == warp ? of.aggregate : of.earlier;
        of.aggregate += part;
    }
    return of;
}

// Write: the running sum through each vector, on top of `offset`.
template <class V, int vectors, int each, class T>
__device__ __forceinline__ void write_tile(T* y, long long first, bool is_whole, long long n, int exclusive,
                                           float offset, const float (&value)[vectors][each],
                                           const float (&before)[vectors]) {
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
        const long long i = first + 32 * v;
        float running = offset + before[v], answer[each];
#pragma unroll
        for (int k = 0; k < each; ++k) {
            const float next = running + value[v][k];
            answer[k] = exclusive ? running : next;
            running = next;
        }
        if (is_whole) {
            reinterpret_cast<V*>(y)[i] = pack<V, T>(answer);
        } else {
#pragma unroll
            for (int k = 0; k < each; ++k) {
                if (i * each + k < n) {
                    y[i * each + k] = from_float<T>(answer[k]);
                }
            }
        }
    }
}

// What tiles tell each other: a flag and a float in one word of 64 bits, which no reader sees half written;
// so neither fences nor an order between two words are needed. Zero is "nothing yet".
enum Flag { NOTHING = 0, AGGREGATE = 1, PREFIX = 2 };

__device__ __forceinline__ void publish(unsigned long long* state, Flag flag, float value) {
    const unsigned long long word = (unsigned long long)flag << 32 | __float_as_uint(value);
    asm volatile("st.relaxed.gpu.u64 [%0], %1;" ::"l"(state), "l"(word) : "memory");
}
__device__ __forceinline__ unsigned long long look(const unsigned long long* state) {
    unsigned long long word;
    asm volatile("ld.relaxed.gpu.u64 %0, [%1];" : "=l"(word) : "l"(state) : "memory");
    return word;
}
__device__ __forceinline__ unsigned flag_of(unsigned long long word) {
    return word >> 32;
}
__device__ __forceinline__ float value_of(unsigned long long word) {
    return __uint_as_float((unsigned)word);
}

// Decoupled look-back by one warp: the sum of all tiles before `tile`, in every lane. Lane l looks l + 1
// tiles back; a prefix ends the search, aggregates are added up, and where nothing stands yet between the
// warp and the nearest prefix it looks again. Where that is differs from run to run, and so do last bits.
__device__ __forceinline__ float look_back(const unsigned long long* state, long long tile) {
    const int lane = threadIdx.x % 32;
    float before = 0.0f;
    unsigned prefixes = 0;
#pragma unroll 1
    for (long long newest = tile - 1; prefixes == 0; newest -= 32) {
        const long long mine = newest - lane;
        unsigned long long word = (unsigned long long)PREFIX << 32;  // before the first tile: 0
        unsigned missing, nearer;
        do {
            if (mine >= 0) {
                word = look(state + mine);
            }
            prefixes = __ballot_sync(ALL_LANES, flag_of(word) == PREFIX);
            missing = __ballot_sync(ALL_LANES, flag_of(word) == NOTHING);
            nearer = prefixes ? (prefixes & -prefixes) - 1 : ALL_LANES;
        } while (missing & nearer);
        const bool counts = (nearer | (prefixes & -prefixes)) >> lane & 1;
        before += warp_total(counts ? value_of(word) : 0.0f);
    }
    return before;
}

// Look-back within fixed groups by one warp: all aggregates of the tile's own group, which are there as soon
// as its predecessors have read their input, and the prefix that the last tile of the group before publishes.
// What is added to what depends on `tile` alone, so every run gives the same bits.
template <int group>
__device__ __forceinline__ float look_back_in_group(const unsigned long long* state,
                                                    const unsigned long long* carries, long long tile) {
    const int lane = threadIdx.x % 32, place = tile % group;
    const long long first = tile - place;
    const bool has_carry = first > 0;
    // Asked for early, needed late.
    unsigned long long carry = has_carry ? look(carries + first / group - 1) : 0;
    float before = 0.0f;
#pragma unroll 1
    for (int start = 0; start < place; start += 128) {
        unsigned long long word[4];
        bool is_missing;
        do {
            is_missing = false;
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const int other = start + 32 * j + lane;
                word[j] = other < place ? look(state + first + other) : (unsigned long long)AGGREGATE << 32;
                is_missing = is_missing || flag_of(word[j]) == NOTHING;
            }
        } while (__any_sync(ALL_LANES, is_missing));
        before += (value_of(word[0]) + value_of(word[1])) + (value_of(word[2]) + value_of(word[3]));
    }
    before = warp_total(before);
    while (has_carry && flag_of(carry) == NOTHING) {
        carry = look(carries + first / group - 1);
    }
    return value_of(carry) + before;
}

#endif
