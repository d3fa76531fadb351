// matmul_bias_gelu/mma: mma.sync from swizzled tiles that cp.async brings in time, bias and GeLU on the sums.
//
// computes  y[i][j] = gelu(bias[j] + sum of a[i][q] * b[q][j] over q)
// mapping   a warp -> 64 x 64 of y, a block -> ROWS x COLUMNS; b is (k, n); n and k are multiples of 8
// load a 16 sectors/request
// load b 16 sectors/request
// load bias 1 sectors/request
// store y 16 sectors/request
// shared load ring 4 wavefronts/request
// shared store patch 1 wavefronts/request
// shared load piece 4 wavefronts/request
// teaches   The bias belongs to a column, and where a lane's sums lie is defined for mma.sync, so it is added and
//           GeLU applied in registers, before the answer is rounded: no array between, no second launch.
// source    PTX ISA, mma.m16n8k16, ldmatrix, cp.async; CUTLASS, "Efficient GEMM in CUDA"

#include "biases.cuh"
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
              "matmul_bias_gelu/mma: ROWS and COLUMNS must be multiples of 64, at most 128 x 256");
static_assert((DEPTH == 32 || DEPTH == 64) && STAGES >= 2,
              "matmul_bias_gelu/mma: DEPTH must be 32 or 64, STAGES at least 2");
static_assert(ELEMENT == 1 || ELEMENT == 2, "matmul_bias_gelu/mma: elements must have 16 bits");

extern "C" __global__ __launch_bounds__(ROWS* COLUMNS / 128) void matmul_bias_gelu_mma(
    const element_t* __restrict__ a, const element_t* __restrict__ b, const element_t* __restrict__ bias,
    element_t* __restrict__ y, long long m, long long n, long long k, int form) {
    extern __shared__ __align__(1024) unsigned char ring[];
    using Product = WarpProduct<ROWS, COLUMNS, DEPTH, STAGES, false>;
    const auto prepare = [=](long long column) { return Biases<64, element_t>(bias, column, n); };
    if (form) {
        Product::run(a, b, y, m, n, k, ring, prepare,
                     [](const auto& biases, int j, float* value) { biases.template finish<true>(j, value); });
    } else {
        Product::run(a, b, y, m, n, k, ring, prepare, [](const auto& biases, int j, float* value) {
            biases.template finish<false>(j, value);
        });
    }
}
