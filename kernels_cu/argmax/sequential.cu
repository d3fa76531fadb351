// argmax/sequential: the tree turned round: the first threads work, so whole warps drop out.
//
// computes  y[0] = the place of the first largest of x, or of the first NaN
// mapping   blocks: thread i of the grid -> element i, a block -> one partial value; rest: one block -> all
//           of them
// load x 4 sectors/request
// store y 1 sectors/request
// load partials 4 sectors/request
// store partials 1 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// shared load scratch 1624 requests
// teaches   The first threads keep the work: a warp either works with all its lanes or not at all, until one
//           is left. Loads and barriers are what is left; see argmax/shuffle.
// source    Harris, "Optimizing Parallel Reduction in CUDA", kernel 3

#include "reduce.cuh"

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
    Best mine = no_best();
    if (i < n) {
        const element_t value = x[i];
        mine = Best{to_float(value), i};
    }
    const int t = threadIdx.x;
    scratch[t] = mine.value;
    scratch_places[t] = mine.place;
    __syncthreads();

    // The far half first: step THREADS / 2 down to 1. The first threads work, so whole warps drop out,
    // and lanes read neighbouring words.
#pragma unroll 1
    for (int step = THREADS / 2; step > 0; step /= 2) {
        if (t < step) {
            const float left_value = scratch[t];
            const long long left_place = scratch_places[t];
            const Best left = {left_value, left_place};
            const float right_value = scratch[t + step];
            const long long right_place = scratch_places[t + step];
            const Best right = {right_value, right_place};
            const Best merged = better(left, right);
            scratch[t] = merged.value;
            scratch_places[t] = merged.place;
        }
        __syncthreads();
    }
    if (t == 0) {
        const float total_value = scratch[0];
        const long long total_place = scratch_places[0];
        const Best total = {total_value, total_place};
        partials[blockIdx.x] = total.value;
        places[blockIdx.x] = total.place;
    }
}

extern "C" __global__ void argmax_sequential_rest(const float* __restrict__ partials,
                                                  const long long* __restrict__ places,
                                                  long long* __restrict__ y, long long blocks) {
    __shared__ float scratch[THREADS];
    __shared__ long long scratch_places[THREADS];
    Best mine = no_best();
#pragma unroll 1
    for (long long i = threadIdx.x; i < blocks; i += THREADS) {
        const float partial_value = partials[i];
        const long long partial_place = places[i];
        const Best partial = {partial_value, partial_place};
        mine = better(mine, partial);
    }
    const int t = threadIdx.x;
    scratch[t] = mine.value;
    scratch_places[t] = mine.place;
    __syncthreads();

    // The far half first: step THREADS / 2 down to 1. The first threads work, so whole warps drop out,
    // and lanes read neighbouring words.
#pragma unroll 1
    for (int step = THREADS / 2; step > 0; step /= 2) {
        if (t < step) {
            const float left_value = scratch[t];
            const long long left_place = scratch_places[t];
            const Best left = {left_value, left_place};
            const float right_value = scratch[t + step];
            const long long right_place = scratch_places[t + step];
            const Best right = {right_value, right_place};
            const Best merged = better(left, right);
            scratch[t] = merged.value;
            scratch_places[t] = merged.place;
        }
        __syncthreads();
    }
    if (t == 0) {
        const float total_value = scratch[0];
        const long long total_place = scratch_places[0];
        const Best total = {total_value, total_place};
        y[0] = total.place;
    }
}
