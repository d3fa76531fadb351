// Rows: what kernels share that give GROUP threads to a row: exchanges within the group, and exponentials.
//
// GROUP is a power of two up to 32, so that several rows share a warp, or the whole block. Every thread of the
// block takes part in each exchange, those without a row too. `scratch` is 32 values of shared memory; the
// barrier at the end of an exchange lets the next one use the same scratch.
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

// The merge of `value` over the group, in every thread of it; the same bits in every run.
template <int members, class T, class Merge>
__device__ __forceinline__ T over_group(T value, T none, T* scratch, Merge merge) {
    static_assert(members <= 1024 && (members % 32 == 0 || 32 % members == 0),
                  "rows: a group must be a power of two up to 32, or whole warps");
#pragma unroll
    for (int step = members < 32 ? members / 2 : 16; step > 0; step /= 2) {
        value = merge(value, from_lane(value, step));
    }
    if constexpr (members > 32) {
        const int lane = threadIdx.x % 32;
        if (lane == 0) {
            scratch[threadIdx.x / 32] = value;
        }
        __syncthreads();
        value = none;
        if (lane < members / 32) {
            value = scratch[lane];
        }
#pragma unroll
        for (int step = 16; step > 0; step /= 2) {
            value = merge(value, from_lane(value, step));
        }
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

// A running maximum and the sum of exponentials relative to it. Equal maxima are not subtracted, for
// -inf - -inf is NaN; a maximum that is infinite in the end makes the sum NaN, as subtracting it does.
__device__ __forceinline__ Pair merge_softmax(Pair a, Pair b) {
    const float top = fmaxf(a.first, b.first);
    const float left = a.first == top ? a.second : a.second * expf(a.first - top);
    const float right = b.first == top ? b.second : b.second * expf(b.first - top);
    return {top, left + right};
}
template <int members>
__device__ __forceinline__ Pair group_softmax(Pair value, Pair* scratch) {
    return over_group<members>(value, Pair{LOWEST, 0.0f}, scratch,
                               [](Pair a, Pair b) { return merge_softmax(a, b); });
}

// e to the power d, to 2 ulp in float; 16-bit elements are rounded so much more that the fast one does.
template <class T>
__device__ __forceinline__ float exponential(float d) {
    return sizeof(T) == 4 ? expf(d) : __expf(d);
}

// Sixteen bytes of elements, all -inf or all 0: what a thread holds beyond the end of its row.
template <class T>
struct Wide {
    using type = uint4;
};
template <>
struct Wide<float> {
    using type = float4;
};
#define MINUS_INFINITIES minus_infinities(static_cast<const element_t*>(nullptr))
#define ZEROS  \
    wide16_t { \
    }
__device__ __forceinline__ float4 minus_infinities(const float*) {
    return make_float4(LOWEST, LOWEST, LOWEST, LOWEST);
}
__device__ __forceinline__ uint4 minus_infinities(const __half*) {
    return make_uint4(0xfc00fc00u, 0xfc00fc00u, 0xfc00fc00u, 0xfc00fc00u);
}
__device__ __forceinline__ uint4 minus_infinities(const __nv_bfloat16*) {
    return make_uint4(0xff80ff80u, 0xff80ff80u, 0xff80ff80u, 0xff80ff80u);
}

// Whether rows of these arrays start at multiples of 16 bytes, so that vectors can be read and written.
template <class T>
__device__ __forceinline__ bool starts_at_vectors(const T* x, const T* y, long long columns) {
    return ((size_t)x | (size_t)y | (size_t)columns * sizeof(T)) % 16 == 0;
}

// Which column a thread holds in value[i]: neighbours in vectors of 16 bytes, or else every `members`-th.
template <int members, class T>
__device__ __forceinline__ int column_of(int i, int member, bool is_aligned) {
    constexpr int EACH = 16 / sizeof(T);
    return is_aligned ? (i / EACH * members + member) * EACH + i % EACH : i * members + member;
}

// The first `held` columns of the row at x into registers; all loads are issued before the first is needed.
template <int members, int vectors, class T>
__device__ __forceinline__ void read_row(const T* __restrict__ x, int held, int member, bool is_aligned,
                                         typename Wide<T>::type none, float* value) {
    using wide = typename Wide<T>::type;
    constexpr int EACH = 16 / sizeof(T);
    if (is_aligned) {
#pragma unroll
        for (int v = 0; v < vectors; ++v) {
            const int at = v * members + member;
            wide loaded = none;
            if (at * EACH < held) {
                loaded = reinterpret_cast<const wide*>(x)[at];
            }
            unpack<T>(loaded, value + v * EACH);
        }
    } else {
        float outside[EACH];
        unpack<T>(none, outside);
#pragma unroll
        for (int i = 0; i < vectors * EACH; ++i) {
            const int c = i * members + member;
            value[i] = outside[0];
            if (c < held) {
                value[i] = to_float(x[c]);
            }
        }
    }
}

// The same columns of another array, added.
template <int members, int vectors, class T>
__device__ __forceinline__ void add_row(const T* __restrict__ residual, int held, int member, bool is_aligned,
                                        float* value) {
    using wide = typename Wide<T>::type;
    constexpr int EACH = 16 / sizeof(T);
    if (is_aligned) {
#pragma unroll
        for (int v = 0; v < vectors; ++v) {
            const int at = v * members + member;
            wide loaded = {};
            if (at * EACH < held) {
                loaded = reinterpret_cast<const wide*>(residual)[at];
            }
            float added[EACH];
            unpack<T>(loaded, added);
#pragma unroll
            for (int i = 0; i < EACH; ++i) {
                value[v * EACH + i] += added[i];
            }
        }
    } else {
#pragma unroll
        for (int i = 0; i < vectors * EACH; ++i) {
            const int c = i * members + member;
            if (c < held) {
                value[i] += to_float(residual[c]);
            }
        }
    }
}

// One vector a thread of what is added to each row.
template <int members, class T>
__device__ __forceinline__ void read_bias(const T* __restrict__ bias, int held, int member, bool is_aligned,
                                          float* value) {
    using wide = typename Wide<T>::type;
    constexpr int EACH = 16 / sizeof(T);
    if (is_aligned) {
        wide loaded = {};
        if (member * EACH < held) {
            loaded = reinterpret_cast<const wide*>(bias)[member];
        }
        unpack<T>(loaded, value);
    } else {
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
            const int c = i * members + member;
            value[i] = 0.0f;
            if (c < held) {
                value[i] = to_float(bias[c]);
            }
        }
    }
}

// The same columns from registers to the row at y.
template <int members, int vectors, class T>
__device__ __forceinline__ void write_row(T* __restrict__ y, int held, int member, bool is_aligned,
                                          const float* value) {
    using wide = typename Wide<T>::type;
    constexpr int EACH = 16 / sizeof(T);
    if (is_aligned) {
#pragma unroll
        for (int v = 0; v < vectors; ++v) {
            const int at = v * members + member;
            if (at * EACH < held) {
                reinterpret_cast<wide*>(y)[at] = pack<wide, T>(value + v * EACH);
            }
        }
    } else {
#pragma unroll
        for (int i = 0; i < vectors * EACH; ++i) {
            const int c = i * members + member;
            if (c < held) {
                y[c] = from_float<T>(value[i]);
            }
        }
    }
}

#endif
