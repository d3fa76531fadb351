// sum/vectorised: one pass, sixteen bytes a load; the last block to finish adds up.
//
// computes  y[0] = the sum of x
// mapping   block b -> tiles b, b + blocks, ... of THREADS * VECTORS vectors of 16 bytes; the last block ->
//           all partial values
// load x 16 sectors/request
// store y 1 sectors/request
// load partials 1 sectors/request
// store partials 1 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   The memory is the limit, so what counts is bytes in flight: VECTORS loads of 16 bytes a thread
//           before the first addition, and a grid of BLOCKS blocks for each multiprocessor. No second
//           launch: blocks leave a value each, and the one that finds the counter full reads them all, in a
//           fixed order, so the answer is the same in every run. atomicInc sets the counter back to 0 by
//           itself. 4 bytes an element at the speed of reading is the floor.
// source    CUDA samples, "threadFenceReduction"

#include "fold.cuh"

#ifndef THREADS
#define THREADS 512
#endif
#ifndef VECTORS
#define VECTORS 4
#endif
#ifndef BLOCKS
#define BLOCKS 4
#endif
static_assert(THREADS >= 32 && THREADS <= 1024 && THREADS % 32 == 0,
              "sum/vectorised: THREADS must be whole warps, at most 1024");
static_assert(VECTORS >= 1 && VECTORS <= 16,
              "sum/vectorised: VECTORS must be 1 to 16, they live in registers");
static_assert(BLOCKS >= 1, "sum/vectorised: BLOCKS counts the blocks of a multiprocessor");

extern "C" __global__ __launch_bounds__(THREADS) void sum_vectorised(const element_t* __restrict__ x,
                                                                     element_t* __restrict__ y,
                                                                     float* partials, unsigned* finished,
                                                                     long long n) {
    constexpr int EACH = LANES(wide16_t);
    __shared__ float scratch[32];
    const unsigned blocks = gridDim.x;
    const long long whole = n / EACH;
    float mine = 0.0f;

    // Tiles: all loads first, then the merges.
#pragma unroll 1
    for (long long start = (long long)blockIdx.x * (THREADS * VECTORS); start < whole;
         start += (long long)blocks * (THREADS * VECTORS)) {
        wide16_t loaded[VECTORS];
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) {
            const long long i = start + v * THREADS + threadIdx.x;
            if (i < whole) {
                loaded[v] = reinterpret_cast<const wide16_t*>(x)[i];
            }
        }
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) {
            const long long i = start + v * THREADS + threadIdx.x;
            if (i < whole) {
                float value[EACH];
                unpack<element_t>(loaded[v], value);
#pragma unroll
                for (int k = 0; k < EACH; ++k) {
                    mine += value[k];
                }
            }
        }
    }
    const long long last = whole * EACH + (long long)blockIdx.x * THREADS + threadIdx.x;
    if (last < n) {
        const element_t value = x[last];
        mine += to_float(value);
    }
    mine = block_fold<Sum, THREADS>(mine, scratch);

    // The block that leaves its value last merges those of all.
    if (is_last_to_leave(mine, finished, blocks, blockIdx.x, partials)) {
        mine = fold_partials<Sum, THREADS>(0, blocks, partials);
        mine = block_fold<Sum, THREADS>(mine, scratch);
        if (threadIdx.x == 0) {
            y[0] = from_float<element_t>(mine);
        }
    }
}
