// copy/scalar: one element a thread, neighbours on neighbours.
//
// computes  y[i] = x[i]
// mapping   thread i of the grid -> element i
// load x 4 sectors/request
// store y 4 sectors/request
// teaches   32 lanes x 4 bytes are 128 bytes, 4 sectors: coalesced, nothing is fetched in vain. All it lacks
//           is width: copy/float4 moves the same bytes with a quarter of the requests.
// source    CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory"

#include "element.cuh"

extern "C" __global__ void copy_scalar(const element_t* __restrict__ x, element_t* __restrict__ y,
                                       long long n) {
    // Widen before multiplying: the 32-bit product wraps at element 2^32.
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const element_t value = x[i];
        y[i] = value;
    }
}
