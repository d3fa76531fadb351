// GeLU in two forms that differ by up to 4.7e-4: `gelu_erf` is x times the normal distribution, and `gelu_tanh`
// its approximation by tanh, written as x times a logistic function.
//
// Neither subtracts from 1, which would lose the tail: at -6 they are -5.9e-9 and -8.4e-11, not 0. The factor
// of minus infinity is brought to where no infinity is multiplied by 0; NaN stays NaN.
#ifndef KERNELLAB_GELU_CUH
#define KERNELLAB_GELU_CUH

#include "rows.cuh"

// x / (1 + exp(-2 sqrt(2 / pi) (x + 0.044715 x^3))) in eight instructions; NaN comes through the power.
__device__ __forceinline__ float gelu_tanh(float x) {
    constexpr float SLOPE = -1.5957691216057308f * LOG2_E, CUBIC = SLOPE * 0.044715f;
    const float exponent = x * fmaf(x * x, CUBIC, SLOPE);
    return fmaxf(x, -100.0f) * reciprocal(1.0f + power_of_two(exponent));
}

// The larger of both; NaN stays NaN.
__device__ __forceinline__ float at_least(float value, float low) {
#if __CUDA_ARCH__ >= 800
    float kept;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(kept) : "f"(value), "f"(low));
    return kept;
#else
    return value < low ? low : value;
#endif
}

// The tanh form for two values that share a reciprocal, which takes as long as sixteen products. Under LOW, where
// GeLU is -2.5e-17, it stays that: the product of both denominators is finite. A NaN must not reach the other value.
__device__ __forceinline__ void gelu_tanh_pair(float* value) {
    constexpr float SLOPE = -1.5957691216057308f * LOG2_E, CUBIC = SLOPE * 0.044715f, LOW = -7.4f;
    float denominator[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const float x = fmaxf(value[i], LOW);
        denominator[i] = 1.0f + power_of_two(x * fmaf(x * x, CUBIC, SLOPE));
    }
    const float shared = reciprocal(denominator[0] * denominator[1]);
    value[0] = at_least(value[0], LOW) * (shared * denominator[1]);
    value[1] = at_least(value[1], LOW) * (shared * denominator[0]);
}

__device__ __forceinline__ float gelu_erf(float x) {
    const float low = x < -20.0f ? -20.0f : x;
    return 0.5f * low * erfcf(-0.70710678118654752f * low);
}

__device__ __forceinline__ float gelu(float x, int form) {
    return form ? gelu_tanh(x) : gelu_erf(x);
}

// GeLU of many values. In pairs it takes fewer reciprocals and more instructions: that pays beside tensor cores,
// where special functions are the limit, and not where instructions are.
template <int count, bool in_pairs = false>
__device__ __forceinline__ void gelu_all(float* value, int form) {
    if (form && in_pairs) {
#pragma unroll
        for (int i = 0; i < count; i += 2) {
            gelu_tanh_pair(value + i);
        }
    } else if (form) {
#pragma unroll
        for (int i = 0; i < count; ++i) {
            value[i] = gelu_tanh(value[i]);
        }
    } else {
#pragma unroll
        for (int i = 0; i < count; ++i) {
            value[i] = gelu_erf(value[i]);
        }
    }
}

// GeLU of an array taken as flat, a vector of 16 bytes a thread: the second kernel of a chain.
template <int threads, class T>
__device__ __forceinline__ void gelu_flat(const T* __restrict__ h, T* __restrict__ y, long long count,
                                          int form) {
    flat<threads>(h, y, count, true,
                  [=](auto, long long, float* value) { gelu_all<16 / sizeof(T)>(value, form); });
}

// What is added to each row: a reader of its own, so that the loads of `bias` are counted as such.
template <class S>
__device__ __forceinline__ void read_bias(const typename S::T* __restrict__ bias, S share, float* value) {
#pragma unroll
    for (int s = 0; s < S::STEPS; ++s) {
        typename S::Held loaded = filled<typename S::Held, typename S::T>(false);
        if (share.has(s)) {
            loaded = reinterpret_cast<const typename S::Held*>(bias)[share.at(s)];
        }
        unpack<typename S::T>(loaded, value + s * S::PIECE);
    }
}

// A bias in registers for a thread's columns, added to those of one row after another; `change(value)` follows, in
// place, on 16 bytes of values. So many rows lie `beside` each other in a block.
template <int rows_each, int beside, class S, class Change>
__device__ __forceinline__ void down_rows(const typename S::T* __restrict__ x,
                                          const typename S::T* __restrict__ bias,
                                          typename S::T* __restrict__ y, long long rows, long long columns,
                                          long long start, S share, Change change) {
    constexpr int EACH = rows_each * beside;
    const int first = beside == 1 ? 0 : threadIdx.x / S::members;
    float added[S::ITEMS];
    read_bias(bias + start, share, added);
    for (long long row = (long long)blockIdx.y * EACH + first; row < rows;
         row += (long long)gridDim.y * EACH) {
        float value[rows_each][S::ITEMS];
        S here[rows_each];
#pragma unroll
        for (int q = 0; q < rows_each; ++q) {
            here[q] = {share.member, row + q * beside < rows ? share.held : 0};
            read(x + (row + q * beside) * columns + start, here[q], false, value[q]);
        }
#pragma unroll
        for (int q = 0; q < rows_each; ++q) {
#pragma unroll
            for (int i = 0; i < S::ITEMS; ++i) {
                value[q][i] += added[i];
            }
            change(value[q]);
            write(y + (row + q * beside) * columns + start, here[q], value[q]);
        }
    }
}
template <int threads, int group, int rows_each, class T, class Change>
__device__ __forceinline__ void with_bias(const T* __restrict__ x, const T* __restrict__ bias,
                                          T* __restrict__ y, long long rows, long long columns,
                                          Change change) {
    constexpr int HELD = group * int(16 / sizeof(T)), BESIDE = threads / group;
    const long long start = (long long)blockIdx.x * HELD;
    const int held = columns - start < HELD ? columns - start : HELD;
    const int member = BESIDE == 1 ? threadIdx.x : threadIdx.x % group;
    if (starts_at_vectors(x, y, columns) && starts_at_vector(bias)) {
        down_rows<rows_each, BESIDE>(x, bias, y, rows, columns, start, Share<T, group, 1, WIDE>{member, held},
                                     change);
    } else {
        down_rows<rows_each, BESIDE>(x, bias, y, rows, columns, start,
                                     Share<T, group, 1, SINGLE>{member, held}, change);
    }
}

#endif
