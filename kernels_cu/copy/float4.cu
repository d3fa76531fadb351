// copy/float4: sixteen bytes a thread; a quarter of the requests for the same bytes.
//
// computes  y[i] = x[i]
// mapping   thread i of the grid -> the 16 bytes i, four floats; the first threads also take one of the last
// load x 16 sectors/request
// store y 16 sectors/request
// teaches   A request of 512 bytes is 16 sectors: as coalesced as copy/scalar, with a quarter of the
//           instructions. Both pointers must be 16-byte aligned; a slice such as x[1:] is not.
// source    NVIDIA technical blog, "CUDA Pro Tip: Increase Performance with Vectorized Memory Access"

#include "element.cuh"

extern "C" __global__ void copy_float4(const element_t* __restrict__ x, element_t* __restrict__ y,
                                       long long n) {
    constexpr int EACH = LANES(uint4);
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;

    // Whole vectors; stored by members, or the line table would blame the load on the line of the store.
    // The bound is in vectors, as the index is: mixing the units is copy/float4_faulty.
    const long long vectors = n / EACH;
    if (i < vectors) {
        const uint4 value = reinterpret_cast<const uint4*>(x)[i];
        reinterpret_cast<uint4*>(y)[i] = make_uint4(value.x, value.y, value.z, value.w);
    }

    // Up to EACH - 1 elements are left at the end.
    const long long last = vectors * EACH + i;
    if (last < n) {
        const element_t value = x[last];
        y[last] = value;
    }
}
