// adamw/mixed: adamw/multi with 16-bit gradients that also writes the parameters in 16 bits.
//
// computes  g = factor * grad[i]; exp_avg[i] += rate1 * (g - exp_avg[i]); exp_avg_sq[i] += rate2 * (g * g -
//           exp_avg_sq[i]); param[i] -= lr * (weight_decay * param[i] + m / (sqrt(v) + eps)), where m and v are
//           both without their bias, and half[i] the same in 16 bits; nothing if found[0] is set
// mapping   a block -> VECTORS times as many quads of elements as threads, of the tensor that it finds in the
//           table, and its part of what no quad holds: of tensors that do not start at 16 bytes, everything
// load param 16 sectors/request
// load grad 8 sectors/request
// load exp_avg 16 sectors/request
// load exp_avg_sq 16 sectors/request
// store param 16 sectors/request
// store exp_avg 16 sectors/request
// store exp_avg_sq 16 sectors/request
// store half 8 sectors/request
// load found 1 sectors/request
// load inv_scale 1 sectors/request
// load norm 1 sectors/request
// load skipped 1 sectors/request
// teaches   A small update vanishes in 16 bits (1 + 2^-11 is 1 in float16), so the parameters that count are
//           floats, and the network sees a rounded copy. Written in the same pass it costs 2 bytes a parameter; a
//           cast of its own would read 4 more.
// source    Loshchilov and Hutter, "Decoupled weight decay regularization"; PyTorch's fused AdamW

#include "adamw.cuh"

#ifndef THREADS
#define THREADS 128
#endif
#ifndef VECTORS
#define VECTORS 2
#endif
#ifndef TENSORS
#define TENSORS 64
#endif
#ifndef HALF
#define HALF 0
#endif
#define half_t ElementOf<HALF ? HALF : ELEMENT>::type
static_assert(THREADS >= 32 && THREADS <= 1024, "adamw/mixed: THREADS must be 32 to 1024");
static_assert(VECTORS >= 1 && VECTORS <= 8, "adamw/mixed: VECTORS must be 1 to 8, they live in registers");
static_assert(TENSORS >= 1 && sizeof(tensors5_t) <= 32764,
              "adamw/mixed: TENSORS is too large, arguments have 32764 bytes at most");
static_assert(HALF >= 0 && HALF <= 2 && sizeof(half_t) == 2,
              "adamw/mixed: HALF must be 1 or 2 (float16, bfloat16), or 0 for that of the gradients");

extern "C" __global__ __launch_bounds__(THREADS) void adamw_mixed(
    const __grid_constant__ tensors5_t tensors, const float* __restrict__ found,
    const float* __restrict__ inv_scale, const float* __restrict__ norm, const int* __restrict__ skipped,
    float max_norm, float lr, float rate1, float rate2, float eps, float weight_decay, int step) {
    const auto begin = [=]() {
        const float factor = gradient_factor(inv_scale[0], norm[0], max_norm);
        return AdamW(factor, lr, rate1, rate2, eps, weight_decay, max(step - skipped[0], 1));
    };
    adamw_block<quad_t, THREADS, VECTORS, element_t, half_t>(tensors, found, begin);
}
