// row_max/warp: a warp a row; no shared memory, no barrier.
//
// computes  y[r] = the largest of x[r], NaN if there is one
// mapping   warp w of the grid -> row w; lane l -> vectors l, l + 32, ... of 16 bytes where rows hold whole
//           ones, else elements
// load x 16 sectors/request
// store y 1 sectors/request
// teaches   For rows up to a few thousand bytes nothing is left to share between warps: five shuffles end a
//           row, and a block holds THREADS / 32 rows. Longer rows leave too few warps to fill the device:
//           see row_max/split.
// source    CUDA C++ Programming Guide, "Warp Shuffle Functions"

#include "fold.cuh"

#ifndef THREADS
#define THREADS 256
#endif
#ifndef VECTORS
#define VECTORS 4
#endif
static_assert(THREADS >= 32 && THREADS <= 1024 && THREADS % 32 == 0,
              "row_max/warp: THREADS must be whole warps, at most 1024");
static_assert(VECTORS >= 1 && VECTORS <= 16, "row_max/warp: VECTORS must be 1 to 16, they live in registers");

extern "C" __global__ void row_max_warp(const element_t* __restrict__ x, element_t* __restrict__ y,
                                        long long rows, long long columns) {
    constexpr int EACH = LANES(wide16_t);
    const long long row = ((long long)blockIdx.x * THREADS + threadIdx.x) / 32;
    const int lane = threadIdx.x % 32;
    if (row < rows) {
        const bool is_wide = columns % EACH == 0;
        float mine = fold_line<Max, wide16_t, 32, VECTORS>(x + row * columns, columns, is_wide, lane, 0, 1);
        mine = warp_fold<Max>(mine);
        if (lane == 0) {
            y[row] = from_float<element_t>(mine);
        }
    }
}
