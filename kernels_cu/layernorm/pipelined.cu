// layernorm/pipelined: the next row is copied to shared memory while one is computed.
//
// computes  y[r][c] = (x[r][c] - mean) / sqrt(variance + eps) * weight[c] + bias[c], of each row r
// mapping   BLOCKS blocks a multiprocessor stay; block b -> rows b, b + the number of blocks, ...; VECTORS times 16
//           bytes a thread
// load x 16 sectors/request
// load weight 16 sectors/request
// load bias 16 sectors/request
// store y 16 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// shared load staged 4 wavefronts/request
// teaches   A row that takes a whole block leaves nobody else to keep the memory busy while it is computed. Here the
//           block's own next row is in flight meanwhile: cp.async goes from memory to shared memory without
//           registers and without waiting. The row lies nowhere else: each pass reads it again, the last one asks
//           for the next row in its place, and with few registers more blocks share a multiprocessor. Whoever
//           asked for a vector reads it, so no barrier is needed.
// source    CUDA C++ Programming Guide, "Asynchronous Data Copies"

#include "element.cuh"
#include "norm.cuh"
#include "pipeline.cuh"

#ifndef THREADS
#define THREADS 256
#endif
#ifndef VECTORS
#define VECTORS 4
#endif
#ifndef BLOCKS
#define BLOCKS 2
#endif
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "layernorm/pipelined: THREADS must be whole warps");
static_assert(VECTORS >= 1 && BLOCKS >= 1, "layernorm/pipelined: VECTORS and BLOCKS must be at least 1");

extern "C" __global__ __launch_bounds__(THREADS, BLOCKS) void layernorm_pipelined(
    const element_t* __restrict__ x, const element_t* __restrict__ weight, const element_t* __restrict__ bias,
    element_t* __restrict__ y, long long rows, long long columns, float eps) {
    const Layernorm<element_t, false> work(x, nullptr, weight, bias, columns, eps);
    extern __shared__ uint4 room[];
    __shared__ Deviations scratch[2][32];
    through_pipeline<THREADS, VECTORS>(work, x, x, y, room, scratch, rows, columns);
}
