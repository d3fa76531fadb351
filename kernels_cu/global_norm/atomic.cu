// global_norm/atomic: a launch for each tensor, one element a thread, blocks that add to one number.
//
// computes  norm[0] = sqrt of the sum of x[i] * x[i] over all tensors
// mapping   thread i of the grid -> element i of a tensor; a block -> one addition; at the end one thread
// load x 4 sectors/request
// store norm 1 sectors/request
// atomic total 1 sectors/request
// load total 1 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   Blocks add in the order in which they end, which differs from run to run, and so do the last bits.
// source    the textbook way

#include "reduce.cuh"

#ifndef THREADS
#define THREADS 256
#endif
static_assert(THREADS >= 32 && THREADS <= 1024 && THREADS % 32 == 0,
              "global_norm/atomic: THREADS must be whole warps, at most 1024");

extern "C" __global__ __launch_bounds__(THREADS) void global_norm_atomic_add(const element_t* __restrict__ x,
                                                                             float* __restrict__ total,
                                                                             long long n) {
    __shared__ float scratch[32];
    const long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    float mine = 0.0f;
    if (i < n) {
        const element_t element = x[i];
        mine = to_float(element) * to_float(element);
    }
    mine = block_fold<Sum, THREADS>(mine, scratch);
    if (threadIdx.x == 0) {
        atomicAdd(total, mine);
    }
}

extern "C" __global__ void global_norm_atomic_root(const float* __restrict__ total,
                                                   float* __restrict__ norm) {
    if (threadIdx.x == 0) {
        const float sum = total[0];
        norm[0] = sqrtf(sum);
    }
}
