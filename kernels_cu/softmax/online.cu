// softmax/online: maximum and sum in one pass; the row is read twice.
//
// computes  y[r][c] = exp(x[r][c] - top) / sum of exp(x[r][k] - top) over k, where top is the row's maximum
// mapping   block r -> row r; lanes take neighbouring elements
// load x 4 sectors/request
// store y 4 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 2 wavefronts/request
// teaches   A sum relative to one maximum becomes one relative to another by a single multiplication, so a
//           thread carries both along, and threads merge them. The running maximum starts at -inf: starting at
//           0 gives NaN for a row of -10000.
// source    Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018)

#include "element.cuh"
#include "softmax.cuh"

#ifndef THREADS
#define THREADS 256
#endif
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "softmax/online: THREADS must be whole warps");

extern "C" __global__ __launch_bounds__(THREADS) void softmax_online(const element_t* __restrict__ x,
                                                                     element_t* __restrict__ y,
                                                                     long long columns) {
    __shared__ Pair scratch[32];
    const long long first = (long long)blockIdx.x * columns;

    // Maximum and sum together.
    Pair found = {LOWEST, 0.0f};
#pragma unroll 1
    for (long long c = threadIdx.x; c < columns; c += THREADS) {
        const float value = to_float(x[first + c]);
        found = merge_softmax<float>(found, {value, 1.0f});
    }
    found = group_softmax<THREADS, float>(found, scratch);

    // The answer; an infinite maximum gives NaN, as subtracting it from itself does.
    const float top = found.first, scale = 1.0f / (found.second + (top - top));
#pragma unroll 1
    for (long long c = threadIdx.x; c < columns; c += THREADS) {
        const float value = to_float(x[first + c]);
        y[first + c] = from_float<element_t>(exponential<element_t>(value - top) * scale);
    }
}
