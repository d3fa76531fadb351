// sum/sequential: the tree turned round: the first threads work, so whole warps drop out.
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
// shared load scratch 1625 requests
// teaches   The additions of sum/interleaved in another order: a warp either works with all its lanes or not
//           at all, until one is left. Loads and barriers are what is left; see sum/shuffle.
// source    Harris, "Optimizing Parallel Reduction in CUDA", kernel 3

#include "fold.cuh"

#ifndef THREADS
#define THREADS 256
#endif
static_assert(THREADS >= 32 && THREADS <= 1024 && (THREADS & (THREADS - 1)) == 0,
              "sum/sequential: THREADS must be a power of two from 32 to 1024, the tree halves it");

extern "C" __global__ void sum_sequential_blocks(const element_t* __restrict__ x,
                                                 float* __restrict__ partials, long long n) {
    __shared__ float scratch[THREADS];
    const long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    float mine = 0.0f;
    if (i < n) {
        const element_t value = x[i];
        mine = to_float(value);
    }
    tree_fold<Sum, THREADS>(mine, scratch);
    if (threadIdx.x == 0) {
        const float total = scratch[0];
        partials[blockIdx.x] = total;
    }
}

extern "C" __global__ void sum_sequential_rest(const float* __restrict__ partials, element_t* __restrict__ y,
                                               long long blocks) {
    __shared__ float scratch[THREADS];
    const float mine = fold_partials<Sum, THREADS>(0, blocks, partials);
    tree_fold<Sum, THREADS>(mine, scratch);
    if (threadIdx.x == 0) {
        const float total = scratch[0];
        y[0] = from_float<element_t>(total);
    }
}
