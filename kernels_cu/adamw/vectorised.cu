// adamw/vectorised: a launch for each tensor, quads of elements.
//
// computes  g = factor * grad[i]; exp_avg[i] += rate1 * (g - exp_avg[i]); exp_avg_sq[i] += rate2 * (g * g -
//           exp_avg_sq[i]); param[i] -= lr * (weight_decay * param[i] + m / (sqrt(v) + eps)), where m and v are
//           both without their bias; nothing if found[0] is set
// mapping   a block -> VECTORS times as many quads of elements as threads, and its part of what no quad holds
// load param 16 sectors/request
// load grad 16 sectors/request
// load exp_avg 16 sectors/request
// load exp_avg_sq 16 sectors/request
// store param 16 sectors/request
// store exp_avg 16 sectors/request
// store exp_avg_sq 16 sectors/request
// load found 1 sectors/request
// load inv_scale 1 sectors/request
// load norm 1 sectors/request
// load skipped 1 sectors/request
// teaches   Quads, as four arrays of floats fill 16 bytes each: gradients of 16 bits come as 8. What all elements
//           share costs a thread more than one element, so a thread takes several: two quads in blocks of 128 threads
//           are the fastest (`kernellab tune`), and a loop over more of them is slower.
// source    Loshchilov and Hutter, "Decoupled weight decay regularization"; PyTorch's fused AdamW

#include "adamw.cuh"

#ifndef THREADS
#define THREADS 128
#endif
#ifndef VECTORS
#define VECTORS 2
#endif
static_assert(THREADS >= 32 && THREADS <= 1024, "adamw/vectorised: THREADS must be 32 to 1024");
static_assert(VECTORS >= 1 && VECTORS <= 8,
              "adamw/vectorised: VECTORS must be 1 to 8, they live in registers");

extern "C" __global__ __launch_bounds__(THREADS) void adamw_vectorised(
    float* __restrict__ param, const element_t* __restrict__ grad, float* __restrict__ exp_avg,
    float* __restrict__ exp_avg_sq, const float* __restrict__ found, const float* __restrict__ inv_scale,
    const float* __restrict__ norm, const int* __restrict__ skipped, float max_norm, float lr, float rate1,
    float rate2, float eps, float weight_decay, int step, long long n) {
    float* const half = nullptr;
    const auto begin = [=]() {
        const float factor = gradient_factor(inv_scale[0], norm[0], max_norm);
        return AdamW(factor, lr, rate1, rate2, eps, weight_decay, max(step - skipped[0], 1));
    };
    adamw_share<quad_t, THREADS, VECTORS, false>(param, grad, exp_avg, exp_avg_sq, half, found, n, true,
                                                 blockIdx.x, begin);
}
