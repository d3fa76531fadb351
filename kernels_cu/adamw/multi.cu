// adamw/multi: one launch for many tensors, each array read and written once.
//
// computes  g = factor * grad[i]; exp_avg[i] += rate1 * (g - exp_avg[i]); exp_avg_sq[i] += rate2 * (g * g -
//           exp_avg_sq[i]); param[i] -= lr * (weight_decay * param[i] + m / (sqrt(v) + eps)), where m and v are
//           both without their bias; nothing if found[0] is set
// mapping   a block -> ROUNDS times VECTORS times as many quads of elements as threads, of the tensor that it
//           finds in the table; the first threads of a tensor also its elements left over; tensors that do not
//           start at 16 bytes -> an element a thread in each round
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
// teaches   Four arrays read and three written, 28 bytes a parameter: at the speed of a copy that is the floor,
//           and every step done apart (unscaling, clipping, decay, two means, the update) would move some of them
//           again. What decides over a step (scale, norm, whether it is skipped, how many were) is read from
//           memory, so the host never waits for it.
// source    Loshchilov and Hutter, "Decoupled weight decay regularization"; PyTorch's fused AdamW

#include "adamw.cuh"
#include "tensors.cuh"

#ifndef THREADS
#define THREADS 256
#endif
#ifndef VECTORS
#define VECTORS 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef TENSORS
#define TENSORS 64
#endif
static_assert(THREADS >= 32 && THREADS <= 1024, "adamw/multi: THREADS must be 32 to 1024");
static_assert(VECTORS >= 1 && VECTORS <= 8, "adamw/multi: VECTORS must be 1 to 8, they live in registers");
static_assert(ROUNDS >= 1, "adamw/multi: ROUNDS must be at least 1");
static_assert(TENSORS >= 1 && sizeof(tensors4_t) <= 32764,
              "adamw/multi: TENSORS is too large, arguments have 32764 bytes at most");

extern "C" __global__ __launch_bounds__(THREADS) void adamw_multi(
    const __grid_constant__ tensors4_t tensors, const float* __restrict__ found,
    const float* __restrict__ inv_scale, const float* __restrict__ norm, const int* __restrict__ skipped,
    float max_norm, float lr, float rate1, float rate2, float eps, float weight_decay, int step) {
    constexpr int SHARE = THREADS * VECTORS * ROUNDS;
    const unsigned k = tensor_of(tensors, blockIdx.x);
    float* const param = static_cast<float*>(tensors.address[0][k]);
    const element_t* const grad = static_cast<const element_t*>(tensors.address[1][k]);
    float* const exp_avg = static_cast<float*>(tensors.address[2][k]);
    float* const exp_avg_sq = static_cast<float*>(tensors.address[3][k]);
    const bool is_wide = are_wide(tensors, k);
    const long long n = tensors.length[k], whole = is_wide ? n / 4 : 0;
    const long long share = (long long)(blockIdx.x - tensors.first_block[k]) * SHARE;
    const float factor = gradient_factor(inv_scale[0], norm[0], max_norm);
    const AdamW adamw(factor, lr, rate1, rate2, eps, weight_decay, step - skipped[0]);
    const bool is_taken = found[0] == 0.0f;

    // Quads: all loads of a round first, then arithmetic and stores.
#pragma unroll 1
    for (int round = 0; round < ROUNDS; ++round) {
        const long long first = share + round * (THREADS * VECTORS) + threadIdx.x;
        float4 params[VECTORS], means[VECTORS], squares[VECTORS];
        quad_t grads[VECTORS];
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) {
            const long long i = first + v * THREADS;
            if (i < whole) {
                grads[v] = reinterpret_cast<const quad_t*>(grad)[i];
                params[v] = reinterpret_cast<const float4*>(param)[i];
                means[v] = reinterpret_cast<const float4*>(exp_avg)[i];
                squares[v] = reinterpret_cast<const float4*>(exp_avg_sq)[i];
            }
        }
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) {
            const long long i = first + v * THREADS;
            if (i < whole && is_taken) {
                float p[4], g[4], m[4], s[4];
                unpack<float>(params[v], p), unpack<element_t>(grads[v], g);
                unpack<float>(means[v], m), unpack<float>(squares[v], s);
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    adamw.update(p[j], g[j], m[j], s[j]);
                }
                reinterpret_cast<float4*>(param)[i] = pack<float4, float>(p);
                reinterpret_cast<float4*>(exp_avg)[i] = pack<float4, float>(m);
                reinterpret_cast<float4*>(exp_avg_sq)[i] = pack<float4, float>(s);
            }
        }
    }

    // What is left: less than a quad, or the block's whole share.
    const long long begin = is_wide ? whole * 4 + share : share * 4;
    const long long end = !is_taken ? 0 : is_wide ? n : min(n, begin + 4 * SHARE);
#pragma unroll 1
    for (long long i = begin + threadIdx.x; i < end; i += THREADS) {
        const element_t element = grad[i];
        float p = param[i], m = exp_avg[i], s = exp_avg_sq[i];
        adamw.update(p, to_float(element), m, s);
        param[i] = p, exp_avg[i] = m, exp_avg_sq[i] = s;
    }
}
