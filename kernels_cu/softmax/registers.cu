// softmax/registers: the row stays in registers between one read and one write of 16 bytes a thread.
//
// computes  y[r][c] = exp(x[r][c] - top) / sum of exp(x[r][k] - top) over k, where top is the row's maximum
// mapping   GROUP threads -> ROWS rows, VECTORS times 16 bytes of each; THREADS / GROUP groups a block
// load x 16 sectors/request
// store y 16 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 2 wavefronts/request
// teaches   Two parts of traffic, the least there can be. All loads of a thread are issued before the first is
//           needed; a warp raises its values relative to its own maximum, so that warps meet once and not
//           twice. GROUP and VECTORS come from the length of the row: short rows share a warp and need no
//           barrier. Rows that do not start at 16 bytes go element by element; those longer than the
//           registers are read twice.
// source    Triton tutorial "Fused Softmax": one program a row, the row on the chip

#include "element.cuh"
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
              "softmax/registers: THREADS must be GROUP, or whole warps where GROUP is up to 32");
static_assert(VECTORS >= 1 && ROWS >= 1, "softmax/registers: VECTORS and ROWS must be at least 1");

extern "C" __global__ __launch_bounds__(THREADS, 1024 / THREADS) void softmax_registers(
    const element_t* __restrict__ x, element_t* __restrict__ y, long long rows, long long columns) {
    const Softmax<element_t> work = {x};
    __shared__ Pair scratch[2][32];
    through_registers<element_t, THREADS, GROUP, VECTORS, ROWS>(work, y, scratch, rows, columns);
}
