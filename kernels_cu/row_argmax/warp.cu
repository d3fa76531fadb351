// row_argmax/warp: a warp a row; no shared memory, no barrier.
//
// computes  y[r] = the place of the first largest of x[r], or of the first NaN
// mapping   warp w of the grid -> row w; lane l -> vectors l, l + 32, ... of 16 bytes where rows hold whole
//           ones, else elements
// load x 16 sectors/request
// store y 1 sectors/request
// teaches   For rows up to a few thousand bytes nothing is left to share between warps: five shuffles end a
//           row, and a block holds THREADS / 32 rows. Longer rows leave too few warps to fill the device:
//           see row_argmax/split.
// source    CUDA C++ Programming Guide, "Warp Shuffle Functions"

#include "fold.cuh"

#ifndef THREADS
#define THREADS 256
#endif
#ifndef VECTORS
#define VECTORS 4
#endif
static_assert(THREADS >= 32 && THREADS <= 1024 && THREADS % 32 == 0,
              "row_argmax/warp: THREADS must be whole warps, at most 1024");
static_assert(VECTORS >= 1 && VECTORS <= 16,
              "row_argmax/warp: VECTORS must be 1 to 16, they live in registers");

extern "C" __global__ void row_argmax_warp(const element_t* __restrict__ x, long long* __restrict__ y,
                                           long long rows, long long columns) {
    constexpr int EACH = LANES(wide16_t);
    const long long row = ((long long)blockIdx.x * THREADS + threadIdx.x) / 32;
    const int lane = threadIdx.x % 32;
    if (row < rows) {
        const bool is_wide = columns % EACH == 0;
        Best mine = fold_line<ArgMax, wide16_t, 32, VECTORS>(x + row * columns, columns, is_wide, lane, 0, 1);
        mine = warp_fold<ArgMax>(mine);
        const long long place = exact_place<EACH>(x + row * columns, columns, mine);
        if (lane == 0) {
            y[row] = place;
        }
    }
}
