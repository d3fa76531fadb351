// global_norm/multi: the root of the sum of all squares of many tensors, in two launches.
//
// computes  norm[0] = sqrt of the sum of x[i] * x[i] over all tensors
// mapping   a block -> ROUNDS times VECTORS times as many vectors of 16 bytes as threads, of the tensor that it
//           finds in the table, and its part of what no vector holds; then one block -> all partial sums
// load x 16 sectors/request
// store norm 1 sectors/request
// load partials 1 sectors/request
// store partials 1 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   Each block leaves its sum at a place of its own and one block adds them in a fixed order: the same
//           bits in every run, and no tensor is too small to share a launch with others.
// source    PyTorch's clip_grad_norm_ over multi_tensor_apply, written anew

#include "fold.cuh"
#include "gradients.cuh"
#include "tensors.cuh"

#ifndef THREADS
#define THREADS 512
#endif
#ifndef VECTORS
#define VECTORS 8
#endif
#ifndef ROUNDS
#define ROUNDS 4
#endif
#ifndef TENSORS
#define TENSORS 64
#endif
static_assert(THREADS >= 32 && THREADS <= 1024 && THREADS % 32 == 0,
              "global_norm/multi: THREADS must be whole warps, at most 1024");
static_assert(VECTORS >= 1 && VECTORS <= 16,
              "global_norm/multi: VECTORS must be 1 to 16, they live in registers");
static_assert(ROUNDS >= 1, "global_norm/multi: ROUNDS must be at least 1");
static_assert(TENSORS >= 1 && sizeof(tensors1_t) <= 32764,
              "global_norm/multi: TENSORS is too large, arguments have 32764 bytes at most");

extern "C" __global__ __launch_bounds__(THREADS) void global_norm_multi_add(
    const __grid_constant__ tensors1_t tensors, float* __restrict__ partials) {
    __shared__ float scratch[32];
    const unsigned k = tensor_of(tensors, blockIdx.x);
    const element_t* const x = static_cast<const element_t*>(tensors.address[0][k]);
    const unsigned block = blockIdx.x - tensors.first_block[k];
    float mine = squares_of_share<wide16_t, THREADS, VECTORS, ROUNDS>(x, tensors.length[k],
                                                                      are_wide(tensors, k), block);
    mine = block_fold<Sum, THREADS>(mine, scratch);
    if (threadIdx.x == 0) {
        partials[(long long)tensors.blocks_before + blockIdx.x] = mine;
    }
}

extern "C" __global__ __launch_bounds__(THREADS) void global_norm_multi_root(
    const float* __restrict__ partials, float* __restrict__ norm, long long blocks) {
    __shared__ float scratch[32];
    float mine = fold_partials<Sum, THREADS>(0, blocks, partials);
    mine = block_fold<Sum, THREADS>(mine, scratch);
    if (threadIdx.x == 0) {
        norm[0] = sqrtf(mine);
    }
}
