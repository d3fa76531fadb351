// matmul_bias_gelu/wgmma: Hopper's own way: TMA brings tiles, warpgroups multiply them, blocks stay.
//
// computes  y[i][j] = gelu(bias[j] + sum of a[i][q] * b[q][j] over q)
// mapping   a warpgroup -> 64 x COLUMNS of y, a block -> ROWS x COLUMNS, one thread loads; b is (k, n)
// load bias 1 sectors/request
// teaches   The epilogue costs what no product hides: at k = 2048 a tile's GeLU is a tenth of its products. So
//           its instructions are few: the bias is read before the products, two values share a reciprocal.
// source    CUTLASS, "Efficient GEMM in CUDA": warp specialisation, persistent tiles; PTX ISA, wgmma

#include "biases.cuh"
#include "warpgroups.cuh"

#ifndef ROWS
#define ROWS 128
#endif
#ifndef COLUMNS
#define COLUMNS 256
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef CLUSTER
#define CLUSTER 1
#endif
#ifndef BAND
#define BAND 16
#endif
static_assert(ROWS == 128 && (COLUMNS == 128 || COLUMNS == 256),
              "matmul_bias_gelu/wgmma: tiles are 128 x 128 or 128 x 256");
static_assert(STAGES >= 2 && STAGES * (ROWS + COLUMNS) * 128 + ROWS * 256 + 1024 <= 232448,
              "matmul_bias_gelu/wgmma: STAGES steps of both tiles must fit into shared memory");
static_assert(CLUSTER == 1 || CLUSTER == 2, "matmul_bias_gelu/wgmma: CLUSTER must be 1 or 2");
static_assert(BAND >= 1, "matmul_bias_gelu/wgmma: BAND must be at least 1");
static_assert(ELEMENT == 1 || ELEMENT == 2, "matmul_bias_gelu/wgmma: elements must have 16 bits");
using Tile = Product<ROWS, COLUMNS, STAGES, CLUSTER>;

extern "C" __global__ __cluster_dims__(CLUSTER)
    __launch_bounds__(Tile::THREADS, 1) void matmul_bias_gelu_wgmma(const __grid_constant__ TileMap a,
                                                                    const __grid_constant__ TileMap b,
                                                                    const element_t* __restrict__ bias,
                                                                    const __grid_constant__ TileMap y,
                                                                    long long m, long long n, long long k,
                                                                    int form) {
    const auto biases = [=](int column) { return Biases<COLUMNS, element_t>(bias, column, n); };
    if (form) {
        Tile::run<true, element_t>(
            a, b, y, m, n, k, BAND, biases,
            [](const auto& found, int j, float* value) { found.template finish<true>(j, value); });
    } else {
        Tile::run<true, element_t>(
            a, b, y, m, n, k, BAND, biases,
            [](const auto& found, int j, float* value) { found.template finish<false>(j, value); });
    }
}
