// axpy/vectorised: sixteen bytes a thread: four floats or eight halves in one access.
//
// computes  z[i] = alpha * x[i] + y[i]
// mapping   thread i of the grid -> the 16 bytes i; the first threads also one of the elements left over
// load x 16 sectors/request
// load y 16 sectors/request
// store z 16 sectors/request
// teaches   A quarter of the requests for floats, an eighth for halves; the arithmetic stays in float, and
//           16-bit answers are rounded once. 12 bytes an element at the speed of a copy is the floor.
// source    BLAS level 1 (SAXPY), out of place

#include "element.cuh"

extern "C" __global__ void axpy_vectorised(const element_t* __restrict__ x, const element_t* __restrict__ y,
                                           element_t* __restrict__ z, float alpha, long long n) {
    constexpr int EACH = LANES(wide16_t);
    const long long whole = n / EACH;
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < whole) {
        const wide16_t x_wide = reinterpret_cast<const wide16_t*>(x)[i];
        const wide16_t y_wide = reinterpret_cast<const wide16_t*>(y)[i];
        float x_value[EACH], y_value[EACH], value[EACH];
        unpack<element_t>(x_wide, x_value);
        unpack<element_t>(y_wide, y_value);
#pragma unroll
        for (int k = 0; k < EACH; ++k) {
            value[k] = alpha * x_value[k] + y_value[k];
        }
        reinterpret_cast<wide16_t*>(z)[i] = pack<wide16_t, element_t>(value);
    }

    // Up to EACH - 1 elements are left at the end.
    const long long last = whole * EACH + i;
    if (last < n) {
        const element_t x_last = x[last];
        const element_t y_last = y[last];
        z[last] = from_float<element_t>(alpha * to_float(x_last) + to_float(y_last));
    }
}
