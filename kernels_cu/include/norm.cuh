// Norm: means and variances of rows, and the work of the rungs that normalise a row in registers.
//
// The mean in float32 is off by up to half a unit of the values' own size: 0.03 where they are near a million.
// So the deviations are taken from it, which is exact, and for float32 their own mean is taken off again.
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

// Of some values: a number near their mean, the sum of deviations from it, and that of their squares.
struct Deviations {
    float mean, first, second;
};
// The same about another mean; nothing stays nothing.
__device__ __forceinline__ Deviations about(float mean, Deviations of, float count) {
    const float apart = count > 0.0f ? of.mean - mean : 0.0f, moved = count * apart;
    return {mean, of.first + moved, fmaf(apart, fmaf(2.0f, of.first, moved), of.second)};
}

// Deviations of a row: each warp takes them from its own mean, then all are brought to the common one. For
// 16-bit elements `first` is as good as 0 and is not summed.
template <class T>
struct Deviating {
    struct State {
        float count;
        Deviations found;
    };
    using Scratch = Deviations;
    static constexpr bool LOWEST_BEYOND = false, IS_REPAIRED = sizeof(T) == 4;
    static __device__ __forceinline__ State nothing() {
        return {0.0f, {0.0f, 0.0f, 0.0f}};
    }
    static __device__ __forceinline__ State merge(State a, State b) {
        const float count = a.count + b.count;
        const float mean = fmaf(b.found.mean - a.found.mean, b.count / fmaxf(count, 1.0f), a.found.mean);
        a.found = about(mean, a.found, a.count), b.found = about(mean, b.found, b.count);
        return {count, {mean, a.found.first + b.found.first, a.found.second + b.found.second}};
    }

    static __device__ __forceinline__ float again(State, float value) {
        return value;
    }

    template <class S, class Row>
    static __device__ __forceinline__ State take(S share, const Row& row) {
        constexpr int WIDTH = Team<S::members>::LANES_EACH;
        const float count = share.count(threadIdx.x % S::members / WIDTH);
        if constexpr (!Row::IS_KEPT && !IS_REPAIRED) {
            return in_one_pass<WIDTH>(share, row, count);
        } else {
            if constexpr (Row::IS_KEPT) {
                const float* value = row.value;
                float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
                for (int i = 0; i < S::ITEMS; ++i) {
                    sum[i % 4] += value[i];
                }
                const float mean =
                    sum_over<WIDTH>((sum[0] + sum[1]) + (sum[2] + sum[3])) / fmaxf(count, 1.0f);
                float first[2] = {0.0f, 0.0f}, second[2] = {0.0f, 0.0f};
#pragma unroll
                for (int s = 0; s < S::STEPS; ++s) {
                    if (share.has(s)) {
#pragma unroll
                        for (int i = s * S::PIECE; i < (s + 1) * S::PIECE; ++i) {
                            const float deviation = value[i] - mean;
                            if (IS_REPAIRED) {
                                first[i % 2] += deviation;
                            }
                            second[i % 2] = fmaf(deviation, deviation, second[i % 2]);
                        }
                    }
                }
                return {count,
                        {mean, total<WIDTH>(first[0] + first[1]), sum_over<WIDTH>(second[0] + second[1])}};
            }
            float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            row.each([&](int step, const float* value) {
#pragma unroll
                for (int i = 0; i < S::PIECE; ++i) {
                    sum[(step * S::PIECE + i) % 4] += value[i];
                }
            });
            const float all = sum_over<WIDTH>((sum[0] + sum[1]) + (sum[2] + sum[3]));
            const float mean = all / fmaxf(count, 1.0f);
            float first[2] = {0.0f, 0.0f}, second[2] = {0.0f, 0.0f};
            row.each([&](int step, const float* value) {
                if (share.has(step)) {
#pragma unroll
                    for (int i = 0; i < S::PIECE; ++i) {
                        const float deviation = value[i] - mean;
                        if (IS_REPAIRED) {
                            first[i % 2] += deviation;
                        }
                        second[i % 2] = fmaf(deviation, deviation, second[i % 2]);
                    }
                }
            });
            const Deviations found = {mean, first[0] + first[1], second[0] + second[1]};
            return {count, {found.mean, total<WIDTH>(found.first), sum_over<WIDTH>(found.second)}};
        }
    }

