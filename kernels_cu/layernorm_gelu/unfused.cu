// layernorm_gelu/unfused: two kernels: layernorm to memory, then GeLU from there.
//
// computes  y[r][c] = gelu((x[r][c] - mean) / sqrt(variance + eps) * weight[c] + bias[c]), of each row r
// mapping   GROUP threads -> ROWS rows, VECTORS times 16 bytes of each; THREADS / GROUP groups a block; then
//           a vector of 16 bytes a thread
// load x 16 sectors/request
// load weight 16 sectors/request
// load bias 16 sectors/request
// store y 16 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   Each kernel is as fast as a copy, and the pair takes two copies' time: the array h between them
//           is written and read for nothing.
// source    layernorm/registers and a streaming kernel, one after the other

#include "element.cuh"
#include "gelu.cuh"
#include "norm.cuh"
#include "rows.cuh"

#ifndef THREADS
#define THREADS 128
#endif
#ifndef GROUP
#define GROUP 128
#endif
#ifndef VECTORS
#define VECTORS 2
#endif
#ifndef ROWS
#define ROWS 1
#endif
static_assert(THREADS <= 1024 && (GROUP == THREADS || (GROUP <= 32 && THREADS % 32 == 0)),
              "layernorm_gelu/unfused: THREADS must be GROUP, or whole warps where GROUP is up to 32");
static_assert(VECTORS >= 1 && ROWS >= 1, "layernorm_gelu/unfused: VECTORS and ROWS must be at least 1");

extern "C" __global__ __launch_bounds__(THREADS, 1024 / THREADS) void layernorm_gelu_unfused_norm(
    const element_t* __restrict__ x, const element_t* __restrict__ weight, const element_t* __restrict__ bias,
    element_t* __restrict__ h, long long rows, long long columns, float eps) {
    const Layernorm<element_t, false> work(x, nullptr, weight, bias, columns, eps);
    __shared__ Deviations scratch[2][32];
    through_registers<element_t, THREADS, GROUP, VECTORS, ROWS>(work, h, scratch, rows, columns);
}

extern "C" __global__ __launch_bounds__(THREADS) void layernorm_gelu_unfused_gelu(
    const element_t* __restrict__ h, element_t* __restrict__ y, long long rows, long long columns, int form) {
    gelu_flat<THREADS>(h, y, rows * columns, form);
}
