// histogram/warps: a copy of the counts for each warp, sixteen bytes a load.
//
// computes  counts[b] = how many x[i] equal b
// mapping   block b -> tiles b, b + blocks, ... of THREADS * VECTORS vectors of 16 bytes; a warp -> its own
//           256 counts
// load x 16 sectors/request
// atomic counts 8 sectors/request
// shared atomic own 3.13 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   Warps no longer meet in one word, and a sixteenth of the loads is left. Lanes of one warp still
//           meet in banks: random bytes cost 3 or 4 wavefronts a request, equal bytes one.
// source    CUDA samples, "histogram256"

#include "counts.cuh"

#ifndef BINS
#define BINS 256
#endif
#ifndef THREADS
#define THREADS 256
#endif
#ifndef BLOCKS
#define BLOCKS 8
#endif
#ifndef VECTORS
#define VECTORS 2
#endif
static_assert(VECTORS >= 1 && VECTORS <= 8,
              "histogram/warps: VECTORS must be 1 to 8, they live in registers");
static_assert(BINS == 256, "histogram/warps: a byte has 256 values, so BINS must be 256");
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "histogram/warps: THREADS must be whole warps");
static_assert(BLOCKS >= 1, "histogram/warps: BLOCKS counts the blocks of a multiprocessor");

extern "C" __global__ __launch_bounds__(THREADS) void histogram_warps(const unsigned char* __restrict__ x,
                                                                      long long* __restrict__ counts,
                                                                      long long n) {
    __shared__ unsigned scratch[BINS * (THREADS / 32)];
    clear_counts<THREADS>(scratch, BINS * (THREADS / 32));
    __syncthreads();
    unsigned* const own = scratch + threadIdx.x / 32 * BINS;

    // Sixteen bytes a load, all loads of a tile first.
    for_bytes<THREADS, VECTORS>(x, n, [=](unsigned bin) { atomicAdd(own + bin, 1u); });
    __syncthreads();

    // One thread a bin adds up the copies.
    add_counts<THREADS>(counts, BINS,
                        [=](int bin) { return sum_of_copies<THREADS / 32, BINS>(scratch, bin); });
}
