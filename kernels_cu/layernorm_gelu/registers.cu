// layernorm_gelu/registers: one kernel: the activation is applied while the row is still in registers.
//
// computes  y[r][c] = gelu((x[r][c] - mean) / sqrt(variance + eps) * weight[c] + bias[c]), of each row r
// mapping   GROUP threads -> ROWS rows, VECTORS times 16 bytes of each; THREADS / GROUP groups a block
// load x 16 sectors/request
// load weight 16 sectors/request
// load bias 16 sectors/request
// store y 16 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   Fusing saves a write and a read of the whole array: half the traffic of layernorm_gelu/unfused,
//           and half the time where both run at the speed of memory. form 1 is the tanh form of GeLU, 0 the
//           one with erf.
// source    Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016)

#include "element.cuh"
#include "layernorm_gelu.cuh"
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
              "layernorm_gelu/registers: THREADS must be GROUP, or whole warps where GROUP is up to 32");
static_assert(VECTORS >= 1 && ROWS >= 1, "layernorm_gelu/registers: VECTORS and ROWS must be at least 1");

extern "C" __global__ __launch_bounds__(THREADS, 1024 / THREADS) void layernorm_gelu_registers(
    const element_t* __restrict__ x, const element_t* __restrict__ weight, const element_t* __restrict__ bias,
    element_t* __restrict__ y, long long rows, long long columns, float eps, int form) {
    const LayernormGelu<element_t> work = {{x, nullptr, weight, bias, columns, eps}, form};
    __shared__ Deviations scratch[2][32];
    through_registers<element_t, THREADS, GROUP, VECTORS, ROWS>(work, y, scratch, rows, columns);
}
