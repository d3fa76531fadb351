// histogram/shared: a block counts in shared memory and adds its counts to the whole once.
//
// computes  counts[b] = how many x[i] equal b
// mapping   thread t of the grid -> bytes t, t + threads, ...
// load x 1 sectors/request
// atomic counts 7.87 sectors/request
// shared atomic scratch 3.14 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   Blocks no longer wait for each other, and 256 additions a block reach L2 instead of one a byte.
//           Within a warp, lanes that want different bins of one bank go one after the other: 3 or 4 deep
//           for random bytes. Those that want one bin are counted at once: adding 1 is an instruction of its own.
// source    NVIDIA technical blog, "GPU Pro Tip: Fast Histograms Using Shared Atomics on Maxwell"

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
static_assert(BINS == 256, "histogram/shared: a byte has 256 values, so BINS must be 256");
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "histogram/shared: THREADS must be whole warps");
static_assert(BLOCKS >= 1, "histogram/shared: BLOCKS counts the blocks of a multiprocessor");

extern "C" __global__ __launch_bounds__(THREADS) void histogram_shared(const unsigned char* __restrict__ x,
                                                                       long long* __restrict__ counts,
                                                                       long long n) {
    __shared__ unsigned scratch[BINS];
    clear_counts<THREADS>(scratch, BINS);
    __syncthreads();
    const long long step = (long long)gridDim.x * THREADS;
#pragma unroll 1
    for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < n; i += step) {
        const unsigned bin = x[i];
        atomicAdd(scratch + bin, 1u);
    }
    __syncthreads();
    add_counts<THREADS>(counts, BINS, [=](int bin) { return scratch[bin]; });
}
