// sum/interleaved: a tree in shared memory, neighbours first; each warp keeps a few lanes busy.
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
// shared load scratch 6175 requests
// teaches   At step 16 one lane of a warp works and 31 wait, and all warps take part in all eight steps:
//           compare the requests to shared memory with those of sum/sequential. The first kernel leaves a
//           value for each THREADS elements, the second is one block, which for 2^28 elements reads a
//           million of them alone: another reason why this is slow.
// source    Harris, "Optimizing Parallel Reduction in CUDA", kernel 1

#include "fold.cuh"

#ifndef THREADS
#define THREADS 256
#endif
static_assert(THREADS >= 32 && THREADS <= 1024 && (THREADS & (THREADS - 1)) == 0,
              "sum/interleaved: THREADS must be a power of two from 32 to 1024, the tree halves it");

// Neighbours first: step 1, 2, 4. Threads that work lie 2 * step apart, so every warp stays
// busy to the end, with ever fewer lanes.
// The last argument only tells the elements: each has a function of its own.
__device__ __forceinline__ void interleaved_tree(float (&scratch)[THREADS], const element_t*) {
    const int t = threadIdx.x;
#pragma unroll 1
    for (int step = 1; step < THREADS; step *= 2) {
        if (t % (2 * step) == 0) {
            const float left = scratch[t];
            const float right = scratch[t + step];
            const float merged = left + right;
            scratch[t] = merged;
        }
        __syncthreads();
    }
}

extern "C" __global__ void sum_interleaved_blocks(const element_t* __restrict__ x,
                                                  float* __restrict__ partials, long long n) {
    __shared__ float scratch[THREADS];
    const long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    float mine = 0.0f;
    if (i < n) {
        const element_t value = x[i];
        mine = to_float(value);
    }
    const int t = threadIdx.x;
    scratch[t] = mine;
    __syncthreads();

    interleaved_tree(scratch, x);
    if (t == 0) {
        const float total = scratch[0];
        partials[blockIdx.x] = total;
    }
}

extern "C" __global__ void sum_interleaved_rest(const float* __restrict__ partials, element_t* __restrict__ y,
                                                long long blocks) {
    __shared__ float scratch[THREADS];
    const float mine = fold_partials<Sum, THREADS>(0, blocks, partials);
    const int t = threadIdx.x;
    scratch[t] = mine;
    __syncthreads();

    interleaved_tree(scratch, y);
    if (t == 0) {
        const float total = scratch[0];
        y[0] = from_float<element_t>(total);
    }
}
