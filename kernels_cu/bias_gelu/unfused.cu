// bias_gelu/unfused: two kernels: the sum to memory, then GeLU from there.
//
// computes  y[r][c] = gelu(x[r][c] + bias[c])
// mapping   as bias_gelu/vectorised; then a vector of 16 bytes a thread
// load x 16 sectors/request
// load bias 16 sectors/request
// store y 16 sectors/request
// teaches   Twice the traffic of bias_gelu/vectorised, so twice its time: what a library of single operations
//           does.
// source    two streaming kernels, one after the other

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
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "bias_gelu/unfused: THREADS must be whole warps");
static_assert(GROUP == THREADS || 32 % GROUP == 0,
              "bias_gelu/unfused: GROUP must be a power of two up to 32, or THREADS");
static_assert(ROWS >= 1, "bias_gelu/unfused: ROWS must be at least 1");

extern "C" __global__ __launch_bounds__(THREADS) void bias_gelu_unfused_add(
    const element_t* __restrict__ x, const element_t* __restrict__ bias, element_t* __restrict__ h,
    long long rows, long long columns) {
    with_bias<THREADS, GROUP, ROWS>(x, bias, h, rows, columns, [](float*) {});
}

extern "C" __global__ __launch_bounds__(THREADS) void bias_gelu_unfused_gelu(const element_t* __restrict__ h,
                                                                             element_t* __restrict__ y,
                                                                             long long rows,
                                                                             long long columns, int form) {
    gelu_flat<THREADS>(h, y, rows * columns, form);
}
