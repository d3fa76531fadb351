// layernorm/registers: the row stays in registers between one read and one write of 16 bytes a thread.
//
// computes  y[r][c] = (x[r][c] - mean) / sqrt(variance + eps) * weight[c] + bias[c], of each row r
// mapping   GROUP threads -> ROWS rows, VECTORS times 16 bytes of each; THREADS / GROUP groups a block
// load x 16 sectors/request
// load weight 16 sectors/request
// load bias 16 sectors/request
// store y 16 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   Passes over registers cost no traffic, so the safe formula is free: each warp takes deviations from
//           its own mean, and what the warps found is brought to the common mean, after one meeting. In
//           float32 the deviations' own mean repairs what is lost where the mean is large. Weight and bias
//           are the same for all rows and stay in the caches.
// source    Triton tutorial "Layer Normalization"

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
              "layernorm/registers: THREADS must be GROUP, or whole warps where GROUP is up to 32");
static_assert(VECTORS >= 1 && ROWS >= 1, "layernorm/registers: VECTORS and ROWS must be at least 1");

extern "C" __global__ __launch_bounds__(THREADS, 1024 / THREADS) void layernorm_registers(
    const element_t* __restrict__ x, const element_t* __restrict__ weight, const element_t* __restrict__ bias,
    element_t* __restrict__ y, long long rows, long long columns, float eps) {
    const Layernorm<element_t, false> work(x, nullptr, weight, bias, columns, eps);
    __shared__ Deviations scratch[2][32];
    through_registers<element_t, THREADS, GROUP, VECTORS, ROWS>(work, y, scratch, rows, columns);
}
