// unscale/multi: one launch for many tensors: a table of pointers and lengths by value.
//
// computes  x[i] = x[i] * factor for each tensor; found[0] = 1 if any x[i] was infinite or NaN
// mapping   a block -> VECTORS times as many vectors of 16 bytes as threads, of the tensor that it finds in the
//           table, and its part of what no vector holds: of a tensor that does not start at 16 bytes, everything
// load x 16 sectors/request
// store x 16 sectors/request
// store found 1 sectors/request
// load inv_scale 1 sectors/request
// load norm 1 sectors/request
// teaches   A network has hundreds of tensors, most of them small: a launch each is time in which nothing is
//           moved. Arguments lie in constant memory, where a block finds its tensor by a binary search, the same
//           for all its threads. Blocks are small, so that others move data while one searches.
// source    PyTorch's multi_tensor_apply and _amp_foreach_non_finite_check_and_unscale_, written anew

#include "gradients.cuh"
#include "tensors.cuh"

#ifndef THREADS
#define THREADS 128
#endif
#ifndef VECTORS
#define VECTORS 2
#endif
#ifndef KEEPS
#define KEEPS 0
#endif
#ifndef TENSORS
#define TENSORS 64
#endif
static_assert(THREADS >= 32 && THREADS <= 1024, "unscale/multi: THREADS must be 32 to 1024");
static_assert(VECTORS >= 1 && VECTORS <= 16,
              "unscale/multi: VECTORS must be 1 to 16, they live in registers");
static_assert(KEEPS == 0 || KEEPS == 1, "unscale/multi: KEEPS must be 0, or 1 to look and write nothing");
static_assert(TENSORS >= 1 && sizeof(tensors1_t) <= 32764,
              "unscale/multi: TENSORS is too large, arguments have 32764 bytes at most");

extern "C" __global__ __launch_bounds__(THREADS) void unscale_multi(
    const __grid_constant__ tensors1_t tensors, float* __restrict__ found,
    const float* __restrict__ inv_scale, const float* __restrict__ norm, float max_norm) {
    const unsigned k = tensor_of(tensors, blockIdx.x);
    element_t* const x = static_cast<element_t*>(tensors.address[0][k]);
    const unsigned block = blockIdx.x - tensors.first_block[k];
    const float factor = gradient_factor(inv_scale[0], norm[0], max_norm);
    if (!unscale_share<wide16_t, THREADS, VECTORS, KEEPS>(x, tensors.length[k], are_wide(tensors, k), block,
                                                          factor)) {
        found[0] = 1.0f;
    }
}
