// sum/shuffle: lanes ask each other; shared memory holds one value a warp.
//
// computes  y[0] = the sum of x
// mapping   blocks: thread i of the grid -> element i, a block -> one partial value; rest: one block -> all
//           of them
// load x 4 sectors/request
// store y 1 sectors/request
// load partials 4 sectors/request
// store partials 1 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// shared load scratch 65 requests
// teaches   A shuffle moves a register to another lane without memory or barrier: five of them replace five
//           steps of the tree. Two barriers a block are left, and 8 words of shared memory.
// source    NVIDIA technical blog, "Faster Parallel Reductions on Kepler"

#include "fold.cuh"

#ifndef THREADS
#define THREADS 256
#endif
static_assert(THREADS >= 32 && THREADS <= 1024 && (THREADS & (THREADS - 1)) == 0,
              "sum/shuffle: THREADS must be a power of two from 32 to 1024, the tree halves it");

extern "C" __global__ void sum_shuffle_blocks(const element_t* __restrict__ x, float* __restrict__ partials,
                                              long long n) {
    __shared__ float scratch[32];
    const long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    float mine = 0.0f;
    if (i < n) {
        const element_t value = x[i];
        mine = to_float(value);
    }
    mine = block_fold<Sum, THREADS>(mine, scratch);
    if (threadIdx.x == 0) {
        partials[blockIdx.x] = mine;
    }
}

extern "C" __global__ void sum_shuffle_rest(const float* __restrict__ partials, element_t* __restrict__ y,
                                            long long blocks) {
    __shared__ float scratch[32];
    float mine = fold_partials<Sum, THREADS>(0, blocks, partials);
    mine = block_fold<Sum, THREADS>(mine, scratch);
    if (threadIdx.x == 0) {
        y[0] = from_float<element_t>(mine);
    }
}
