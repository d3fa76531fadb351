// Backward: what the kernels of gradients share: `dy` comes in, `dx` goes out, a share of a row at a time; and the
// slope of GeLU in its two forms.
#ifndef KERNELLAB_BACKWARD_CUH
#define KERNELLAB_BACKWARD_CUH

#include "rows.cuh"

// As `read` and `write` of rows.cuh: lines of their own, so that these arrays are counted apart from others.
template <class S>
__device__ __forceinline__ void read_dy(const typename S::T* __restrict__ dy, S share, float* value) {
    typename S::Held loaded[S::STEPS];
#pragma unroll
    for (int s = 0; s < S::STEPS; ++s) {
        loaded[s] = filled<typename S::Held, typename S::T>(false);
        if (share.has(s)) {
            loaded[s] = reinterpret_cast<const typename S::Held*>(dy)[share.at(s)];
        }
    }
#pragma unroll
    for (int s = 0; s < S::STEPS; ++s) {
        unpack<typename S::T>(loaded[s], value + s * S::PIECE);
    }
}
template <class S>
__device__ __forceinline__ void write_dx(typename S::T* __restrict__ dx, S share, const float* value) {
#pragma unroll
    for (int s = 0; s < S::STEPS; ++s) {
        if (share.has(s)) {
            const auto rounded = packed<typename S::Held, typename S::T>(value + s * S::PIECE);
            reinterpret_cast<typename S::Held*>(dx)[share.at(s)] = rounded;
        }
    }
}

// The value, or the nearest within; NaN stays NaN.
__device__ __forceinline__ float within(float value, float limit) {
    const float low = value < -limit ? -limit : value;
    return low > limit ? limit : low;
}

// Of x times the logistic function s of u: s + x s (1 - s) u'. Both s and 1 - s come from one power without a
// subtraction that would lose them. Beyond 10.02 one of the two is flushed to 0 and the slope is 0 or 1; there no
// infinity is multiplied by 0.
__device__ __forceinline__ float gelu_tanh_slope(float x) {
    constexpr float SLOPE = 1.5957691216057308f, CUBIC = SLOPE * 0.044715f;
    const float near = within(x, 10.02f), square = near * near;
    const float power = power_of_two(near * fmaf(square, -LOG2_E * CUBIC, -LOG2_E * SLOPE));
    const float part = reciprocal(1.0f + power);
    return fmaf(near * part * (power * part), fmaf(square, 3.0f * CUBIC, SLOPE), part);
}

// Of x times the normal distribution: that, and x times its density.
__device__ __forceinline__ float gelu_erf_slope(float x) {
    const float near = within(x, 15.0f);
    const float density = 0.3989422804014327f * power_of_two(near * near * (-0.5f * LOG2_E));
    return fmaf(near, density, 0.5f * erfcf(-0.70710678118654752f * near));
}

__device__ __forceinline__ float gelu_slope(float x, int form) {
    return form ? gelu_tanh_slope(x) : gelu_erf_slope(x);
}

// Of many values, in place; the form is asked once.
template <int count>
__device__ __forceinline__ void gelu_slope_all(float* value, int form) {
    if (form) {
#pragma unroll
        for (int i = 0; i < count; ++i) {
            value[i] = gelu_tanh_slope(value[i]);
        }
    } else {
#pragma unroll
        for (int i = 0; i < count; ++i) {
            value[i] = gelu_erf_slope(value[i]);
        }
    }
}

#endif
