// AdamW: one step for one element, as float32, and what all elements of a step share.
#ifndef KERNELLAB_ADAMW_CUH
#define KERNELLAB_ADAMW_CUH

#include "element.cuh"
#include "gradients.cuh"
#include "tensors.cuh"

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
          pace(__fdividef(lr, bias_correction(rate1, step))),
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

// A block's share of a tensor: `vectors` quads a thread, of type Q for the gradients, then what no quad holds. `half`,
// where there is one, gets the parameters in 16 bits. `begin()` makes what all elements share and `found` says whether
// nothing is written; both are read from memory, so they come after the loads.
template <class Q, int threads, int vectors, bool has_half, class T, class H, class Begin>
__device__ __forceinline__ void adamw_share(float* param, const T* grad, float* exp_avg, float* exp_avg_sq,
                                            H* half, const float* found, long long n, bool is_wide,
                                            long long block, Begin begin) {
    constexpr int SHARE = threads * vectors;
    const long long whole = is_wide ? n / 4 : 0, first = block * SHARE + threadIdx.x;
    float4 params[vectors], means[vectors], squares[vectors];
    Q grads[vectors];
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
        const long long i = first + v * threads;
        if (i < whole) {
            grads[v] = reinterpret_cast<const Q*>(grad)[i];
            params[v] = reinterpret_cast<const float4*>(param)[i];
            means[v] = reinterpret_cast<const float4*>(exp_avg)[i];
            squares[v] = reinterpret_cast<const float4*>(exp_avg_sq)[i];
        }
    }
    const bool is_taken = found[0] == 0.0f;
    const AdamW adamw = begin();

#pragma unroll
    for (int v = 0; v < vectors; ++v) {
        const long long i = first + v * threads;
        if (i < whole && is_taken) {
            float p[4], g[4], m[4], s[4];
            unpack<float>(params[v], p), unpack<T>(grads[v], g);
            unpack<float>(means[v], m), unpack<float>(squares[v], s);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                adamw.update(p[j], g[j], m[j], s[j]);
            }
            reinterpret_cast<float4*>(param)[i] = pack<float4, float>(p);
            reinterpret_cast<float4*>(exp_avg)[i] = pack<float4, float>(m);
            reinterpret_cast<float4*>(exp_avg_sq)[i] = pack<float4, float>(s);
            if constexpr (has_half) {
                reinterpret_cast<uint2*>(half)[i] = pack<uint2, H>(p);
            }
        }
    }

    const Rest rest(is_wide, n, 4, block, 4 * SHARE);
#pragma unroll 1
    for (long long i = rest.begin + threadIdx.x; i < rest.end && is_taken; i += threads) {
        const T element = grad[i];
        float p = param[i], m = exp_avg[i], s = exp_avg_sq[i];
        adamw.update(p, to_float(element), m, s);
        param[i] = p;
        exp_avg[i] = m;
        exp_avg_sq[i] = s;
        if constexpr (has_half) {
            half[i] = from_float<H>(p);
        }
    }
}

// A block's part of the tensors in a table: parameters, gradients, both means, and where there is a fifth list the
// parameters in 16 bits, of type H.
template <class Q, int threads, int vectors, class T, class H, int LISTS, int CAPACITY, class Begin>
__device__ __forceinline__ void adamw_block(const TensorTable<LISTS, CAPACITY>& tensors, const float* found,
                                            Begin begin) {
    const unsigned k = tensor_of(tensors, blockIdx.x);
    float* const param = static_cast<float*>(tensors.address[0][k]);
    const T* const grad = static_cast<const T*>(tensors.address[1][k]);
    float* const exp_avg = static_cast<float*>(tensors.address[2][k]);
    float* const exp_avg_sq = static_cast<float*>(tensors.address[3][k]);
    H* half = nullptr;
    if constexpr (LISTS > 4) {
        half = static_cast<H*>(tensors.address[4][k]);
    }
    const unsigned block = blockIdx.x - tensors.first_block[k];
    adamw_share<Q, threads, vectors, (LISTS > 4)>(param, grad, exp_avg, exp_avg_sq, half, found,
                                                  tensors.length[k], are_wide(tensors, k), block, begin);
}

#endif
