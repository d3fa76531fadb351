// take_rows/scalar: one element a thread; each asks again for the index of its row.
//
// computes  y[i] = table[index[i]] for rows of `columns` elements, a negative index counting from the end
// mapping   thread t of the grid -> element t of y, row by row
// load index 1 sectors/request
// load table 4 sectors/request
// store y 4 sectors/request
// teaches   Rows are contiguous, so a warp's gather coalesces wherever they lie. What is left is a 64-bit
//           division and an index for every element, and one element in flight.
// source    the definition of numpy.take

#include "element.cuh"

extern "C" __global__ void take_rows_scalar(const element_t* __restrict__ table,
                                            const long long* __restrict__ index, element_t* __restrict__ y,
                                            long long length, long long n, long long columns) {
    const long long t = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (t < n * columns) {
        const long long i = t / columns;
        const long long at = index[i];
        const element_t value = table[(at < 0 ? at + length : at) * columns + t % columns];
        y[t] = value;
    }
}
