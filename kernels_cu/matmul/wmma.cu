// matmul/wmma: tensor cores by nvcuda::wmma, tiles in shared memory; any shape.
//
// computes  y[i][j] = sum of a[i][q] * b[q][j] over q
// mapping   a warp -> 32 x 64 of y, 256 threads -> 128 x 128; b is (k, n)
// load a 2 sectors/request
// load b 2 sectors/request
// store y 2 sectors/request
// shared store a_tile 1 wavefronts/request
// shared store b_tile 1 wavefronts/request
// shared load a_tile 4 wavefronts/request
// shared load b_tile 4 wavefronts/request
// shared load patch 2 wavefronts/request
// teaches   Tensor cores from plain C++: 16 x 16 x 16 at a time, sums in float. A warp owns a fragment together;
//           what a lane holds of it is not defined, so everything goes in and out through memory, and nothing
//           can be ordered or swizzled: a tenth of what the chip can do.
// source    CUDA programming guide, "Warp matrix functions"

#include "wmma.cuh"

static_assert(ELEMENT == 1 || ELEMENT == 2, "matmul/wmma: elements must have 16 bits");

extern "C" __global__ __launch_bounds__(256) void matmul_wmma(const element_t* __restrict__ a,
                                                              const element_t* __restrict__ b,
                                                              element_t* __restrict__ y, long long m,
                                                              long long n, long long k) {
    __shared__ FragmentTiles<false, element_t> tiles;
    const auto finish = [](float value, long long) { return value; };
    fragment_product(a, b, y, m, n, k, tiles, finish);
}
