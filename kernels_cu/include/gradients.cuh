// Gradients: what they are multiplied by, and whether all of them are finite.
#ifndef KERNELLAB_GRADIENTS_CUH
#define KERNELLAB_GRADIENTS_CUH

// The scale taken out, and what clips them to a global norm: `norm` is that of the gradients as they are, with
// the scale in. NaN stays NaN, so that a broken norm is seen.
__device__ __forceinline__ float gradient_factor(float inv_scale, float norm, float max_norm) {
    const float share = max_norm / (norm * inv_scale + 1e-6f);
    return inv_scale * (share >= 1.0f ? 1.0f : share);
}

__device__ __forceinline__ bool is_finite(float value) {
    return fabsf(value) <= 3.402823466e38f;
}

#endif
