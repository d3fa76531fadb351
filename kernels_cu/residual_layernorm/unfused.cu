// residual_layernorm/unfused: two kernels: the sum to memory, then layernorm from there.
//
// computes  y[r][c] = (h[c] - mean of h) / sqrt(variance of h + eps) * weight[c] + bias[c], where h = x[r] +
//           residual[r]
// mapping   a vector of 16 bytes a thread; then GROUP threads -> ROWS rows, VECTORS times 16 bytes of each;
//           THREADS / GROUP groups a block
// load x 16 sectors/request
// load residual 16 sectors/request
// load weight 16 sectors/request
// load bias 16 sectors/request
// store y 16 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   Five parts of traffic: two arrays in and their sum out, the sum in and the answer out.
// source    a streaming kernel and layernorm/registers, one after the other

#include "element.cuh"
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
              "residual_layernorm/unfused: THREADS must be GROUP, or whole warps where GROUP is up to 32");
static_assert(VECTORS >= 1 && ROWS >= 1, "residual_layernorm/unfused: VECTORS and ROWS must be at least 1");

extern "C" __global__ __launch_bounds__(THREADS) void residual_layernorm_unfused_add(
    const element_t* __restrict__ x, const element_t* __restrict__ residual, element_t* __restrict__ h,
    long long rows, long long columns) {
    const bool is_aligned = starts_at_vector(residual);
    flat<THREADS>(x, h, rows * columns, is_aligned,
                  [=](auto share, long long start, float* value) { add(residual + start, share, value); });
}

extern "C" __global__ __launch_bounds__(THREADS, 1024 / THREADS) void residual_layernorm_unfused_norm(
    const element_t* __restrict__ h, const element_t* __restrict__ weight, const element_t* __restrict__ bias,
    element_t* __restrict__ y, long long rows, long long columns, float eps) {
    const Layernorm<element_t, false> work(h, nullptr, weight, bias, columns, eps);
    __shared__ Deviations scratch[2][32];
    through_registers<element_t, THREADS, GROUP, VECTORS, ROWS>(work, y, scratch, rows, columns);
}
