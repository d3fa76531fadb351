// softmax_dropout/registers: one kernel: what is dropped is decided where the probability is made.
//
// computes  y[r][c] = softmax(x[r])[c] / (1 - p) where the random bits of element (r, c) keep it, else 0
// mapping   GROUP threads -> ROWS rows, VECTORS times 16 bytes of each; THREADS / GROUP groups a block
// load x 16 sectors/request
// store y 16 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 2 wavefronts/request
// teaches   Random bits are a function of the element's place and the seed, so no mask is stored: whoever
//           needs it again computes it again. Ten rounds of Philox serve eight elements at 16 bits each,
//           which keeps arithmetic behind memory.
// source    Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011)

#include "element.cuh"
#include "softmax_dropout.cuh"

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
              "softmax_dropout/registers: THREADS must be GROUP, or whole warps where GROUP is up to 32");
static_assert(VECTORS >= 1 && ROWS >= 1, "softmax_dropout/registers: VECTORS and ROWS must be at least 1");

extern "C" __global__ __launch_bounds__(THREADS, 1024 / THREADS) void softmax_dropout_registers(
    const element_t* __restrict__ x, element_t* __restrict__ y, long long rows, long long columns, float p,
    unsigned long long seed) {
    const SoftmaxDropout<element_t> work = {{x}, Dropout(p, seed)};
    __shared__ Pair scratch[2][32];
    through_registers<element_t, THREADS, GROUP, VECTORS, ROWS>(work, y, scratch, rows, columns);
}
