// update_scale/scalar: what a loss scale becomes after a step, decided on the device.
//
// computes  if found[i]: scale[i] *= backoff, tracker[i] = 0; else after `interval` such steps in a row:
//           scale[i] *= growth, tracker[i] = 0; scale[i] stays within 2^-126 and 2^126; inv_scale[i] = 1 / scale[i];
//           found[i] = 0
// mapping   thread i of the grid -> scale i
// load scale 4 sectors/request
// store scale 4 sectors/request
// store inv_scale 4 sectors/request
// load tracker 4 sectors/request
// store tracker 4 sectors/request
// load found 4 sectors/request
// store found 4 sectors/request
// teaches   A host that asks whether a step overflowed waits for all that is queued. Asked on the device, it does
//           not: this kernel decides, and those of the next step read what it decided. Beyond 2^126 one over the
//           scale would be denormal, below 2^-126 infinite at last: so it stops there.
// source    PyTorch's _amp_update_scale_, written anew

extern "C" __global__ void update_scale_scalar(float* __restrict__ scale, float* __restrict__ inv_scale,
                                               int* __restrict__ tracker, float* __restrict__ found,
                                               float growth, float backoff, int interval, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const bool is_skipped = found[i] != 0.0f;
        const int clean = is_skipped ? 0 : tracker[i] + 1;
        const float factor = is_skipped ? backoff : clean >= interval ? growth : 1.0f;
        const float after = fminf(fmaxf(scale[i] * factor, 0x1p-126f), 0x1p126f);
        scale[i] = after;
        inv_scale[i] = 1.0f / after;
        tracker[i] = clean >= interval ? 0 : clean;
        found[i] = 0.0f;
    }
}
