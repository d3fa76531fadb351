// global_norm/vectorised: a launch for each tensor, 16 bytes a load; each block keeps a sum of its own.
//
// computes  norm[0] = sqrt of the sum of x[i] * x[i] over all tensors
// mapping   block b of at most BLOCKS -> shares b, b + blocks, ... of a tensor, each VECTORS vectors a thread; then
//           one block -> all partial sums
// load x 16 sectors/request
// store norm 1 sectors/request
// load partials 3.67 sectors/request
// store partials 1 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   Launches of one stream follow each other, so a block may add to what the block of its number left
//           before: no atomics, and the same bits in every run.
// source    CUDA samples, "reduction"

#include "fold.cuh"
#include "gradients.cuh"

#ifndef THREADS
#define THREADS 256
#endif
#ifndef VECTORS
#define VECTORS 4
#endif
#ifndef BLOCKS
#define BLOCKS 1024
#endif
static_assert(THREADS >= 32 && THREADS <= 1024 && THREADS % 32 == 0,
              "global_norm/vectorised: THREADS must be whole warps, at most 1024");
static_assert(VECTORS >= 1 && VECTORS <= 16,
              "global_norm/vectorised: VECTORS must be 1 to 16, they live in registers");
static_assert(BLOCKS >= 1, "global_norm/vectorised: BLOCKS counts partial sums, it must be at least 1");

extern "C" __global__ __launch_bounds__(THREADS) void global_norm_vectorised_add(
    const element_t* __restrict__ x, float* __restrict__ partials, long long n) {
    __shared__ float scratch[32];
    const long long shares =
        (n + THREADS * VECTORS * LANES(wide16_t) - 1) / (THREADS * VECTORS * LANES(wide16_t));
    float mine = 0.0f;
#pragma unroll 1
    for (long long share = blockIdx.x; share < shares; share += gridDim.x) {
        mine += squares_of_share<wide16_t, THREADS, VECTORS, 1>(x, n, true, share);
    }
    mine = block_fold<Sum, THREADS>(mine, scratch);
    if (threadIdx.x == 0) {
        const unsigned b = blockIdx.x;
        const float before = partials[b];
        partials[b] = before + mine;
    }
}

extern "C" __global__ __launch_bounds__(THREADS) void global_norm_vectorised_root(
    const float* __restrict__ partials, float* __restrict__ norm) {
    __shared__ float scratch[32];
    float mine = fold_partials<Sum, THREADS>(0, BLOCKS, partials);
    mine = block_fold<Sum, THREADS>(mine, scratch);
    if (threadIdx.x == 0) {
        norm[0] = sqrtf(mine);
    }
}
