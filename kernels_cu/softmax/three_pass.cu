// softmax/three_pass: a block a row, which is read three times: for the maximum, for the sum, for the answer.
//
// computes  y[r][c] = exp(x[r][c] - top) / sum of exp(x[r][k] - top) over k, where top is the row's maximum
// mapping   block r -> row r; lanes take neighbouring elements
// load x 4 sectors/request
// store y 4 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   Subtracting the maximum keeps exp from overflowing, and costs a pass of its own. Rows that a cache
//           does not hold come from memory three times: four parts of traffic where two would do.
// source    the definition; scipy.special.softmax

#include "element.cuh"
#include "rows.cuh"

#ifndef THREADS
#define THREADS 256
#endif
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "softmax/three_pass: THREADS must be whole warps");

extern "C" __global__ __launch_bounds__(THREADS) void softmax_three_pass(const element_t* __restrict__ x,
                                                                         element_t* __restrict__ y,
                                                                         long long columns) {
    __shared__ float scratch[32];
    const long long first = (long long)blockIdx.x * columns;

    // The maximum. NaN is lost here and comes back with the sum.
    float top = LOWEST;
#pragma unroll 1
    for (long long c = threadIdx.x; c < columns; c += THREADS) {
        const float value = to_float(x[first + c]);
        top = fmaxf(top, value);
    }
    top = group_max<THREADS>(top, scratch);

    // The sum.
    float sum = 0.0f;
#pragma unroll 1
    for (long long c = threadIdx.x; c < columns; c += THREADS) {
        const float value = to_float(x[first + c]);
        sum += exponential<element_t>(value - top);
    }
    const float scale = 1.0f / group_sum<THREADS>(sum, scratch);

    // The answer.
#pragma unroll 1
    for (long long c = threadIdx.x; c < columns; c += THREADS) {
        const float value = to_float(x[first + c]);
        y[first + c] = from_float<element_t>(exponential<element_t>(value - top) * scale);
    }
}
