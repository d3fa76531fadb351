// softmax_dropout/pipelined: the next row is copied to shared memory while one is computed.
//
// computes  y[r][c] = softmax(x[r])[c] / (1 - p) where the random bits of element (r, c) keep it, else 0
// mapping   BLOCKS blocks a multiprocessor stay; block b -> rows b, b + the number of blocks, ...; VECTORS times 16
//           bytes a thread
// load x 16 sectors/request
// store y 16 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 2 wavefronts/request
// shared load staged 4 wavefronts/request
// teaches   A row that takes a whole block leaves nobody else to keep the memory busy while it is computed. Here the
//           block's own next row is in flight meanwhile: cp.async goes from memory to shared memory without
//           registers and without waiting. The row lies nowhere else: each pass reads it again, the last one asks
//           for the next row in its place, and with few registers more blocks share a multiprocessor. Whoever
//           asked for a vector reads it, so no barrier is needed.
// source    CUDA C++ Programming Guide, "Asynchronous Data Copies"

#include "element.cuh"
#include "pipeline.cuh"
#include "softmax_dropout.cuh"

#ifndef THREADS
#define THREADS 256
#endif
#ifndef VECTORS
#define VECTORS 4
#endif
#ifndef BLOCKS
#define BLOCKS 2
#endif
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "softmax_dropout/pipelined: THREADS must be whole warps");
static_assert(VECTORS >= 1 && BLOCKS >= 1,
              "softmax_dropout/pipelined: VECTORS and BLOCKS must be at least 1");

extern "C" __global__ __launch_bounds__(THREADS, BLOCKS) void softmax_dropout_pipelined(
    const element_t* __restrict__ x, element_t* __restrict__ y, long long rows, long long columns, float p,
    unsigned long long seed) {
    const SoftmaxDropout<element_t> work = {{x}, Dropout(p, seed)};
    extern __shared__ uint4 room[];
    __shared__ Pair scratch[2][32];
    through_pipeline<THREADS, VECTORS>(work, x, x, y, room, scratch, rows, columns);
}
