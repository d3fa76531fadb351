// take/scalar: one index a thread, and one gather after it.
//
// computes  y[i] = table[index[i]], a negative index counting from the end as in NumPy
// mapping   thread i of the grid -> index i
// load index 8 sectors/request
// load table 32 sectors/request
// store y 4 sectors/request
// teaches   A gather waits twice: for its index, then for its element. With one of each a thread nothing
//           overlaps but what other warps do. See take/unrolled.
// source    the definition of numpy.take

#include "element.cuh"

extern "C" __global__ void take_scalar(const element_t* __restrict__ table,
                                       const long long* __restrict__ index, element_t* __restrict__ y,
                                       long long length, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const long long at = index[i];
        const element_t value = table[at < 0 ? at + length : at];
        y[i] = value;
    }
}
