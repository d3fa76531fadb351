// unscale/vectorised: a launch for each tensor, whole vectors of 16 bytes.
//
// computes  x[i] = x[i] * factor; found[0] = 1 if any x[i] was infinite or NaN
// mapping   a block -> VECTORS times as many vectors of 16 bytes as threads; also its part of what no vector
//           holds
// load x 16 sectors/request
// store x 16 sectors/request
// store found 1 sectors/request
// load inv_scale 1 sectors/request
// load norm 1 sectors/request
// teaches   In place, a tensor is read and written once: 4 bytes a half. A large tensor runs at the speed of a
//           copy; of many small ones each still costs a launch.
// source    PyTorch's _amp_foreach_non_finite_check_and_unscale_, written anew

#include "gradients.cuh"

#ifndef THREADS
#define THREADS 128
#endif
#ifndef VECTORS
#define VECTORS 1
#endif
#ifndef KEEPS
#define KEEPS 0
#endif
static_assert(THREADS >= 32 && THREADS <= 1024, "unscale/vectorised: THREADS must be 32 to 1024");
static_assert(VECTORS >= 1 && VECTORS <= 16,
              "unscale/vectorised: VECTORS must be 1 to 16, they live in registers");
static_assert(KEEPS == 0 || KEEPS == 1,
              "unscale/vectorised: KEEPS must be 0, or 1 to look and write nothing");

extern "C" __global__ __launch_bounds__(THREADS) void unscale_vectorised(element_t* __restrict__ x,
                                                                         float* __restrict__ found,
                                                                         const float* __restrict__ inv_scale,
                                                                         const float* __restrict__ norm,
                                                                         float max_norm, long long n) {
    const float factor = gradient_factor(inv_scale[0], norm[0], max_norm);
    if (!unscale_share<wide16_t, THREADS, VECTORS, KEEPS>(x, n, true, blockIdx.x, factor)) {
        found[0] = 1.0f;
    }
}
