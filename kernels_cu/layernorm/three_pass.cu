// layernorm/three_pass: a block a row, which is read three times: for the mean, for the variance, for the answer.
//
// computes  y[r][c] = (x[r][c] - mean) / sqrt(variance + eps) * weight[c] + bias[c], of each row r
// mapping   block r -> row r; lanes take neighbouring elements
// load x 4 sectors/request
// load weight 4 sectors/request
// load bias 4 sectors/request
// store y 4 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1.5 wavefronts/request
// teaches   The variance as the mean of squared deviations is safe where the mean of squares minus the
//           squared mean is not: at a mean of 1e6 and a spread of 1, float32 keeps nothing of the difference.
//           The price is a pass of its own.
// source    Ba, Kiros and Hinton, "Layer Normalization" (2016)

#include "element.cuh"
#include "norm.cuh"

#ifndef THREADS
#define THREADS 256
#endif
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "layernorm/three_pass: THREADS must be whole warps");

extern "C" __global__ __launch_bounds__(THREADS) void layernorm_three_pass(
    const element_t* __restrict__ x, const element_t* __restrict__ weight, const element_t* __restrict__ bias,
    element_t* __restrict__ y, long long columns, float eps) {
    __shared__ Pair scratch[32];
    const long long first = (long long)blockIdx.x * columns;

    // The mean.
    float sum = 0.0f;
#pragma unroll 1
    for (long long c = threadIdx.x; c < columns; c += THREADS) {
        const float value = to_float(x[first + c]);
        sum += value;
    }
    const float mean = group_sum<THREADS>(sum, reinterpret_cast<float*>(scratch)) / (float)columns;

    // The deviations from it, and their squares.
    Pair sums = {0.0f, 0.0f};
#pragma unroll 1
    for (long long c = threadIdx.x; c < columns; c += THREADS) {
        const float deviation = to_float(x[first + c]) - mean;
        sums = {sums.first + deviation, fmaf(deviation, deviation, sums.second)};
    }
    const Norm norm = norm_from(mean, group_sums<THREADS>(sums, scratch), columns, eps);

    // The answer.
#pragma unroll 1
    for (long long c = threadIdx.x; c < columns; c += THREADS) {
        const float w = to_float(weight[c]);
        const float b = to_float(bias[c]);
        const float value = to_float(x[first + c]);
        y[first + c] = from_float<element_t>(fmaf(norm(value), w, b));
    }
}
