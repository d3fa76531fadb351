// unscale/scalar: a launch for each tensor, one element a thread.
//
// computes  x[i] = x[i] * factor; found[0] = 1 if any x[i] was infinite or NaN
// mapping   thread i of the grid -> element i
// load x 4 sectors/request
// store x 4 sectors/request
// store found 1 sectors/request
// load inv_scale 1 sectors/request
// load norm 1 sectors/request
// teaches   The check costs nothing, as the value is in a register already: whoever sees one that is not finite
//           says so, and nobody else writes. Scale and norm are read from memory, so the host need not know them.
// source    PyTorch's _amp_foreach_non_finite_check_and_unscale_, written anew

#include "gradients.cuh"

extern "C" __global__ void unscale_scalar(element_t* __restrict__ x, float* __restrict__ found,
                                          const float* __restrict__ inv_scale, const float* __restrict__ norm,
                                          float max_norm, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float factor = gradient_factor(inv_scale[0], norm[0], max_norm);
        const element_t element = x[i];
        x[i] = from_float<element_t>(to_float(element) * factor);
        if (!is_finite(to_float(element))) {
            found[0] = 1.0f;
        }
    }
}
