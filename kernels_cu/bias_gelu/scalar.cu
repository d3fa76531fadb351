// bias_gelu/scalar: a thread an element; the column by a remainder.
//
// computes  y[r][c] = gelu(x[r][c] + bias[c])
// mapping   thread i of the grid -> element i
// load x 4 sectors/request
// load bias 4 sectors/request
// store y 4 sectors/request
// teaches   One load of 4 bytes in flight a thread, and a 64-bit remainder for each: the index costs more
//           instructions than the activation. Memory is kept waiting.
// source    Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016)

#include "element.cuh"
#include "gelu.cuh"

#ifndef THREADS
#define THREADS 256
#endif
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "bias_gelu/scalar: THREADS must be whole warps");

extern "C" __global__ __launch_bounds__(THREADS) void bias_gelu_scalar(const element_t* __restrict__ x,
                                                                       const element_t* __restrict__ bias,
                                                                       element_t* __restrict__ y,
                                                                       long long rows, long long columns,
                                                                       int form) {
    const long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (i < rows * columns) {
        const float added = to_float(bias[i % columns]);
        const float value = to_float(x[i]) + added;
        y[i] = from_float<element_t>(gelu(value, form));
    }
}
