// global_norm/multi: the root of the sum of all squares of many tensors, in two launches.
//
// computes  norm[0] = sqrt of the sum of x[i] * x[i] over all tensors
// mapping   a block -> ROUNDS times VECTORS times as many vectors of 16 bytes as threads, of the tensor that it
//           finds in the table, and what is left of it; then one block -> all partial sums
// load x 16 sectors/request
// store norm 1 sectors/request
// load partials 1 sectors/request
// store partials 1 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   Each block leaves its sum at a place of its own and one block adds them in a fixed order: the same
//           bits in every run, and no tensor is too small to share a launch with others.
// source    PyTorch's clip_grad_norm_ over multi_tensor_apply, written anew

#include "reduce.cuh"
#include "tensors.cuh"

#ifndef THREADS
#define THREADS 256
#endif
#ifndef VECTORS
#define VECTORS 4
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
    constexpr int EACH = LANES(wide16_t), SHARE = THREADS * VECTORS * ROUNDS;
    __shared__ float scratch[32];
    const unsigned k = tensor_of(tensors, blockIdx.x);
    const element_t* const x = static_cast<const element_t*>(tensors.address[0][k]);
    const bool is_wide = are_wide(tensors, k);
    const long long n = tensors.length[k], whole = is_wide ? n / EACH : 0;
    const long long share = (long long)(blockIdx.x - tensors.first_block[k]) * SHARE;
    float mine = 0.0f;

    // Vectors: all loads of a round first, then the sums.
#pragma unroll 1
    for (int round = 0; round < ROUNDS; ++round) {
        const long long first = share + round * (THREADS * VECTORS) + threadIdx.x;
        wide16_t loaded[VECTORS];
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) {
            const long long i = first + v * THREADS;
            if (i < whole) {
                loaded[v] = reinterpret_cast<const wide16_t*>(x)[i];
            }
        }
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) {
            const long long i = first + v * THREADS;
            if (i < whole) {
                float value[EACH];
                unpack<element_t>(loaded[v], value);
#pragma unroll
                for (int j = 0; j < EACH; ++j) {
                    mine += value[j] * value[j];
                }
            }
        }
    }

    // What is left: less than a vector, or the block's whole share.
    const long long begin = is_wide ? whole * EACH + share : share * EACH;
    const long long end = is_wide ? n : min(n, begin + SHARE * EACH);
#pragma unroll 1
    for (long long i = begin + threadIdx.x; i < end; i += THREADS) {
        const element_t element = x[i];
        mine += to_float(element) * to_float(element);
    }

    mine = block_fold<Sum, THREADS>(mine, scratch);
    if (threadIdx.x == 0) {
        partials[(long long)tensors.blocks_before + blockIdx.x] = mine;
    }
}

extern "C" __global__ __launch_bounds__(THREADS) void global_norm_multi_root(
    const float* __restrict__ partials, float* __restrict__ norm, long long blocks) {
    __shared__ float scratch[32];
    float mine = 0.0f;
#pragma unroll 1
    for (long long i = threadIdx.x; i < blocks; i += THREADS) {
        const float partial = partials[i];
        mine += partial;
    }
    mine = block_fold<Sum, THREADS>(mine, scratch);
    if (threadIdx.x == 0) {
        norm[0] = sqrtf(mine);
    }
}
