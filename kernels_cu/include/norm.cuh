// Norm: means and variances of rows, and what becomes of a value by them.
//
// The mean in float32 is off by up to half a unit of the values' own size: 0.03 where they are near a million.
// So the deviations are taken from it, which is exact, and their own mean is taken off again.
#ifndef KERNELLAB_NORM_CUH
#define KERNELLAB_NORM_CUH

#include "rows.cuh"

struct Norm {
    float mean, scale, shift;
    __device__ __forceinline__ float operator()(float value) const {
        return fmaf(value - mean, scale, shift);
    }
};

// Mean, and sums of deviations from it and of their squares, to the norm of a row.
__device__ __forceinline__ Norm norm_from(float mean, Pair sums, long long columns, float eps) {
    const float inverse = 1.0f / (float)columns, offset = sums.first * inverse;
    const float scale = rsqrtf(fmaf(-offset, offset, sums.second * inverse) + eps);
    return {mean, scale, -offset * scale};
}

template <int members, int vectors, class T>
__device__ __forceinline__ float sum_of(const float* value) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < vectors * int(16 / sizeof(T)); ++i) {
        sum += value[i];
    }
    return sum;
}

// Sums of the deviations from the mean and of their squares over the `held` columns in registers.
template <int members, int vectors, class T>
__device__ __forceinline__ Pair deviations_of(const float* value, int held, int member, bool is_aligned,
                                              float mean) {
    constexpr int EACH = 16 / sizeof(T);
    const int lead = is_aligned ? EACH * member : member, step = is_aligned ? 1 : members;
    Pair sums = {0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < vectors * EACH; ++i) {
        if (lead + i / EACH * EACH * members + i % EACH * step < held) {
            const float deviation = value[i] - mean;
            sums.first += deviation;
            sums.second = fmaf(deviation, deviation, sums.second);
        }
    }
    return sums;
}

// The columns of a row beyond those in registers: of one array, or of the sum of two.
template <class T>
struct Beyond {
    const T* x;
    __device__ __forceinline__ float operator()(long long c) const {
        return to_float(x[c]);
    }
};
template <class T>
struct BeyondSum {
    const T *x, *residual;
    __device__ __forceinline__ float operator()(long long c) const {
        return to_float(x[c]) + to_float(residual[c]);
    }
};

// The norm of a row of which a group holds the first columns; `beyond(c)` gives the columns after those.
template <int members, int vectors, class T, class After>
__device__ __forceinline__ Norm norm_of(const float* value, int held, int member, bool is_aligned,
                                        long long columns, float eps, Pair* scratch, After beyond) {
    const long long first = members * vectors * int(16 / sizeof(T)) + member;
    float sum = sum_of<members, vectors, T>(value);
#pragma unroll 4
    for (long long c = first; c < columns; c += members) {
        sum += beyond(c);
    }
    const float mean = group_sum<members>(sum, reinterpret_cast<float*>(scratch)) / (float)columns;
    Pair sums = deviations_of<members, vectors, T>(value, held, member, is_aligned, mean);
#pragma unroll 4
    for (long long c = first; c < columns; c += members) {
        const float deviation = beyond(c) - mean;
        sums = {sums.first + deviation, fmaf(deviation, deviation, sums.second)};
    }
    return norm_from(mean, group_sums<members>(sums, scratch), columns, eps);
}

// The registers' columns of a row times weight plus bias.
template <int members, int vectors, class T>
__device__ __forceinline__ void weigh_row(const T* __restrict__ weight, const T* __restrict__ bias, int held,
                                          int member, bool is_aligned, float* value) {
    using wide = typename Wide<T>::type;
    constexpr int EACH = 16 / sizeof(T);
    if (is_aligned) {
#pragma unroll
        for (int v = 0; v < vectors; ++v) {
            const int at = v * members + member;
            if (at * EACH < held) {
                float w[EACH], b[EACH];
                const wide weights = reinterpret_cast<const wide*>(weight)[at];
                const wide biases = reinterpret_cast<const wide*>(bias)[at];
                unpack<T>(weights, w);
                unpack<T>(biases, b);
#pragma unroll
                for (int i = 0; i < EACH; ++i) {
                    value[v * EACH + i] = fmaf(value[v * EACH + i], w[i], b[i]);
                }
            }
        }
    } else {
#pragma unroll
        for (int i = 0; i < vectors * EACH; ++i) {
            const int c = i * members + member;
            if (c < held) {
                const float w = to_float(weight[c]);
                const float b = to_float(bias[c]);
                value[i] = fmaf(value[i], w, b);
            }
        }
    }
}

// The same with no bias.
template <int members, int vectors, class T>
__device__ __forceinline__ void weigh_row(const T* __restrict__ weight, int held, int member, bool is_aligned,
                                          float* value) {
    using wide = typename Wide<T>::type;
    constexpr int EACH = 16 / sizeof(T);
    if (is_aligned) {
#pragma unroll
        for (int v = 0; v < vectors; ++v) {
            const int at = v * members + member;
            if (at * EACH < held) {
                float w[EACH];
                const wide weights = reinterpret_cast<const wide*>(weight)[at];
                unpack<T>(weights, w);
#pragma unroll
                for (int i = 0; i < EACH; ++i) {
                    value[v * EACH + i] *= w[i];
                }
            }
        }
    } else {
#pragma unroll
        for (int i = 0; i < vectors * EACH; ++i) {
            const int c = i * members + member;
            if (c < held) {
                const float w = to_float(weight[c]);
                value[i] *= w;
            }
        }
    }
}

// Count, mean and sum of squared deviations, as Welford carries them along and Chan merges them.
struct Moments {
    float count, mean, squares;
};
__device__ __forceinline__ Moments from_lane(Moments value, int step) {
    return {from_lane(value.count, step), from_lane(value.mean, step), from_lane(value.squares, step)};
}
__device__ __forceinline__ Moments include(Moments known, float value) {
    const float count = known.count + 1.0f, before = value - known.mean;
    const float mean = known.mean + __fdividef(before, count);
    return {count, mean, fmaf(before, value - mean, known.squares)};
}
__device__ __forceinline__ Moments merge_moments(Moments a, Moments b) {
    const float count = a.count + b.count, apart = b.mean - a.mean;
    const float share = count > 0.0f ? __fdividef(b.count, count) : 0.0f;
    return {count, fmaf(apart, share, a.mean), a.squares + fmaf(apart * apart, a.count * share, b.squares)};
}
template <int members>
__device__ __forceinline__ Moments group_moments(Moments value, Moments* scratch) {
    return over_group<members>(value, Moments{0.0f, 0.0f, 0.0f}, scratch,
                               [](Moments a, Moments b) { return merge_moments(a, b); });
}

// Whether a vector of weights starts at 16 bytes.
template <class T>
__device__ __forceinline__ bool starts_at_vector(const T* weight) {
    return (size_t)weight % 16 == 0;
}

#endif
