// triad/vectorised: sixteen bytes a thread: four floats or eight halves in one access.
//
// computes  y[i] = a[i] * b[i] + c[i]
// mapping   thread i of the grid -> the 16 bytes i; the first threads also one of the elements left over
// load a 16 sectors/request
// load b 16 sectors/request
// load c 16 sectors/request
// store y 16 sectors/request
// teaches   A quarter of the requests for floats, an eighth for halves; the arithmetic stays in float, and
//           16-bit answers are rounded once. 16 bytes an element at the speed of a copy is the floor.
// source    the vector triad of Schoenauer

#include "element.cuh"

extern "C" __global__ void triad_vectorised(const element_t* __restrict__ a, const element_t* __restrict__ b,
                                            const element_t* __restrict__ c, element_t* __restrict__ y,
                                            long long n) {
    constexpr int EACH = LANES(wide16_t);
    const long long whole = n / EACH;
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < whole) {
        const wide16_t a_wide = reinterpret_cast<const wide16_t*>(a)[i];
        const wide16_t b_wide = reinterpret_cast<const wide16_t*>(b)[i];
        const wide16_t c_wide = reinterpret_cast<const wide16_t*>(c)[i];
        float a_value[EACH], b_value[EACH], c_value[EACH], value[EACH];
        unpack<element_t>(a_wide, a_value);
        unpack<element_t>(b_wide, b_value);
        unpack<element_t>(c_wide, c_value);
#pragma unroll
        for (int k = 0; k < EACH; ++k) {
            value[k] = a_value[k] * b_value[k] + c_value[k];
        }
        reinterpret_cast<wide16_t*>(y)[i] = pack<wide16_t, element_t>(value);
    }

    // Up to EACH - 1 elements are left at the end.
    const long long last = whole * EACH + i;
    if (last < n) {
        const element_t a_last = a[last];
        const element_t b_last = b[last];
        const element_t c_last = c[last];
        y[last] = from_float<element_t>(to_float(a_last) * to_float(b_last) + to_float(c_last));
    }
}
