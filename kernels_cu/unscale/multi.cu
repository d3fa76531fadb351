// unscale/multi: one launch for many tensors: a table of pointers and lengths by value.
//
// computes  x[i] = x[i] * factor for each tensor; found[0] = 1 if any x[i] was infinite or NaN
// mapping   a block -> VECTORS times as many vectors of 16 bytes as threads, of the tensor that it finds in the
//           table; the first threads of a tensor also its elements left over; a tensor that does not start at 16
//           bytes -> an element a thread in each round
// load x 16 sectors/request
// store x 16 sectors/request
// store found 1 sectors/request
// load inv_scale 1 sectors/request
// load norm 1 sectors/request
// teaches   A network has hundreds of tensors, most of them small: a launch each is time in which nothing is
//           moved. The check costs nothing, as the values are in registers already; whoever sees one that is
//           not finite says so, and nobody else writes.
// source    PyTorch's multi_tensor_apply and _amp_foreach_non_finite_check_and_unscale_, written anew

#include "element.cuh"
#include "gradients.cuh"
#include "tensors.cuh"

#ifndef THREADS
#define THREADS 256
#endif
#ifndef VECTORS
#define VECTORS 4
#endif
#ifndef TENSORS
#define TENSORS 64
#endif
static_assert(THREADS >= 32 && THREADS <= 1024, "unscale/multi: THREADS must be 32 to 1024");
static_assert(VECTORS >= 1 && VECTORS <= 16,
              "unscale/multi: VECTORS must be 1 to 16, they live in registers");
static_assert(TENSORS >= 1 && sizeof(tensors1_t) <= 32764,
              "unscale/multi: TENSORS is too large, arguments have 32764 bytes at most");

extern "C" __global__ __launch_bounds__(THREADS) void unscale_multi(
    const __grid_constant__ tensors1_t tensors, float* __restrict__ found,
    const float* __restrict__ inv_scale, const float* __restrict__ norm, float max_norm) {
    constexpr int EACH = LANES(wide16_t);
    const unsigned k = tensor_of(tensors, blockIdx.x);
    element_t* const x = static_cast<element_t*>(tensors.address[0][k]);
    const long long n = tensors.length[k];
    const unsigned block = blockIdx.x - tensors.first_block[k];
    const float factor = gradient_factor(inv_scale[0], norm[0], max_norm);
    const bool is_wide = are_wide(tensors, k);
    const long long whole = is_wide ? n / EACH : 0;
    const long long first = (long long)block * (THREADS * VECTORS) + threadIdx.x;
    bool is_right = true;

    // All loads first.
    wide16_t loaded[VECTORS];
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
        const long long i = first + v * THREADS;
        if (i < whole) {
            loaded[v] = reinterpret_cast<const wide16_t*>(x)[i];
        }
    }

    // Then arithmetic and stores.
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
        const long long i = first + v * THREADS;
        if (i < whole) {
            float value[EACH];
            unpack<element_t>(loaded[v], value);
#pragma unroll
            for (int j = 0; j < EACH; ++j) {
                is_right &= is_finite(value[j]);
                value[j] *= factor;
            }
            reinterpret_cast<wide16_t*>(x)[i] = pack<wide16_t, element_t>(value);
        }
    }

    // What is left: less than a vector, or the block's whole share.
    const long long begin =
        is_wide ? whole * EACH + (long long)block * THREADS : (long long)block * (THREADS * VECTORS * EACH);
    const long long end = is_wide ? n : min(n, begin + THREADS * VECTORS * EACH);
#pragma unroll 1
    for (long long i = begin + threadIdx.x; i < end; i += THREADS) {
        const element_t element = x[i];
        const float value = to_float(element);
        is_right &= is_finite(value);
        x[i] = from_float<element_t>(value * factor);
    }
    if (!is_right) {
        found[0] = 1.0f;
    }
}
