// Philox 4x32-10: random bits as a function of a counter and a key, with no state to carry along.
//
// Element i of an array has the 16 bits number i % 8 of counter i / 8, keyed by the seed: whoever computes it,
// in whatever launch shape or language, finds the same. Sixteen bits are enough to decide what is dropped (with
// probability p to 1 in 131072), and ten rounds then serve eight elements.
#ifndef KERNELLAB_PHILOX_CUH
#define KERNELLAB_PHILOX_CUH

#include "rows.cuh"

__device__ __forceinline__ unsigned long long product(unsigned a, unsigned b) {
    unsigned long long both;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(both) : "r"(a), "r"(b));
    return both;
}

// The bits of several counters, round by round, so that the keys of a round are made once for all of them.
template <int count>
__device__ __forceinline__ void philox(const unsigned long long* counter, unsigned long long seed,
                                       uint4* state) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
        state[i] = make_uint4((unsigned)counter[i], (unsigned)(counter[i] >> 32), 0u, 0u);
    }
    unsigned key0 = (unsigned)seed, key1 = (unsigned)(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
#pragma unroll
        for (int i = 0; i < count; ++i) {
            const unsigned long long left = product(0xD2511F53u, state[i].x);
            const unsigned long long right = product(0xCD9E8D57u, state[i].z);
            state[i] = make_uint4((unsigned)(right >> 32) ^ state[i].y ^ key0, (unsigned)right,
                                  (unsigned)(left >> 32) ^ state[i].w ^ key1, (unsigned)left);
        }
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
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
    __device__ __forceinline__ float keep(float value, unsigned word, int half, bool is_asked) const {
        return (is_asked && is_all) || (half ? word : word << 16) < least ? 0.0f : value;
    }
};

// One element at a time, where there are no whole vectors: called and not inlined, for there are many.
__device__ __noinline__ float drop_one(Dropout dropout, float value, unsigned long long i) {
    const unsigned long long counter = i / 8;
    uint4 bits;
    philox<1>(&counter, dropout.seed, &bits);
    const unsigned low = i & 2 ? bits.y : bits.x, high = i & 2 ? bits.w : bits.z;
    return dropout.keep(value, i & 4 ? high : low, i & 1, true);
}

// What is dropped of a share, of which the row, or the stretch of it, begins with element number `first` of the
// array. Nothing is scaled here.
template <class S>
__device__ __forceinline__ void drop(Dropout dropout, unsigned long long first, S share, float* value) {
    if (S::STEPS > 1 && dropout.is_all) {  // a step of its own asks below: branches keep steps apart
#pragma unroll
        for (int i = 0; i < S::ITEMS; ++i) {
            value[i] = 0.0f;
        }
    } else if constexpr (S::is_aligned) {
        unsigned long long counter[S::STEPS];
        uint4 bits[S::STEPS];
#pragma unroll
        for (int s = 0; s < S::STEPS; ++s) {
            counter[s] = (first + share.at(s) * S::PIECE) / 8;
        }
        philox<S::STEPS>(counter, dropout.seed, bits);
#pragma unroll
        for (int s = 0; s < S::STEPS; ++s) {
            const bool is_upper = S::EACH == 4 && (first + share.at(s) * S::PIECE) % 8 == 4;
            const unsigned word[4] = {is_upper ? bits[s].z : bits[s].x, is_upper ? bits[s].w : bits[s].y,
                                      bits[s].z, bits[s].w};
#pragma unroll
            for (int i = 0; i < S::EACH; ++i) {
                value[s * S::EACH + i] =
                    dropout.keep(value[s * S::EACH + i], word[i / 2], i % 2, S::STEPS == 1);
            }
        }
    } else {
#pragma unroll
        for (int s = 0; s < S::STEPS; ++s) {
            value[s] = drop_one(dropout, value[s], first + share.at(s));
        }
    }
}

#endif
