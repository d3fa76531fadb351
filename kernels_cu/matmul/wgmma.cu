// matmul/wgmma: Hopper's own way: TMA brings tiles, warpgroups multiply them, blocks stay.
//
// computes  y[i][j] = sum of a[i][q] * b[q][j] over q
// mapping   a warpgroup -> 64 x COLUMNS of y, a block -> ROWS x COLUMNS, one thread loads; b is (k, n)
// teaches   One thread keeps STAGES steps on their way by TMA, two warpgroups multiply from shared memory, and
//           the answer leaves by TMA while the next tile's steps arrive. Here b comes by rows of k: wgmma takes it
//           so, in columns of 64. Registers hold only sums: 128 a thread, so a tile of 128 x 256 asks shared
//           memory for least.
// source    CUTLASS, "Efficient GEMM in CUDA": warp specialisation, persistent tiles; PTX ISA, wgmma

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
              "matmul/wgmma: tiles are 128 x 128 or 128 x 256");
static_assert(STAGES >= 2 && STAGES * (ROWS + COLUMNS) * 128 + ROWS * 256 + 1024 <= 232448,
              "matmul/wgmma: STAGES steps of both tiles must fit into shared memory");
static_assert(CLUSTER == 1 || CLUSTER == 2, "matmul/wgmma: CLUSTER must be 1 or 2");
static_assert(BAND >= 1, "matmul/wgmma: BAND must be at least 1");
static_assert(ELEMENT == 1 || ELEMENT == 2, "matmul/wgmma: elements must have 16 bits");
using Tile = Product<ROWS, COLUMNS, STAGES, CLUSTER>;

extern "C" __global__ __cluster_dims__(CLUSTER)
    __launch_bounds__(Tile::THREADS, 1) void matmul_wgmma(const __grid_constant__ TileMap a,
                                                          const __grid_constant__ TileMap b,
                                                          const __grid_constant__ TileMap y, long long m,
                                                          long long n, long long k) {
    Tile::run<true, element_t>(a, b, y, m, n, k, BAND, [](int) { return 0; }, [](int, int, float*) {});
}
