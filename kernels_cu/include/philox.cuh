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

// Elements whose sixteen bits are under round(65536 p) are dropped, the others scaled so that the mean stays.
struct Dropout {
    unsigned least;  // the smallest sixteen bits that are kept, in the upper half of a word
    bool is_all;
    float scale;
    unsigned long long seed;
    __device__ __forceinline__ Dropout(float p, unsigned long long from) : seed(from) {
        const unsigned threshold = (unsigned)rintf(p * 65536.0f);
        least = threshold << 16, is_all = threshold > 0xffffu;
        scale = p < 1.0f ? 1.0f / (1.0f - p) : 0.0f;
    }
    // Half 0 or 1 of a word decides. The upper one is compared where it is, whatever is below it.
    __device__ __forceinline__ float keep(float value, unsigned word, int half) const {
        return is_all || (half ? word : word << 16) < least ? 0.0f : value;
    }
};

// One element at a time, where there are no whole vectors: called and not inlined, for there are many.
__device__ __noinline__ float drop_one(Dropout dropout, float value, unsigned long long i) {
    const uint4 bits = philox(i / 8, dropout.seed);
    const unsigned low = i & 2 ? bits.y : bits.x, high = i & 2 ? bits.w : bits.z;
    return dropout.keep(value, i & 4 ? high : low, i & 1);
}

// What is dropped of a share, of which the row, or the stretch of it, begins with element number `first` of the
// array. Nothing is scaled here.
template <class S>
__device__ __forceinline__ void drop(Dropout dropout, unsigned long long first, S share, float* value) {
#pragma unroll
    for (int s = 0; s < S::STEPS; ++s) {
        const unsigned long long start = first + share.at(s) * S::PIECE;
        if constexpr (S::is_aligned) {
            const uint4 bits = philox(start / 8, dropout.seed);
            const bool is_upper = S::EACH == 4 && start % 8 == 4;
            const unsigned word[4] = {is_upper ? bits.z : bits.x, is_upper ? bits.w : bits.y, bits.z, bits.w};
#pragma unroll
            for (int i = 0; i < S::EACH; ++i) {
                value[s * S::EACH + i] = dropout.keep(value[s * S::EACH + i], word[i / 2], i % 2);
            }
        } else {
            value[s] = drop_one(dropout, value[s], start);
        }
    }
}

#endif
