// scale/unrolled: several vectors a thread, all loads before the first store.
//
// computes  y[i] = alpha * x[i]
// mapping   a block -> VECTORS times as many vectors of 16 bytes as threads, a block's width apart for each
//           thread; the first threads of the grid also the elements left over
// load x 16 sectors/request
// store y 16 sectors/request
// teaches   What is in flight decides: 2048 threads a multiprocessor with one vector each are 32 KiB, which
//           about keeps an H200's memory busy: scale/vectorised does, scalar loads do not. Several vectors a
//           thread bring as much where fewer threads are resident. Loads of one thread overlap only if they
//           stand before the first use; a store between them that may alias would part them. 8 bytes an
//           element at the speed of a copy is the floor.
// source    STREAM (McCalpin), kernel Scale

#include "element.cuh"

#ifndef VECTORS
#define VECTORS 4
#endif
static_assert(VECTORS >= 1 && VECTORS <= 16,
              "scale/unrolled: VECTORS must be 1 to 16, they live in registers");

extern "C" __global__ void scale_unrolled(const element_t* __restrict__ x, element_t* __restrict__ y,
                                          float alpha, long long n) {
    constexpr int EACH = LANES(wide16_t);
    const long long whole = n / EACH;
    const long long first = (long long)blockIdx.x * blockDim.x * VECTORS + threadIdx.x;

    // All loads first.
    wide16_t x_wide[VECTORS];
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
        const long long i = first + v * (int)blockDim.x;
        if (i < whole) {
            x_wide[v] = reinterpret_cast<const wide16_t*>(x)[i];
        }
    }

    // Then arithmetic and stores.
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
        const long long i = first + v * (int)blockDim.x;
        if (i < whole) {
            float x_value[EACH], value[EACH];
            unpack<element_t>(x_wide[v], x_value);
#pragma unroll
            for (int k = 0; k < EACH; ++k) {
                value[k] = alpha * x_value[k];
            }
            reinterpret_cast<wide16_t*>(y)[i] = pack<wide16_t, element_t>(value);
        }
    }

    // Up to EACH - 1 elements are left at the end.
    const long long last = whole * EACH + (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (last < n) {
        const element_t x_last = x[last];
        y[last] = from_float<element_t>(alpha * to_float(x_last));
    }
}
