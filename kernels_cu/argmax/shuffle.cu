// argmax/shuffle: lanes ask each other; shared memory holds one value a warp.
//
// computes  y[0] = the place of the first largest of x, or of the first NaN
// mapping   blocks: thread i of the grid -> element i, a block -> one partial value; rest: one block -> all
//           of them
// load x 4 sectors/request
// store y 1 sectors/request
// load partials 6 sectors/request
// store partials 1 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// shared load scratch 130 requests
// teaches   A shuffle moves a register to another lane without memory or barrier: five of them replace five
//           steps of the tree. Two barriers a block are left, and 8 words of shared memory.
// source    NVIDIA technical blog, "Faster Parallel Reductions on Kepler"

#include "fold.cuh"

#ifndef THREADS
#define THREADS 256
#endif
static_assert(THREADS >= 32 && THREADS <= 1024 && (THREADS & (THREADS - 1)) == 0,
              "argmax/shuffle: THREADS must be a power of two from 32 to 1024, the tree halves it");

extern "C" __global__ void argmax_shuffle_blocks(const element_t* __restrict__ x,
                                                 float* __restrict__ partials, long long* __restrict__ places,
                                                 long long n) {
    __shared__ float scratch[32];
    __shared__ long long scratch_places[32];
    const long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    Best mine = ArgMax::none();
    if (i < n) {
        const element_t element = x[i];
        mine = Best{to_float(element), i};
    }
    mine = block_fold<ArgMax, THREADS>(mine, scratch, scratch_places);
    if (threadIdx.x == 0) {
        partials[blockIdx.x] = mine.value;
        places[blockIdx.x] = mine.place;
    }
}

extern "C" __global__ void argmax_shuffle_rest(const float* __restrict__ partials,
                                               const long long* __restrict__ places,
                                               long long* __restrict__ y, long long blocks) {
    __shared__ float scratch[32];
    __shared__ long long scratch_places[32];
    Best mine = fold_partials<ArgMax, THREADS>(0, blocks, partials, places);
    mine = block_fold<ArgMax, THREADS>(mine, scratch, scratch_places);
    if (threadIdx.x == 0) {
        y[0] = mine.place;
    }
}