    // Where a pass costs reading and converting: a thread takes deviations from its first value, which gives its
    // own mean, and those of a warp are brought to the warp's.
    template <int width, class S, class Row>
    static __device__ __forceinline__ State in_one_pass(S share, const Row& row, float count) {
        float own = 0.0f;
#pragma unroll
        for (int s = 0; s < S::STEPS; ++s) {
            own += share.has(s) ? (float)S::PIECE : 0.0f;
        }
        Deviations found = deviations(share, row, row.first(), true);
        const float offset = found.first / fmaxf(own, 1.0f);
        found = {found.mean + offset, 0.0f, fmaf(-offset, found.first, found.second)};
        const float mean = sum_over<width>(own * found.mean) / fmaxf(count, 1.0f);
        return {count, {mean, 0.0f, sum_over<width>(about(mean, found, own).second)}};
    }

    // Those of a thread from `mean`.
    template <class S, class Row>
    static __device__ __forceinline__ Deviations deviations(S share, const Row& row, float mean,
                                                            bool is_summed) {
        float first[2] = {0.0f, 0.0f}, second[2] = {0.0f, 0.0f};
        row.each([&](int step, const float* value) {
            if (share.has(step)) {
#pragma unroll
                for (int i = 0; i < S::PIECE; ++i) {
                    const float deviation = value[i] - mean;
                    if (is_summed) {
                        first[i % 2] += deviation;
                    }
                    second[i % 2] = fmaf(deviation, deviation, second[i % 2]);
                }
            }
        });
        return {mean, first[0] + first[1], second[0] + second[1]};
    }

    template <class S>
    static __device__ __forceinline__ State meet(State own, S share, Scratch* scratch) {
        if constexpr (S::members <= 32) {
            return own;
        } else {
            constexpr int WIDTH = Team<S::members>::WIDTH;
            Deviations found = of_warps<S::members>(own.found, Deviations{0.0f, 0.0f, 0.0f}, scratch);
            const int warp = threadIdx.x % WIDTH;  // lanes as many as a power of two: some stand for no warp
            const float count = warp < Team<S::members>::COUNT ? share.count(warp) : 0.0f;
            const float mean = sum_over<WIDTH>(count * found.mean) / fmaxf(share.count(), 1.0f);
            found = about(mean, found, count);
            return {share.count(), {mean, total<WIDTH>(found.first), sum_over<WIDTH>(found.second)}};
        }
    }

    template <int width>
    static __device__ __forceinline__ float total(float first) {
        return IS_REPAIRED ? sum_over<width>(first) : 0.0f;
    }
};

// The values of a row times the weights plus the biases, by `change(value, weight, bias)`: without branches, so
// that the compiler issues as many loads ahead as it has registers for.
template <class S, class Change>
__device__ __forceinline__ void weigh(const typename S::T* __restrict__ weight,
                                      const typename S::T* __restrict__ bias, S share, float* value,
                                      Change change) {
    using T = typename S::T;
#pragma unroll
    for (int s = 0; s < S::STEPS; ++s) {
        typename S::Held weights = filled<typename S::Held, T>(false), biases = weights;
        if (share.has(s)) {
            weights = reinterpret_cast<const typename S::Held*>(weight)[share.at(s)];
            biases = reinterpret_cast<const typename S::Held*>(bias)[share.at(s)];
        }
        float w[S::PIECE], b[S::PIECE];
        unpack<T>(weights, w);
        unpack<T>(biases, b);
#pragma unroll
        for (int i = 0; i < S::PIECE; ++i) {
            float& own = value[s * S::PIECE + i];
            own = change(own, w[i], b[i]);
        }
    }
}

