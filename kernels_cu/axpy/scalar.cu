// axpy/scalar: one element a thread, neighbours on neighbours.
//
// computes  z[i] = alpha * x[i] + y[i]
// mapping   thread i of the grid -> element i
// load x 4 sectors/request
// load y 4 sectors/request
// store z 4 sectors/request
// teaches   Coalesced already: nothing is fetched in vain. Elements of two bytes fill only half of each
//           request, 2 sectors of the 4 that floats get. 12 bytes an element.
// source    BLAS level 1 (SAXPY), out of place

#include "element.cuh"

extern "C" __global__ void axpy_scalar(const element_t* __restrict__ x, const element_t* __restrict__ y,
                                       element_t* __restrict__ z, float alpha, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const element_t x_value = x[i];
        const element_t y_value = y[i];
        const float value = alpha * to_float(x_value) + to_float(y_value);
        z[i] = from_float<element_t>(value);
    }
}
