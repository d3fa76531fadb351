// matmul_nt_bias_gelu/wmma: tensor cores by nvcuda::wmma, tiles in shared memory, bias and GeLU before rounding; any shape.
//
// computes  y[i][j] = gelu(bias[j] + sum of a[i][q] * b[j][q] over q)
// mapping   a warp -> 32 x 64 of y, 256 threads -> 128 x 128; b is (n, k)
// load a 2 sectors/request
// load b 2 sectors/request
// load bias 1 sectors/request
// store y 2 sectors/request
// shared store a_tile 1 wavefronts/request
// shared store b_tile 1 wavefronts/request
// shared load a_tile 4 wavefronts/request
// shared load b_tile 4 wavefronts/request
// shared load patch 2 wavefronts/request
// teaches   A bias belongs to a column, and the column of a fragment's element is not defined: sums go through
//           shared memory as floats, where rows and columns are, and only the finished value is rounded.
// source    CUDA programming guide, "Warp matrix functions"

#include "gelu.cuh"
#include "wmma.cuh"

static_assert(ELEMENT == 1 || ELEMENT == 2, "matmul_nt_bias_gelu/wmma: elements must have 16 bits");

extern "C" __global__ __launch_bounds__(256) void matmul_nt_bias_gelu_wmma(
    const element_t* __restrict__ a, const element_t* __restrict__ b, const element_t* __restrict__ bias,
    element_t* __restrict__ y, long long m, long long n, long long k, int form) {
    __shared__ FragmentTiles<true, element_t> tiles;
    const auto finish = [=](float value, long long column) {
        return gelu(value + to_float(bias[column]), form);
    };
    fragment_product(a, b, y, m, n, k, tiles, finish);
}
