// float_histogram/shared: several copies of the counts in a block's shared memory, edges beside them.
//
// computes  counts[b] = how many x[i] lie in [edges[b], edges[b + 1]), the last bin up to `top` included
// mapping   thread t of the grid -> numbers t, t + threads, ...; lane l -> copy l % COPIES
// load x 4 sectors/request
// load edges 4 sectors/request
// atomic counts 8 sectors/request
// shared atomic own 2.79 wavefronts/request
// shared load scratch 4 wavefronts/request
// teaches   Copies lie side by side, bin after bin, so lanes with one bin go to different banks: equal
//           numbers cost 32 / COPIES wavefronts. Bins times copies must fit in shared memory;
//           float_histogram/global takes any number of bins.
// source    numpy.histogram, uniform bins

#include "bins.cuh"
#include "counts.cuh"

#ifndef THREADS
#define THREADS 512
#endif
#ifndef BLOCKS
#define BLOCKS 4
#endif
#ifndef COPIES
#define COPIES 8
#endif
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "float_histogram/shared: THREADS must be whole warps");
static_assert(BLOCKS >= 1, "float_histogram/shared: BLOCKS counts the blocks of a multiprocessor");
static_assert(COPIES >= 1 && COPIES <= 32 && (COPIES & (COPIES - 1)) == 0,
              "float_histogram/shared: COPIES must be a power of two up to 32");

extern "C" __global__ void float_histogram_shared(const float* __restrict__ x,
                                                  const float* __restrict__ edges,
                                                  long long* __restrict__ counts, float top, long long n,
                                                  long long bins) {
    extern __shared__ unsigned scratch[];
    float* const borders = reinterpret_cast<float*>(scratch + bins * COPIES);
    clear_counts<THREADS>(scratch, bins * COPIES);
#pragma unroll 1
    for (int i = threadIdx.x; i < bins; i += THREADS) {
        const float edge = edges[i];
        borders[i] = edge;
    }
    __syncthreads();
    const float bottom = borders[0];
    const float scale = bins / (top - bottom);
    unsigned* const own = scratch + threadIdx.x % COPIES;

    // Four numbers a thread on their way at once.
    const long long step = (long long)gridDim.x * THREADS;
#pragma unroll 1
    for (long long first = (long long)blockIdx.x * THREADS + threadIdx.x; first < n; first += 4 * step) {
        float value[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            const long long i = first + k * step;
            value[k] = nothing();
            if (i < n) {
                value[k] = x[i];
            }
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            if (value[k] >= bottom && value[k] <= top) {
                const long long bin = bin_of(value[k], borders, bins, bottom, scale);
                atomicAdd(own + bin * COPIES, 1u);
            }
        }
    }
    __syncthreads();
    add_counts<THREADS>(counts, bins, [=](int bin) { return sum_of_neighbours<COPIES>(scratch, bin); });
}
