// scale/vectorised: sixteen bytes a thread: four floats or eight halves in one access.
//
// computes  y[i] = alpha * x[i]
// mapping   thread i of the grid -> the 16 bytes i; the first threads also one of the elements left over
// load x 16 sectors/request
// store y 16 sectors/request
// teaches   A quarter of the requests for floats, an eighth for halves; the arithmetic stays in float, and
//           16-bit answers are rounded once. 8 bytes an element at the speed of a copy is the floor.
// source    STREAM (McCalpin), kernel Scale

#include "element.cuh"

extern "C" __global__ void scale_vectorised(const element_t* __restrict__ x, element_t* __restrict__ y,
                                            float alpha, long long n) {
    constexpr int EACH = LANES(wide16_t);
    const long long whole = n / EACH;
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < whole) {
        const wide16_t x_wide = reinterpret_cast<const wide16_t*>(x)[i];
        float x_value[EACH], value[EACH];
        unpack<element_t>(x_wide, x_value);
#pragma unroll
        for (int k = 0; k < EACH; ++k) {
            value[k] = alpha * x_value[k];
        }
        reinterpret_cast<wide16_t*>(y)[i] = pack<wide16_t, element_t>(value);
    }

    // Up to EACH - 1 elements are left at the end.
    const long long last = whole * EACH + i;
    if (last < n) {
        const element_t x_last = x[last];
        y[last] = from_float<element_t>(alpha * to_float(x_last));
    }
}
