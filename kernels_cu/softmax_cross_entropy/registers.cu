// softmax_cross_entropy/registers: the row stays in registers between one read and one write of 16 bytes a thread.
//
// computes  loss[r] = -log(softmax(x[r] + bias)[labels[r]]), dx[r] = scale * (softmax(x[r] + bias) - one-hot(labels[r]))
// mapping   GROUP threads -> a row, VECTORS times 16 bytes of it; THREADS / GROUP rows a block
// load x 14.33 sectors/request
// load bias 14.33 sectors/request
// load labels 1 sectors/request
// store dx 14.33 sectors/request
// store loss 1 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 2 wavefronts/request
// teaches   The gradient is softmax less one at a single place, so it costs no more traffic than softmax: one read
//           and one write, where loss and gradient by single operations take three arrays more. One thread subtracts
//           it, and reads that logit again, which is at hand. Rows longer than the registers are read twice.
// source    Hsu et al., "Liger Kernel: Efficient Triton Kernels for LLM Training" (2024)

#include "cross_entropy.cuh"
#include "element.cuh"

#ifndef THREADS
#define THREADS 128
#endif
#ifndef GROUP
#define GROUP 128
#endif
#ifndef VECTORS
#define VECTORS 2
#endif
static_assert(
    THREADS <= 1024 && (GROUP == THREADS || (GROUP <= 32 && THREADS % 32 == 0)),
    "softmax_cross_entropy/registers: THREADS must be GROUP, or whole warps where GROUP is up to 32");
static_assert(VECTORS >= 1, "softmax_cross_entropy/registers: VECTORS must be at least 1");

extern "C" __global__ __launch_bounds__(THREADS, 1024 / THREADS) void softmax_cross_entropy_registers(
    const element_t* __restrict__ x, const long long* __restrict__ labels, const element_t* __restrict__ bias,
    element_t* __restrict__ dx, float* __restrict__ loss, long long rows, long long columns, long long biases,
    float scale) {
    __shared__ Pair scratch[32];
    const Entropy<element_t> work = {x, bias, labels, dx, loss, rows, columns, biases, scale};
    const long long row = (long long)blockIdx.x * (THREADS / GROUP) + threadIdx.x / GROUP;
    const int member = threadIdx.x % GROUP;
    if (starts_at_vectors(x, dx, columns) && starts_at_vector(bias)) {
        work.one_row<WIDE, GROUP, VECTORS>(row, member, scratch);
    } else {
        work.one_row<SINGLE, GROUP, VECTORS>(row, member, scratch);
    }
}
