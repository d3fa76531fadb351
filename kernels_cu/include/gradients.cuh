// Gradients: what they are multiplied by, whether all of them are finite, and a block's share of a tensor of them.
#ifndef KERNELLAB_GRADIENTS_CUH
#define KERNELLAB_GRADIENTS_CUH

#include "element.cuh"

// The scale taken out, and what clips them to a global norm: `norm` is that of the gradients as they are, with
// the scale in. NaN stays NaN, so that a broken norm is seen. The quick division has no branch, so loads that come
// after it do not wait for it.
__device__ __forceinline__ float gradient_factor(float inv_scale, float norm, float max_norm) {
    const float share = __fdividef(max_norm, norm * inv_scale + 1e-6f);
    return inv_scale * (share >= 1.0f ? 1.0f : share);
}

__device__ __forceinline__ bool is_finite(float value) {
    return fabsf(value) <= 3.402823466e38f;
}

// Elements [begin, end) of a tensor that no vector holds, for block `block` of those that work on it: less than a
// vector at its end, or, where it does not start at 16 bytes, the block's whole share of `share` elements.
struct Rest {
    long long begin, end;
    __device__ __forceinline__ Rest(bool is_wide, long long n, int each, long long block, long long share)
        : begin(is_wide ? n / each * each + block * share : block * share),
          end(is_wide || begin + share > n ? n : begin + share) {
    }
};

// The vectors of x of a thread from number `first` on, `threads` apart: all loads first, then body(i, value) with the
// number and the elements of each.
template <class V, int threads, int vectors, class T, class Body>
__device__ __forceinline__ void for_vectors(const T* x, long long first, long long whole, Body body) {
    constexpr int EACH = sizeof(V) / sizeof(T);
    V loaded[vectors];
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
        const long long i = first + v * threads;
        if (i < whole) {
            loaded[v] = reinterpret_cast<const V*>(x)[i];
        }
    }
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
        const long long i = first + v * threads;
        if (i < whole) {
            float value[EACH];
            unpack<T>(loaded[v], value);
            body(i, value);
        }
    }
}

// Multiplies a block's share of x, `vectors` vectors of type V a thread; says whether all of it was finite. Where x
// is to be kept it is only looked at.
template <class V, int threads, int vectors, bool keeps, class T>
__device__ __forceinline__ bool unscale_share(T* x, long long n, bool is_wide, long long block,
                                              float factor) {
    constexpr int EACH = sizeof(V) / sizeof(T);
    const long long whole = is_wide ? n / EACH : 0;
    const long long first = block * (threads * vectors) + threadIdx.x;
    bool is_right = true;
    for_vectors<V, threads, vectors>(x, first, whole, [&](long long i, float* value) {
#pragma unroll
        for (int j = 0; j < EACH; ++j) {
            is_right &= is_finite(value[j]);
            value[j] *= factor;
        }
        if constexpr (!keeps) {
            reinterpret_cast<V*>(x)[i] = pack<V, T>(value);
        }
    });
    const Rest rest(is_wide, n, EACH, block, threads * vectors * EACH);
#pragma unroll 1
    for (long long i = rest.begin + threadIdx.x; i < rest.end; i += threads) {
        const T element = x[i];
        is_right &= is_finite(to_float(element));
        if constexpr (!keeps) {
            x[i] = from_float<T>(to_float(element) * factor);
        }
    }
    return is_right;
}

// The sum of squares of a thread's part of a block's share of x: `rounds` times `vectors` vectors of type V, then
// what no vector holds.
template <class V, int threads, int vectors, int rounds, class T>
__device__ __forceinline__ float squares_of_share(const T* x, long long n, bool is_wide, long long block) {
    constexpr int EACH = sizeof(V) / sizeof(T), SHARE = threads * vectors * rounds;
    const long long whole = is_wide ? n / EACH : 0;
    float mine = 0.0f;
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
        const long long first = block * SHARE + round * (threads * vectors) + threadIdx.x;
        for_vectors<V, threads, vectors>(x, first, whole, [&](long long, const float* value) {
#pragma unroll
            for (int j = 0; j < EACH; ++j) {
                mine += value[j] * value[j];
            }
        });
    }
    const Rest rest(is_wide, n, EACH, block, SHARE * EACH);
#pragma unroll 1
    for (long long i = rest.begin + threadIdx.x; i < rest.end; i += threads) {
        const T element = x[i];
        mine += to_float(element) * to_float(element);
    }
    return mine;
}

#endif
