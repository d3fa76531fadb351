// cumsum/hillis_steele: every thread adds in every step: the fewest steps, the most additions.
//
// computes  y[i] = x[0] + ... + x[i], or without x[i] where `exclusive` is 1
// mapping   totals: a block -> the sum of THREADS elements; offsets: one block -> the scan of all sums;
//           blocks: a block -> THREADS elements again, with what comes before them
// load x 4 sectors/request
// store y 4 sectors/request
// load partials 4 sectors/request
// store partials 1 sectors/request
// load offsets 1 sectors/request
// store offsets 4 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// shared load scratch 7937 requests
// teaches   256 elements take 8 steps and 8 x 256 additions, where 255 would do; but a step is one add, one
//           barrier, and lanes read neighbouring words. The array is read twice and written once: sums of
//           blocks first, then each block again with what comes before it. See cumsum/lookback for one pass.
// source    Hillis and Steele, "Data Parallel Algorithms"

#include "scan.cuh"

#ifndef THREADS
#define THREADS 256
#endif
static_assert(THREADS >= 32 && THREADS <= 1024 && (THREADS & (THREADS - 1)) == 0,
              "cumsum/hillis_steele: THREADS must be a power of two from 32 to 1024, the steps double");

extern "C" __global__ void cumsum_hillis_steele_totals(const element_t* __restrict__ x,
                                                       float* __restrict__ partials, long long n) {
    __shared__ float sums[32];
    const long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    float mine = 0.0f;
    if (i < n) {
        const element_t value = x[i];
        mine = to_float(value);
    }
    mine = block_fold<Sum, THREADS>(mine, sums);
    if (threadIdx.x == 0) {
        partials[blockIdx.x] = mine;
    }
}

// One block walks over all sums, THREADS at a time, and carries the sum so far along.
extern "C" __global__ void cumsum_hillis_steele_offsets(const float* __restrict__ partials,
                                                        float* __restrict__ offsets, long long blocks) {
    __shared__ float scratch[2][THREADS];
    __shared__ float next;
    float carry = 0.0f;
#pragma unroll 1
    for (long long start = 0; start < blocks; start += THREADS) {
        const long long i = start + threadIdx.x;
        float mine = 0.0f;
        if (i < blocks) {
            const float partial = partials[i];
            mine = partial;
        }
        const float sum = hillis_steele<THREADS>(mine, scratch);
        __syncthreads();
        scratch[0][threadIdx.x] = sum;
        __syncthreads();
        float before = 0.0f;
        if (threadIdx.x > 0) {
            before = scratch[0][threadIdx.x - 1];
        }
        if (i < blocks) {
            offsets[i] = carry + before;
        }
        if (threadIdx.x == THREADS - 1) {
            next = carry + sum;
        }
        __syncthreads();
        carry = next;
        __syncthreads();
    }
}

extern "C" __global__ void cumsum_hillis_steele_blocks(const element_t* __restrict__ x,
                                                       const float* __restrict__ offsets,
                                                       element_t* __restrict__ y, int exclusive,
                                                       long long n) {
    __shared__ float scratch[2][THREADS];
    const long long block = blockIdx.x, i = block * THREADS + threadIdx.x;
    float mine = 0.0f;
    if (i < n) {
        const element_t value = x[i];
        mine = to_float(value);
    }
    const float sum = hillis_steele<THREADS>(mine, scratch);
    // Exclusive is the neighbour's answer, not a difference, which would round anew.
    float answer = sum;
    if (exclusive) {
        __syncthreads();
        scratch[0][threadIdx.x] = sum;
        __syncthreads();
        answer = 0.0f;
        if (threadIdx.x > 0) {
            answer = scratch[0][threadIdx.x - 1];
        }
    }
    if (i < n) {
        const float offset = offsets[block];
        y[i] = from_float<element_t>(offset + answer);
    }
}
