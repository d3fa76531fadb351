// softmax_cross_entropy/online: loss and gradient of a row in one kernel; a block a row, which is read twice.
//
// computes  loss[r] = -log(softmax(x[r] + bias)[labels[r]]), dx[r] = scale * (softmax(x[r] + bias) - one-hot(labels[r]))
// mapping   block r -> row r; lanes take neighbouring elements
// load x 3.95 sectors/request
// load bias 3.95 sectors/request
// load labels 1 sectors/request
// store dx 4 sectors/request
// store loss 1 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 2 wavefronts/request
// teaches   No probability goes to memory, nor its logarithm: of softmax, loss and gradient only the answers do. The
//           loss is top + log(sum) - x: the logarithm of a probability that has become 0 would be infinite. A bias
//           of no elements is none.
// source    Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018)

#include "cross_entropy.cuh"
#include "element.cuh"

#ifndef THREADS
#define THREADS 256
#endif
static_assert(THREADS % 32 == 0 && THREADS <= 1024,
              "softmax_cross_entropy/online: THREADS must be whole warps");

extern "C" __global__ __launch_bounds__(THREADS) void softmax_cross_entropy_online(
    const element_t* __restrict__ x, const long long* __restrict__ labels, const element_t* __restrict__ bias,
    element_t* __restrict__ dx, float* __restrict__ loss, long long columns, long long biases, float scale) {
    __shared__ Pair scratch[32];
    const long long row = blockIdx.x, first = row * columns;
    const long long label = labels[row];

    // Maximum and sum together.
    Pair found = {LOWEST, 0.0f};
#pragma unroll 1
    for (long long c = threadIdx.x; c < columns; c += THREADS) {
        found = merge_softmax<float>(found, {logit(x + first, bias, biases, c), 1.0f});
    }
    found = group_softmax<THREADS, float>(found, scratch);

    // An infinite maximum gives NaN, as subtracting it from itself does.
    const float top = found.first, sum = found.second + (top - top);
    if (threadIdx.x == 0) {
        float lost = NOT_A_NUMBER;
        if (label >= 0 && label < columns) {
            lost = loss_of(top, sum, logit(x + first, bias, biases, label));
        }
        loss[row] = lost;
    }

    // The gradient.
    const float inverse = 1.0f / sum;
#pragma unroll 1
    for (long long c = threadIdx.x; c < columns; c += THREADS) {
        const float share = exponential<element_t>(logit(x + first, bias, biases, c) - top) * inverse;
        dx[first + c] = from_float<element_t>((share - (c == label ? 1.0f : 0.0f)) * scale);
    }
}
