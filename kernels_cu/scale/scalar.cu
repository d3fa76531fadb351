// scale/scalar: one element a thread, neighbours on neighbours.
//
// computes  y[i] = alpha * x[i]
// mapping   thread i of the grid -> element i
// load x 4 sectors/request
// store y 4 sectors/request
// teaches   Coalesced already: nothing is fetched in vain. Elements of two bytes fill only half of each
//           request, 2 sectors of the 4 that floats get. 8 bytes an element.
// source    STREAM (McCalpin), kernel Scale

#include "element.cuh"

extern "C" __global__ void scale_scalar(const element_t* __restrict__ x, element_t* __restrict__ y,
                                        float alpha, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const element_t x_value = x[i];
        const float value = alpha * to_float(x_value);
        y[i] = from_float<element_t>(value);
    }
}
