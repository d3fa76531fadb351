// column_sum/scalar: a thread a column, down all rows.
//
// computes  y[c] = the sum of x[r][c] over r
// mapping   thread i of the grid -> column i
// load x 4 sectors/request
// store y 4 sectors/request
// teaches   Every load is coalesced, and still most of the device waits: there are as many threads as columns,
//           each with one load of 4 bytes in flight.
// source    CUDA C++ Best Practices Guide, "Occupancy"

#include "element.cuh"

#ifndef THREADS
#define THREADS 256
#endif
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "column_sum/scalar: THREADS must be whole warps");

extern "C" __global__ __launch_bounds__(THREADS) void column_sum_scalar(const element_t* __restrict__ x,
                                                                        element_t* __restrict__ y,
                                                                        long long rows, long long columns) {
    const long long c = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (c < columns) {
        float sum = 0.0f;
#pragma unroll 1
        for (long long r = 0; r < rows; ++r) {
            const float value = to_float(x[r * columns + c]);
            sum += value;
        }
        y[c] = from_float<element_t>(sum);
    }
}
