// rmsnorm/registers: the row stays in registers between one read and one write of 16 bytes a thread.
//
// computes  y[r][c] = x[r][c] / sqrt(mean of x[r][k] * x[r][k] over k + eps) * weight[c]
// mapping   GROUP threads -> ROWS rows, VECTORS times 16 bytes of each; THREADS / GROUP groups a block
// load x 16 sectors/request
// load weight 16 sectors/request
// store y 16 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   One read, one sum over the group, one write: a copy with a multiplication. The weight is the same
//           for all rows and stays in the caches.
// source    Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019)

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
              "rmsnorm/registers: THREADS must be GROUP, or whole warps where GROUP is up to 32");
static_assert(VECTORS >= 1 && ROWS >= 1, "rmsnorm/registers: VECTORS and ROWS must be at least 1");

extern "C" __global__ __launch_bounds__(THREADS, 1024 / THREADS) void rmsnorm_registers(
    const element_t* __restrict__ x, const element_t* __restrict__ weight, element_t* __restrict__ y,
    long long rows, long long columns, float eps) {
    const Rmsnorm<element_t> work = {x, weight, columns, eps};
    __shared__ float scratch[2][32];
    through_registers<element_t, THREADS, GROUP, VECTORS, ROWS>(work, y, scratch, rows, columns);
}
