// argmax/sequential: the tree turned round: the first threads work, so whole warps drop out.
//
// computes  y[0] = the place of the first largest of x, or of the first NaN
// mapping   blocks: thread i of the grid -> element i, a block -> one partial value; rest: one block -> all
//           of them
// load x 4 sectors/request
// store y 1 sectors/request
// load partials 6 sectors/request
// store partials 1 sectors/request
// shared store scratch 1.375 wavefronts/request
// shared load scratch 1.29 wavefronts/request
// shared load scratch 3184 requests
// teaches   The first threads keep the work: a warp either works with all its lanes or not at all, until one
//           is left. Loads and barriers are what is left; see argmax/shuffle.
// source    Harris, "Optimizing Parallel Reduction in CUDA", kernel 3

#include "fold.cuh"

#ifndef THREADS
#define THREADS 256
#endif
static_assert(THREADS >= 32 && THREADS <= 1024 && (THREADS & (THREADS - 1)) == 0,
              "argmax/sequential: THREADS must be a power of two from 32 to 1024, the tree halves it");

extern "C" __global__ void argmax_sequential_blocks(const element_t* __restrict__ x,
                                                    float* __restrict__ partials,
                                                    long long* __restrict__ places, long long n) {
    __shared__ float scratch[THREADS];
    __shared__ long long scratch_places[THREADS];
    const long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    Best mine = ArgMax::none();
    if (i < n) {
        const element_t element = x[i];
        mine = Best{to_float(element), i};
    }
    tree_fold<ArgMax, THREADS>(mine, scratch, scratch_places);
    if (threadIdx.x == 0) {
        partials[blockIdx.x] = scratch[0];
        places[blockIdx.x] = scratch_places[0];
    }
}

extern "C" __global__ void argmax_sequential_rest(const float* __restrict__ partials,
                                                  const long long* __restrict__ places,
                                                  long long* __restrict__ y, long long blocks) {
    __shared__ float scratch[THREADS];
    __shared__ long long scratch_places[THREADS];
    const Best mine = fold_partials<ArgMax, THREADS>(0, blocks, partials, places);
    tree_fold<ArgMax, THREADS>(mine, scratch, scratch_places);
    if (threadIdx.x == 0) {
        y[0] = scratch_places[0];
    }
}
