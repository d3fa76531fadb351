// cumsum/blelloch: up a tree and down again: the fewest additions, twice the steps.
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
// shared load scratch 3704 requests
// teaches   Each level of the tree halves the lanes that work, so most of a block idles in most steps, and a
//           barrier follows each: compare the requests with those of cumsum/hillis_steele. The tree's
//           strides are powers of two, which without padding would be conflicts up to 16-way.
// source    Blelloch, "Prefix Sums and Their Applications"; GPU Gems 3, chapter 39

#include "scan.cuh"

#ifndef THREADS
#define THREADS 256
#endif
static_assert(THREADS >= 32 && THREADS <= 1024 && (THREADS & (THREADS - 1)) == 0,
              "cumsum/blelloch: THREADS must be a power of two from 32 to 1024, the steps double");

extern "C" __global__ void cumsum_blelloch_totals(const element_t* __restrict__ x,
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
extern "C" __global__ void cumsum_blelloch_offsets(const float* __restrict__ partials,
                                                   float* __restrict__ offsets, long long blocks) {
    __shared__ float scratch[THREADS + THREADS / 32];
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
        const float before = blelloch<THREADS>(mine, scratch);
        if (i < blocks) {
            offsets[i] = carry + before;
        }
        if (threadIdx.x == THREADS - 1) {
            next = carry + (before + mine);
        }
        __syncthreads();
        carry = next;
        __syncthreads();
    }
}

extern "C" __global__ void cumsum_blelloch_blocks(const element_t* __restrict__ x,
                                                  const float* __restrict__ offsets,
                                                  element_t* __restrict__ y, int exclusive, long long n) {
    __shared__ float scratch[THREADS + THREADS / 32];
    const long long block = blockIdx.x, i = block * THREADS + threadIdx.x;
    float mine = 0.0f;
    if (i < n) {
        const element_t value = x[i];
        mine = to_float(value);
    }
    const float before = blelloch<THREADS>(mine, scratch);
    const float answer = exclusive ? before : before + mine;
    if (i < n) {
        const float offset = offsets[block];
        y[i] = from_float<element_t>(offset + answer);
    }
}
