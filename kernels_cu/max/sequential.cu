// max/sequential: the tree turned round: the first threads work, so whole warps drop out.
//
// computes  y[0] = the largest of x, NaN if there is one
// mapping   blocks: thread i of the grid -> element i, a block -> one partial value; rest: one block -> all
//           of them
// load x 4 sectors/request
// store y 1 sectors/request
// load partials 4 sectors/request
// store partials 1 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// shared load scratch 1625 requests
// teaches   The first threads keep the work: a warp either works with all its lanes or not at all, until one
//           is left. Loads and barriers are what is left; see max/shuffle.
// source    Harris, "Optimizing Parallel Reduction in CUDA", kernel 3

#include "fold.cuh"

#ifndef THREADS
#define THREADS 256
#endif
static_assert(THREADS >= 32 && THREADS <= 1024 && (THREADS & (THREADS - 1)) == 0,
              "max/sequential: THREADS must be a power of two from 32 to 1024, the tree halves it");

extern "C" __global__ void max_sequential_blocks(const element_t* __restrict__ x,
                                                 float* __restrict__ partials, long long n) {
    __shared__ float scratch[THREADS];
    const long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    float mine = Max::none();
    if (i < n) {
        const element_t element = x[i];
        mine = to_float(element);
    }
    tree_fold<Max, THREADS>(mine, scratch);
    if (threadIdx.x == 0) {
        partials[blockIdx.x] = scratch[0];
    }
}

extern "C" __global__ void max_sequential_rest(const float* __restrict__ partials, element_t* __restrict__ y,
                                               long long blocks) {
    __shared__ float scratch[THREADS];
    const float mine = fold_partials<Max, THREADS>(0, blocks, partials);
    tree_fold<Max, THREADS>(mine, scratch);
    if (threadIdx.x == 0) {
        const float answer = scratch[0];
        y[0] = from_float<element_t>(answer);
    }
}
