// histogram/aggregated: lanes with the same byte find each other, and one of them adds for all.
//
// computes  counts[b] = how many x[i] equal b
// mapping   thread t of the grid -> bytes t, t + threads, ...; whole warps take part in each step
// load x 1 sectors/request
// atomic counts 7.87 sectors/request
// shared atomic scratch 3.14 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   A match gives every lane the mask of the lanes that hold its value: the first adds their number.
//           Equal bytes cost one addition a warp and not 32, but the match itself costs more than the few
//           collisions of random bytes: compare with histogram/lanes, which needs no luck with the data.
// source    NVIDIA technical blog, "CUDA Pro Tip: Optimized Filtering with Warp-Aggregated Atomics"

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
static_assert(BINS == 256, "histogram/aggregated: a byte has 256 values, so BINS must be 256");
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "histogram/aggregated: THREADS must be whole warps");
static_assert(BLOCKS >= 1, "histogram/aggregated: BLOCKS counts the blocks of a multiprocessor");

extern "C" __global__ __launch_bounds__(THREADS) void histogram_aggregated(
    const unsigned char* __restrict__ x, long long* __restrict__ counts, long long n) {
    __shared__ unsigned scratch[BINS];
    clear_counts<THREADS>(scratch, BINS);
    __syncthreads();
    const long long step = (long long)gridDim.x * THREADS;
    const int lane = threadIdx.x % 32;
#pragma unroll 1
    for (long long first = (long long)blockIdx.x * THREADS + threadIdx.x - lane; first < n; first += step) {
        const bool is_inside = first + lane < n;
        const unsigned inside = __ballot_sync(0xffffffffu, is_inside);
        if (is_inside) {
            const unsigned bin = x[first + lane];
            const unsigned same = __match_any_sync(inside, bin);
            if (__ffs(same) - 1 == lane) {
                atomicAdd(scratch + bin, (unsigned)__popc(same));
            }
        }
    }
    __syncthreads();
    add_counts<THREADS>(counts, BINS, [=](int bin) { return scratch[bin]; });
}
