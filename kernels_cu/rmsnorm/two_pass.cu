// rmsnorm/two_pass: a block a row, which is read twice: for the mean square, for the answer.
//
// computes  y[r][c] = x[r][c] / sqrt(mean of x[r][k] * x[r][k] over k + eps) * weight[c]
// mapping   block r -> row r; lanes take neighbouring elements
// load x 4 sectors/request
// load weight 4 sectors/request
// store y 4 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   With no mean to take off there is one sum, and the row is read twice and not three times. Squares
//           of values beyond 1e19 overflow float32, as they do in every library.
// source    Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019)

#include "element.cuh"
#include "norm.cuh"

#ifndef THREADS
#define THREADS 256
#endif
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "rmsnorm/two_pass: THREADS must be whole warps");

extern "C" __global__ __launch_bounds__(THREADS) void rmsnorm_two_pass(const element_t* __restrict__ x,
                                                                       const element_t* __restrict__ weight,
                                                                       element_t* __restrict__ y,
                                                                       long long columns, float eps) {
    __shared__ float scratch[32];
    const long long first = (long long)blockIdx.x * columns;

    // The mean square.
    float sum = 0.0f;
#pragma unroll 1
    for (long long c = threadIdx.x; c < columns; c += THREADS) {
        const float value = to_float(x[first + c]);
        sum = fmaf(value, value, sum);
    }
    const float scale = rsqrtf(group_sum<THREADS>(sum, scratch) / (float)columns + eps);

    // The answer.
#pragma unroll 1
    for (long long c = threadIdx.x; c < columns; c += THREADS) {
        const float w = to_float(weight[c]);
        const float value = to_float(x[first + c]);
        y[first + c] = from_float<element_t>(value * scale * w);
    }
}
