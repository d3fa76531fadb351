// Biases: what the epilogue of a product by warpgroups adds to a lane's columns, and GeLU of the sum.
#ifndef KERNELLAB_BIASES_CUH
#define KERNELLAB_BIASES_CUH

#include "gelu.cuh"

__device__ __forceinline__ float at_least(float value, float low) {
    float kept;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(kept) : "f"(value), "f"(low));
    return kept;
}

// The tanh form for two values that share a reciprocal: there is room for a sixteenth of the reciprocals that
// there is for products. Under LOW, where GeLU is -2.5e-17, it stays that: the product of both denominators is
// finite. A NaN must not reach the other value.
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

// The biases of columns `column`, `column` + 1, and of every eighth after those; asked for before the products.
template <int columns, class T>
struct Biases {
    unsigned word[columns / 8];

    __device__ __forceinline__ Biases(const T* __restrict__ bias, int column, int n) {
#pragma unroll
        for (int j = 0; j < columns / 8; ++j) {
            const int at = column + 8 * j;
            word[j] = 0;
            if (at < n) {
                word[j] = *reinterpret_cast<const unsigned*>(bias + at);
            }
        }
    }

    // One branch for 32 values: one for each pair of them makes code that the instruction cache does not hold.
    __device__ __forceinline__ void finish(int first, float* value, int form) const {
        const T* const kind = nullptr;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            float added[2];
            unpack_word(word[first + j], added, kind);
#pragma unroll
            for (int q = 0; q < 4; ++q) {
                value[4 * j + q] += added[q % 2];
            }
        }
        if (form) {
#pragma unroll
            for (int i = 0; i < 32; i += 2) {
                gelu_tanh_pair(value + i);
            }
        } else {
#pragma unroll
            for (int i = 0; i < 32; ++i) {
                value[i] = gelu_erf(value[i]);
            }
        }
    }
};

#endif
