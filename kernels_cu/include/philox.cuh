// Philox 4x32-10: random bits as a function of a counter and a key, with no state to carry along.
//
// Element i of an array has the 16 bits number i % 8 of counter i / 8, keyed by the seed: whoever computes it,
// in whatever launch shape or language, finds the same. Sixteen bits are enough to decide what is dropped (with
// probability p to 1 in 131072), and ten rounds then serve eight elements.
#ifndef KERNELLAB_PHILOX_CUH
#define KERNELLAB_PHILOX_CUH

#include "rows.cuh"

__device__ __forceinline__ uint4 philox(unsigned long long counter, unsigned long long seed) {
    uint4 state = make_uint4((unsigned)counter, (unsigned)(counter >> 32), 0u, 0u);
    unsigned key0 = (unsigned)seed, key1 = (unsigned)(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const unsigned long long left = 0xD2511F53ull * state.x, right = 0xCD9E8D57ull * state.z;
        state = make_uint4((unsigned)(right >> 32) ^ state.y ^ key0, (unsigned)right,
                           (unsigned)(left >> 32) ^ state.w ^ key1, (unsigned)left);
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return state;
}

// The sixteen bits of element i, from the bits of its counter.
__device__ __forceinline__ unsigned sixteen(uint4 bits, int i) {
    const unsigned low = i & 2 ? bits.y : bits.x, high = i & 2 ? bits.w : bits.z;
    return (i & 4 ? high : low) >> (i & 1 ? 16 : 0) & 0xffffu;
}

// Elements whose sixteen bits are under `threshold` are dropped, the others scaled so that the mean stays.
struct Dropout {
    unsigned threshold;
    float scale;
    unsigned long long seed;
    __device__ __forceinline__ Dropout(float p, unsigned long long from)
        : threshold((unsigned)rintf(p * 65536.0f)), scale(p < 1.0f ? 1.0f / (1.0f - p) : 0.0f), seed(from) {
    }
    __device__ __forceinline__ float operator()(float value, unsigned bits) const {
        return bits < threshold ? 0.0f : value * scale;
    }
    __device__ __forceinline__ float at(float value, unsigned long long i) const {
        return (*this)(value, sixteen(philox(i / 8, seed), (int)(i % 8)));
    }
};

// One element at a time, where there are no whole vectors: called and not inlined, for there are many.
__device__ __noinline__ float drop_one(Dropout dropout, float value, unsigned long long i) {
    return dropout.at(value, i);
}

// The registers' part of a row whose first element is number `first` of the array.
template <int members, int vectors, class T>
__device__ __forceinline__ void drop_row(Dropout dropout, unsigned long long first, int member,
                                         bool is_aligned, float* value) {
    constexpr int EACH = 16 / sizeof(T);
    if (is_aligned) {
#pragma unroll
        for (int v = 0; v < vectors; ++v) {
            const unsigned long long start = first + (v * members + member) * EACH;
            const uint4 bits = philox(start / 8, dropout.seed);
            const int half = EACH == 8 || start % 8 == 0 ? 0 : 4;
#pragma unroll
            for (int i = 0; i < EACH; ++i) {
                value[v * EACH + i] = dropout(value[v * EACH + i], sixteen(bits, half + i));
            }
        }
    } else {
#pragma unroll
        for (int i = 0; i < vectors * EACH; ++i) {
            value[i] = drop_one(dropout, value[i], first + i * members + member);
        }
    }
}

#endif
