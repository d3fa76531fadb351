// layernorm/welford: mean and variance in one pass; the row is read twice.
//
// computes  y[r][c] = (x[r][c] - mean) / sqrt(variance + eps) * weight[c] + bias[c], of each row r
// mapping   block r -> row r; lanes take neighbouring elements
// load x 4 sectors/request
// load weight 4 sectors/request
// load bias 4 sectors/request
// store y 4 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   Each value moves the mean by its share and adds to the squared deviations, so nothing large
//           cancels; threads merge what they found, weighed by how many values they saw. A division a value
//           is the price, and the running mean is only as fine as float32 at its size.
// source    Welford, Technometrics 4 (1962); Chan, Golub and LeVeque (1979) for the merge

#include "element.cuh"
#include "norm.cuh"

#ifndef THREADS
#define THREADS 256
#endif
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "layernorm/welford: THREADS must be whole warps");

extern "C" __global__ __launch_bounds__(THREADS) void layernorm_welford(const element_t* __restrict__ x,
                                                                        const element_t* __restrict__ weight,
                                                                        const element_t* __restrict__ bias,
                                                                        element_t* __restrict__ y,
                                                                        long long columns, float eps) {
    __shared__ Moments scratch[32];
    const long long first = (long long)blockIdx.x * columns;

    // Count, mean and squared deviations together.
    Moments found = {0.0f, 0.0f, 0.0f};
#pragma unroll 1
    for (long long c = threadIdx.x; c < columns; c += THREADS) {
        const float value = to_float(x[first + c]);
        found = include(found, value);
    }
    found = group_moments<THREADS>(found, scratch);

    // The answer.
    const float scale = rsqrtf(found.squares / (float)columns + eps);
#pragma unroll 1
    for (long long c = threadIdx.x; c < columns; c += THREADS) {
        const float w = to_float(weight[c]);
        const float b = to_float(bias[c]);
        const float value = to_float(x[first + c]);
        y[first + c] = from_float<element_t>(fmaf((value - found.mean) * scale, w, b));
    }
}
