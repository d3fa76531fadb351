// bias_gelu/vectorised: sixteen bytes a thread, the same columns of ROWS rows; the bias is read once for all of them.
//
// computes  y[r][c] = gelu(x[r][c] + bias[c])
// mapping   block (i, j) -> GROUP vectors of columns, of the rows ROWS * THREADS / GROUP * j and following
// load x 16 sectors/request
// load bias 16 sectors/request
// store y 16 sectors/request
// teaches   A grid of two axes needs no remainder, and a thread that keeps to its columns has its bias in
//           registers. ROWS loads are in flight before the first is used. Rows of fewer vectors than a warp has
//           lanes share it, GROUP threads each: one row would leave the others without work.
// source    NVIDIA technical blog, "CUDA Pro Tip: Increase Performance with Vectorized Memory Access"

#include "element.cuh"
#include "gelu.cuh"

#ifndef THREADS
#define THREADS 256
#endif
#ifndef GROUP
#define GROUP 256
#endif
#ifndef ROWS
#define ROWS 4
#endif
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "bias_gelu/vectorised: THREADS must be whole warps");
static_assert(GROUP == THREADS || 32 % GROUP == 0,
              "bias_gelu/vectorised: GROUP must be a power of two up to 32, or THREADS");
static_assert(ROWS >= 1, "bias_gelu/vectorised: ROWS must be at least 1");

extern "C" __global__ __launch_bounds__(THREADS) void bias_gelu_vectorised(const element_t* __restrict__ x,
                                                                           const element_t* __restrict__ bias,
                                                                           element_t* __restrict__ y,
                                                                           long long rows, long long columns,
                                                                           int form) {
    with_bias<THREADS, GROUP, ROWS>(x, bias, y, rows, columns,
                                    [=](float* value) { gelu_all<LANES(wide16_t)>(value, form); });
}
