// AdamW: one step for one element, as float32, and what all elements of a step share.
#ifndef KERNELLAB_ADAMW_CUH
#define KERNELLAB_ADAMW_CUH

#include "element.cuh"
#include "gradients.cuh"

// Four elements: 16 bytes of floats, 8 of halves.
template <int CHOICE>
struct QuadOf {
    using type = typename ElementOf<CHOICE>::wide8;
};
template <>
struct QuadOf<0> {
    using type = float4;
};
#define quad_t QuadOf<ELEMENT>::type

__device__ __forceinline__ float root(float value) {
    float result;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(result) : "f"(value));
    return result;
}

// 1 - (1 - rate)^step, which a power would lose for small rates.
__device__ __forceinline__ float bias_correction(float rate, int step) {
    return -expm1f(step * log1pf(-rate));
}

struct AdamW {
    float factor, shrink, rate1, rate2, pace, spread, eps;

    // `rate1` and `rate2` are 1 - beta1 and 1 - beta2: as floats, betas near 1 would lose their last digits.
    __device__ __forceinline__ AdamW(float factor, float lr, float rate1, float rate2, float eps,
                                     float weight_decay, int step)
        : factor(factor),
          shrink(lr * weight_decay),
          rate1(rate1),
          rate2(rate2),
          pace(lr / bias_correction(rate1, step)),
          spread(rsqrtf(bias_correction(rate2, step))),
          eps(eps) {
    }

    __device__ __forceinline__ void update(float& param, float grad, float& mean, float& square) const {
        grad *= factor;
        mean = mean - rate1 * mean + rate1 * grad;
        square = square - rate2 * square + rate2 * grad * grad;
        param -= shrink * param;
        param -= pace * __fdividef(mean, root(square) * spread + eps);
    }
};

#endif
