// softmax_dropout/unfused: two kernels: softmax to memory, then dropout from there.
//
// computes  y[r][c] = softmax(x[r])[c] / (1 - p) where the random bits of element (r, c) keep it, else 0
// mapping   GROUP threads -> ROWS rows, VECTORS times 16 bytes of each; THREADS / GROUP groups a block; then
//           a vector of 16 bytes a thread
// load x 16 sectors/request
// store y 16 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 2 wavefronts/request
// teaches   Twice the traffic of softmax_dropout/registers for the same bits: the seed and the place decide,
//           whichever kernel asks.
// source    softmax/registers and a streaming kernel, one after the other

#include "element.cuh"
#include "philox.cuh"
#include "rows.cuh"
#include "softmax.cuh"

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
              "softmax_dropout/unfused: THREADS must be GROUP, or whole warps where GROUP is up to 32");
static_assert(VECTORS >= 1 && ROWS >= 1, "softmax_dropout/unfused: VECTORS and ROWS must be at least 1");

extern "C" __global__ __launch_bounds__(THREADS, 1024 / THREADS) void softmax_dropout_unfused_softmax(
    const element_t* __restrict__ x, element_t* __restrict__ h, long long rows, long long columns) {
    const Softmax<element_t> work = {x};
    __shared__ Pair scratch[2][32];
    through_registers<element_t, THREADS, GROUP, VECTORS, ROWS>(work, h, scratch, rows, columns);
}

extern "C" __global__ __launch_bounds__(THREADS) void softmax_dropout_unfused_dropout(
    const element_t* __restrict__ h, element_t* __restrict__ y, long long rows, long long columns, float p,
    unsigned long long seed) {
    const Dropout dropout(p, seed);
    flat<THREADS>(h, y, rows * columns, true, [=](auto share, long long start, float* value) {
#pragma unroll
        for (int i = 0; i < share.ITEMS; ++i) {
            value[i] *= dropout.scale;
        }
        drop(dropout, start, share, value);
    });
}
