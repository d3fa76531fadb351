// triad/scalar: one element a thread, neighbours on neighbours.
//
// computes  y[i] = a[i] * b[i] + c[i]
// mapping   thread i of the grid -> element i
// load a 4 sectors/request
// load b 4 sectors/request
// load c 4 sectors/request
// store y 4 sectors/request
// teaches   Coalesced already: nothing is fetched in vain. Elements of two bytes fill only half of each
//           request, 2 sectors of the 4 that floats get. 16 bytes an element.
// source    the vector triad of Schoenauer

#include "element.cuh"

extern "C" __global__ void triad_scalar(const element_t* __restrict__ a, const element_t* __restrict__ b,
                                        const element_t* __restrict__ c, element_t* __restrict__ y,
                                        long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const element_t a_value = a[i];
        const element_t b_value = b[i];
        const element_t c_value = c[i];
        const float value = to_float(a_value) * to_float(b_value) + to_float(c_value);
        y[i] = from_float<element_t>(value);
    }
}
