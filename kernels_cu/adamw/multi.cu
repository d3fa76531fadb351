// adamw/multi: one launch for many tensors: a table of pointers and lengths by value.
//
// computes  g = factor * grad[i]; exp_avg[i] += rate1 * (g - exp_avg[i]); exp_avg_sq[i] += rate2 * (g * g -
//           exp_avg_sq[i]); param[i] -= lr * (weight_decay * param[i] + m / (sqrt(v) + eps)), where m and v are
//           both without their bias; nothing if found[0] is set
// mapping   a block -> VECTORS times as many quads of elements as threads, of the tensor that it finds in the
//           table, and its part of what no quad holds: of tensors that do not start at 16 bytes, everything
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
// teaches   A network has hundreds of tensors, most of them small. What decides over a step (scale, norm, whether
//           it is skipped, how many were) is read from memory, after the first loads and not before them: so the
//           host never waits for it, and neither does the memory.
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
static_assert(THREADS >= 32 && THREADS <= 1024, "adamw/multi: THREADS must be 32 to 1024");
static_assert(VECTORS >= 1 && VECTORS <= 8, "adamw/multi: VECTORS must be 1 to 8, they live in registers");
static_assert(TENSORS >= 1 && sizeof(tensors4_t) <= 32764,
              "adamw/multi: TENSORS is too large, arguments have 32764 bytes at most");

extern "C" __global__ __launch_bounds__(THREADS) void adamw_multi(
    const __grid_constant__ tensors4_t tensors, const float* __restrict__ found,
    const float* __restrict__ inv_scale, const float* __restrict__ norm, const int* __restrict__ skipped,
    float max_norm, float lr, float rate1, float rate2, float eps, float weight_decay, int step) {
    const auto begin = [=]() {
        const float factor = gradient_factor(inv_scale[0], norm[0], max_norm);
        return AdamW(factor, lr, rate1, rate2, eps, weight_decay, max(step - skipped[0], 1));
    };
    adamw_block<quad_t, THREADS, VECTORS, element_t, float>(tensors, found, begin);
}
