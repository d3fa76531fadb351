// residual_layernorm/registers: one kernel: the sum of both inputs is normalised where it is made.
//
// computes  y[r][c] = (h[c] - mean of h) / sqrt(variance of h + eps) * weight[c] + bias[c], where h = x[r] +
//           residual[r]
// mapping   GROUP threads -> ROWS rows, VECTORS times 16 bytes of each; THREADS / GROUP groups a block
// load x 16 sectors/request
// load residual 16 sectors/request
// load weight 16 sectors/request
// load bias 16 sectors/request
// store y 16 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   Two arrays in, one out: three parts of traffic where residual_layernorm/unfused has five. The sum
//           is never rounded to 16 bits on the way.
// source    Ba, Kiros and Hinton, "Layer Normalization" (2016)

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
              "residual_layernorm/registers: THREADS must be GROUP, or whole warps where GROUP is up to 32");
static_assert(VECTORS >= 1 && ROWS >= 1, "residual_layernorm/registers: VECTORS and ROWS must be at least 1");

extern "C" __global__ __launch_bounds__(THREADS, 1024 / THREADS) void residual_layernorm_registers(
    const element_t* __restrict__ x, const element_t* __restrict__ residual,
    const element_t* __restrict__ weight, const element_t* __restrict__ bias, element_t* __restrict__ y,
    long long rows, long long columns, float eps) {
    const Layernorm<element_t, true> work(x, residual, weight, bias, columns, eps);
    __shared__ Deviations scratch[2][32];
    through_registers<element_t, THREADS, GROUP, VECTORS, ROWS>(work, y, scratch, rows, columns);
}
