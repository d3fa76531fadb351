// Softmax of rows: the work of the rungs that keep a row in registers, and the online rule.
//
// Each warp takes the exponentials relative to its own maximum, so one exchange of the group is enough: a warp's
// values then lack one factor, that of the common maximum and sum, which is multiplied in where they are
// divided by the sum anyway. 16-bit elements count in powers of two: one multiplication and addition for the
// exponent, one instruction for the power.
#ifndef KERNELLAB_SOFTMAX_CUH
#define KERNELLAB_SOFTMAX_CUH

#include "rows.cuh"

// A maximum in the unit in which differences are raised: natural, or that of powers of two.
template <class T>
__device__ __forceinline__ float unit_of(float top) {
    return sizeof(T) == 4 ? top : top * LOG2_E;
}
template <class T>
__device__ __forceinline__ float raised(float difference) {
    return sizeof(T) == 4 ? expf(difference) : power_of_two(difference);
}
template <class T>
__device__ __forceinline__ float raised(float value, float top) {
    return sizeof(T) == 4 ? expf(value - top) : power_of_two(fmaf(value, LOG2_E, -top));
}

// A maximum and the sum of exponentials relative to it, merged. Equal maxima are not subtracted, for -inf - -inf
// is NaN; a maximum that is infinite in the end makes the scale NaN, as subtracting it does.
template <class T>
__device__ __forceinline__ Pair merge_softmax(Pair a, Pair b) {
    const float top = fmaxf(a.first, b.first);
    const float left = a.first == top ? a.second : a.second * raised<T>(a.first - top);
    const float right = b.first == top ? b.second : b.second * raised<T>(b.first - top);
    return {top, left + right};
}
template <int members, class T>
__device__ __forceinline__ Pair group_softmax(Pair value, Pair* scratch) {
    return over_group<members>(value, Pair{LOWEST, 0.0f}, scratch,
                               [](Pair a, Pair b) { return merge_softmax<T>(a, b); });
}

template <class T>
struct Softmax {
    using State = Pair;  // the maximum, and the sum of exponentials relative to it
    using Scratch = Pair;
    static constexpr bool LOWEST_BEYOND = true, IS_SUM = false;
    const T* x;

    static __device__ __forceinline__ bool is_aligned() {
        return true;
    }
    static __device__ __forceinline__ Pair nothing() {
        return {LOWEST, 0.0f};
    }
    static __device__ __forceinline__ Pair merge(Pair a, Pair b) {
        return merge_softmax<T>(a, b);
    }

    // The exponentials, in place. NaN is lost in the maximum and comes back with the sum; a warp that has nothing
    // but -inf sums to 0.
    template <class S, class Row>
    static __device__ __forceinline__ Pair take(S, const Row& row) {
        constexpr int WIDTH = Team<S::members>::LANES_EACH;
        float top = LOWEST, sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        row.each([&](int, const float* value) {
#pragma unroll
            for (int i = 0; i < S::PIECE; ++i) {
                top = fmaxf(top, value[i]);
            }
        });
        top = unit_of<T>(max_over<WIDTH>(top));
        row.each([&](int step, float* value) {
#pragma unroll
            for (int i = 0; i < S::PIECE; ++i) {
                value[i] = raised<T>(value[i], shift_of(top));
                sum[(step * S::PIECE + i) % 4] += value[i];
            }
        });
        return {top, sum_over<WIDTH>((sum[0] + sum[1]) + (sum[2] + sum[3]))};
    }
    static __device__ __forceinline__ float again(Pair own, float value) {
        return raised<T>(value, shift_of(own.first));
    }
    static __device__ __forceinline__ float shift_of(float top) {
        return top == LOWEST ? 0.0f : top;
    }

    template <class S>
    static __device__ __forceinline__ Pair meet(Pair own, S, Pair* scratch) {
        if constexpr (S::members <= 32) {
            return own;
        } else {
            constexpr int WIDTH = Team<S::members>::WIDTH;
            const Pair found = of_warps<S::members>(own, nothing(), scratch);
            const float top = max_over<WIDTH>(found.first);
            const float sum = found.first == top ? found.second : found.second * raised<T>(found.first - top);
            return {top, sum_over<WIDTH>(sum)};
        }
    }

    // What a warp's exponentials are multiplied by.
    static __device__ __forceinline__ float settle(Pair own, Pair all) {
        return raised<T>(own.first - all.first) / all.second;
    }
    template <class S>
    __device__ __forceinline__ void finish(float factor, S, long long, long long, float* value) const {
#pragma unroll
        for (int i = 0; i < S::ITEMS; ++i) {
            value[i] *= factor;
        }
    }
};

#endif
