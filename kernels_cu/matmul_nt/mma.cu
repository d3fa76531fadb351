// matmul_nt/mma: mma.sync from swizzled tiles that cp.async brings in time.
//
// computes  y[i][j] = sum of a[i][q] * b[j][q] over q
// mapping   a warp -> 64 x 64 of y, a block -> ROWS x COLUMNS; b is (n, k); n and k are multiples of 8
// load a 16 sectors/request
// load b 16 sectors/request
// store y 16 sectors/request
// shared load ring 4 wavefronts/request
// shared store patch 1 wavefronts/request
// shared load piece 4 wavefronts/request
// teaches   Rows of b are columns of the product, which is how mma.sync wants its second operand: ldmatrix takes
//           both tiles alike. Pieces of 16 bytes are swizzled by the row, so that eight rows lie in all banks.
// source    PTX ISA, mma.m16n8k16, ldmatrix, cp.async; CUTLASS, "Efficient GEMM in CUDA"

#include "warps.cuh"

#ifndef ROWS
#define ROWS 128
#endif
#ifndef COLUMNS
#define COLUMNS 128
#endif
#ifndef DEPTH
#define DEPTH 64
#endif
#ifndef STAGES
#define STAGES 3
#endif
static_assert(ROWS % 64 == 0 && COLUMNS % 64 == 0 && ROWS * COLUMNS <= 128 * 256,
              "matmul_nt/mma: ROWS and COLUMNS must be multiples of 64, at most 128 x 256");
static_assert((DEPTH == 32 || DEPTH == 64) && STAGES >= 2,
              "matmul_nt/mma: DEPTH must be 32 or 64, STAGES at least 2");
static_assert(ELEMENT == 1 || ELEMENT == 2, "matmul_nt/mma: elements must have 16 bits");

extern "C" __global__ __launch_bounds__(ROWS* COLUMNS /
                                        128) void matmul_nt_mma(const element_t* __restrict__ a,
                                                                const element_t* __restrict__ b,
                                                                element_t* __restrict__ y, long long m,
                                                                long long n, long long k) {
    extern __shared__ __align__(1024) unsigned char ring[];
    using Product = WarpProduct<ROWS, COLUMNS, DEPTH, STAGES, true>;
    const auto prepare = [](long long) { return 0; };
    const auto finish = [](int, int, float*) {};
    Product::run(a, b, y, m, n, k, ring, prepare, finish);
}
