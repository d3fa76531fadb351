// all_reduce/vectorised: sixteen bytes a thread, several of them on their way, few blocks.
//
// computes  x[i] = y[i] = x[i] + y[i]; rank 0 has x, rank 1 has y, each forms half of the sums
// mapping   a rank's blocks -> its half, VECTORS times as many vectors of 16 bytes as threads at a time, what no
//           vector holds to the first block; rank 2 is both, in two rows of blocks
// load x 16 sectors/request
// load y 16 sectors/request
// store x 16 sectors/request
// store y 16 sectors/request
// teaches   One of the two loads crosses the link, which takes longer than memory: what is in flight decides, so
//           all loads stand before the first store. BLOCKS are few: each takes a multiprocessor from
//           whatever is computed meanwhile, and the link is slower than a few of them.
// source    the direct reduce-scatter and all-gather of NCCL for ranks that reach each other's memory

#include "element.cuh"
#include "ranks.cuh"

#ifndef THREADS
#define THREADS 1024
#endif
#ifndef VECTORS
#define VECTORS 4
#endif
#ifndef BLOCKS
#define BLOCKS 4
#endif
static_assert(THREADS % 32 == 0 && THREADS <= 1024,
              "all_reduce/vectorised: THREADS must be whole warps, at most 1024");
static_assert(VECTORS >= 1 && VECTORS <= 16,
              "all_reduce/vectorised: VECTORS must be 1 to 16, they live in registers");
static_assert(BLOCKS >= 1, "all_reduce/vectorised: BLOCKS must be at least 1");

extern "C" __global__ __launch_bounds__(THREADS) void all_reduce_vectorised(element_t* __restrict__ x,
                                                                            element_t* __restrict__ y,
                                                                            int rank, long long n) {
    constexpr int EACH = LANES(wide16_t);
    const Share share(rank, n, EACH);
    const long long whole = share.end / EACH, step = (long long)gridDim.x * (THREADS * VECTORS);

    for (long long first = share.begin / EACH + (long long)blockIdx.x * (THREADS * VECTORS) + threadIdx.x;
         first < whole; first += step) {
        // All loads first.
        wide16_t x_wide[VECTORS], y_wide[VECTORS];
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) {
            const long long i = first + v * THREADS;
            if (i < whole) {
                x_wide[v] = reinterpret_cast<const wide16_t*>(x)[i];
                y_wide[v] = reinterpret_cast<const wide16_t*>(y)[i];
            }
        }

        // Then the sums, each to both.
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) {
            const long long i = first + v * THREADS;
            if (i < whole) {
                float sum[EACH], other[EACH];
                unpack<element_t>(x_wide[v], sum);
                unpack<element_t>(y_wide[v], other);
#pragma unroll
                for (int k = 0; k < EACH; ++k) {
                    sum[k] += other[k];
                }
                const wide16_t packed = pack<wide16_t, element_t>(sum);
                reinterpret_cast<wide16_t*>(x)[i] = packed;
                reinterpret_cast<wide16_t*>(y)[i] = packed;
            }
        }
    }

    // Up to EACH - 1 elements are left at the end of the array.
    const long long last = (whole * EACH > share.begin ? whole * EACH : share.begin) + threadIdx.x;
    if (blockIdx.x == 0 && last < share.end) {
        const element_t x_last = x[last];
        const element_t y_last = y[last];
        const element_t sum = from_float<element_t>(to_float(x_last) + to_float(y_last));
        x[last] = sum;
        y[last] = sum;
    }
}
