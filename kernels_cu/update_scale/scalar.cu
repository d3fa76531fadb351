// update_scale/scalar: what a loss scale becomes after a step, decided on the device.
//
// computes  if found[i]: scale[i] *= backoff, tracker[i] = 0, skipped[i] += 1; else after `interval` such steps in a
//           row: scale[i] *= growth unless that is infinite, tracker[i] = 0; inv_scale[i] = 1 / scale[i];
//           found[i] = 0
// mapping   thread i of the grid -> scale i
// load scale 4 sectors/request
// store scale 4 sectors/request
// store inv_scale 4 sectors/request
// load tracker 4 sectors/request
// store tracker 4 sectors/request
// load skipped 4 sectors/request
// store skipped 4 sectors/request
// load found 4 sectors/request
// store found 4 sectors/request
// teaches   A host that asks whether a step overflowed waits for all that is queued. Asked on the device, it does
//           not: this kernel decides, and those of the next step read what it decided.
// source    PyTorch's _amp_update_scale_, written anew

#include "gradients.cuh"

extern "C" __global__ void update_scale_scalar(float* __restrict__ scale, float* __restrict__ inv_scale,
                                               int* __restrict__ tracker, int* __restrict__ skipped,
                                               float* __restrict__ found, float growth, float backoff,
                                               int interval, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float before = scale[i];
        const bool is_skipped = found[i] != 0.0f;
        const int clean = is_skipped ? 0 : tracker[i] + 1;
        const bool is_grown = clean >= interval && is_finite(before * growth);
        const float after = before * (is_skipped ? backoff : is_grown ? growth : 1.0f);
        const int count = skipped[i] + (is_skipped ? 1 : 0);
        scale[i] = after;
        inv_scale[i] = 1.0f / after;
        tracker[i] = clean >= interval ? 0 : clean;
        skipped[i] = count;
        found[i] = 0.0f;
    }
}