// The same with no bias.
template <class S>
__device__ __forceinline__ void weigh(const typename S::T* __restrict__ weight, S share, float scale,
                                      float* value) {
    using T = typename S::T;
#pragma unroll
    for (int s = 0; s < S::STEPS; ++s) {
        typename S::Held weights = filled<typename S::Held, T>(false);
        if (share.has(s)) {
            weights = reinterpret_cast<const typename S::Held*>(weight)[share.at(s)];
        }
        float w[S::PIECE];
        unpack<T>(weights, w);
#pragma unroll
        for (int i = 0; i < S::PIECE; ++i) {
            value[s * S::PIECE + i] = value[s * S::PIECE + i] * scale * w[i];
        }
    }
}

// Layernorm of x, or of x + residual.
template <class T, bool is_sum>
struct Layernorm : Deviating<T> {
    using State = typename Deviating<T>::State;
    static constexpr bool IS_SUM = is_sum;
    const T *x, *residual, *weight, *bias;
    long long columns;
    float eps;

    __device__ __forceinline__ Layernorm(const T* x, const T* residual, const T* weight, const T* bias,
                                         long long columns, float eps)
        : x(x), residual(residual), weight(weight), bias(bias), columns(columns), eps(eps) {
    }
    __device__ __forceinline__ bool is_aligned() const {
        return (((size_t)weight | (size_t)bias | (is_sum ? (size_t)residual : 0)) % 16) == 0;
    }
    __device__ __forceinline__ Norm settle(State, State all) const {
        return norm_from(all.found.mean, {all.found.first, all.found.second}, columns, eps);
    }
    template <class S>
    __device__ __forceinline__ void finish(Norm norm, S share, long long, long long start,
                                           float* value) const {
        const float shift = fmaf(-norm.mean, norm.scale, norm.shift);
        weigh(weight + start, bias + start, share, value, [=](float own, float w, float b) {
            return fmaf(sizeof(T) == 4 ? norm(own) : fmaf(own, norm.scale, shift), w, b);
        });
    }
};

// Each row over its root mean square.
template <class T>
struct Rmsnorm {
    using State = float;  // the sum of squares
    using Scratch = float;
    static constexpr bool LOWEST_BEYOND = false, IS_SUM = false;
    const T *x, *weight;
    long long columns;
    float eps;

    __device__ __forceinline__ bool is_aligned() const {
        return starts_at_vector(weight);
    }
    static __device__ __forceinline__ float nothing() {
        return 0.0f;
    }
    static __device__ __forceinline__ float merge(float a, float b) {
        return a + b;
    }
    static __device__ __forceinline__ float again(float, float value) {
        return value;
    }
    template <class S, class Row>
    static __device__ __forceinline__ float take(S, const Row& row) {
        float sum[2] = {0.0f, 0.0f};
        row.each([&](int step, const float* value) {
#pragma unroll
            for (int i = 0; i < S::PIECE; ++i) {
                float& own = sum[(step * S::PIECE + i) % 2];
                own = fmaf(value[i], value[i], own);
            }
        });
        return sum_over<Team<S::members>::LANES_EACH>(sum[0] + sum[1]);
    }
    template <class S>
    static __device__ __forceinline__ float meet(float own, S, float* scratch) {
        if constexpr (S::members > 32) {
            own = sum_over<Team<S::members>::WIDTH>(of_warps<S::members>(own, 0.0f, scratch));
        }
        return own;
    }
    __device__ __forceinline__ float settle(float, float all) const {
        return rsqrtf(all / (float)columns + eps);
    }
    template <class S>
    __device__ __forceinline__ void finish(float scale, S share, long long, long long start,
                                           float* value) const {
        weigh(weight + start, share, scale, value);
    }
};

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

#endif
