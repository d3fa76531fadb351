// argmax/vectorised: one pass, sixteen bytes a load; the last block to finish adds up.
//
// computes  y[0] = the place of the first largest of x, or of the first NaN
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
//           itself. 4 bytes an element at the speed of reading is the floor. Places cost little: a thread
//           notes at which of its visits it saw the best vector, in 32 bits, and the winner's vector alone
//           is read again to see which of its elements it was.
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
              "argmax/vectorised: THREADS must be whole warps, at most 1024");
static_assert(VECTORS >= 1 && VECTORS <= 16,
              "argmax/vectorised: VECTORS must be 1 to 16, they live in registers");
static_assert(BLOCKS >= 1, "argmax/vectorised: BLOCKS counts the blocks of a multiprocessor");

extern "C" __global__ __launch_bounds__(THREADS) void argmax_vectorised(const element_t* __restrict__ x,
                                                                        long long* __restrict__ y,
                                                                        float* partials, long long* places,
                                                                        unsigned* finished, long long n) {
    __shared__ float scratch[32];
    __shared__ long long scratch_places[32];

    // Tiles: all loads first, then the merges; over the block by shuffles.
    Best mine = fold_line<ArgMax, wide16_t, THREADS, VECTORS>(x, n, true, threadIdx.x, blockIdx.x, gridDim.x);
    mine = block_fold<ArgMax, THREADS>(mine, scratch, scratch_places);

    // The block that leaves its value last merges those of all.
    if (is_last_to_leave(mine, finished, gridDim.x, blockIdx.x, partials, places)) {
        mine = fold_partials<ArgMax, THREADS>(0, gridDim.x, partials, places);
        mine = block_fold<ArgMax, THREADS>(mine, scratch, scratch_places);
        if (threadIdx.x < 32) {
            const long long place = exact_place<LANES(wide16_t)>(x, n, mine);
            if (threadIdx.x == 0) {
                y[0] = place;
            }
        }
    }
}
