// matmul_nt/buffered: copies that run ahead, two sets of fragments, warps with tiles of their own.
//
// computes  y[i][j] = sum of a[i][q] * b[j][q] over q
// mapping   256 threads -> a tile of ROWS x COLUMNS; STEP of k at a time, STAGES of them in shared memory
// load a 4 sectors/request
// load b 4 sectors/request
// store y 16 sectors/request
// shared load a_tile 2 wavefronts/request
// shared load b_tile 2 wavefronts/request
// teaches   Nothing waits: copies for later steps are under way, the next fragments are loaded while 64 products
//           of this one are formed. 1024 of 1167 instructions of the main loop multiply. Lanes are paired so that a
//           load of 16 bytes takes two wavefronts, where the obvious order takes four.
// source    CUTLASS, "Efficient GEMM in CUDA"

#include "product_buffered.cuh"

#ifndef ROWS
#define ROWS 128
#endif
#ifndef COLUMNS
#define COLUMNS 128
#endif
#ifndef STEP
#define STEP 16
#endif
#ifndef STAGES
#define STAGES 3
#endif
static_assert(ROWS == 128 || ROWS == 256, "matmul_nt/buffered: ROWS must be 128 or 256");
static_assert(COLUMNS == 64 || COLUMNS == 128 || COLUMNS == 256,
              "matmul_nt/buffered: COLUMNS must be 64, 128 or 256");
static_assert(STEP % 8 == 0 && STAGES >= 2,
              "matmul_nt/buffered: STEP must be a multiple of 8, STAGES at least 2");

extern "C" __global__ __launch_bounds__(256, ROWS* COLUMNS > 128 * 128 ? 1 : 2) void matmul_nt_buffered(
    const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ y, long long m, long long n,
    long long k) {
    extern __shared__ __align__(16) float tiles[];
    using Product = BufferedProduct<ROWS, COLUMNS, STEP, STAGES, true>;
    const auto prepare = [](long long) { return 0.0f; };
    const auto finish = [](float, float value) { return value; };
    Product::run(a, b, y, m, n, k, tiles, prepare, finish);
}
