// GeLU in two forms that differ by up to 4.7e-4: `gelu_erf` is x times the normal distribution, and `gelu_tanh`
// its approximation by tanh, written as x times a logistic function.
//
// Neither subtracts from 1, which would lose the tail: at -6 they are -5.9e-9 and -8.4e-11, not 0. Values so
// far below 0 that the answer is -0 are brought to where no infinity is multiplied by 0; NaN stays NaN.
#ifndef KERNELLAB_GELU_CUH
#define KERNELLAB_GELU_CUH

#include "rows.cuh"

template <class T>
__device__ __forceinline__ float gelu_tanh(float x) {
    const float low = x < -100.0f ? -100.0f : x;
    const float doubled = 1.5957691216057308f * fmaf(0.044715f * low * low, low, low);
    return __fdividef(low, 1.0f + exponential<T>(-doubled));
}

__device__ __forceinline__ float gelu_erf(float x) {
    const float low = x < -20.0f ? -20.0f : x;
    return 0.5f * low * erfcf(-0.70710678118654752f * low);
}

template <class T>
__device__ __forceinline__ float gelu(float x, int form) {
    return form ? gelu_tanh<T>(x) : gelu_erf(x);
}

template <class T, int count>
__device__ __forceinline__ void gelu_all(float* value, int form) {
    if (form) {
#pragma unroll
        for (int i = 0; i < count; ++i) {
            value[i] = gelu_tanh<T>(value[i]);
        }
    } else {
#pragma unroll
        for (int i = 0; i < count; ++i) {
            value[i] = gelu_erf(value[i]);
        }
    }
}

#endif
