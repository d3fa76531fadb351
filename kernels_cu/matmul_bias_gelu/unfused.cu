// matmul_bias_gelu/unfused: a chain of two kernels: the product to memory, then bias and GeLU from there.
//
// computes  y[i][j] = gelu(bias[j] + sum of a[i][q] * b[q][j] over q)
// mapping   as matmul/mma; then as bias_gelu/vectorised, half of whose request 128 columns fill
// load a 16 sectors/request
// load b 16 sectors/request
// load bias 8 sectors/request
// store y 10.67 sectors/request
// shared load ring 4 wavefronts/request
// shared store patch 1 wavefronts/request
// shared load piece 4 wavefronts/request
// teaches   The array between is written once and read once, which no product hides, and is rounded to 16 bits
//           before the bias is added. Products grow as the cube and the array as the square: what fusing gives
//           is most where k is small.
// source    a product and a streaming kernel, one after the other

#include "gelu.cuh"
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
              "matmul_bias_gelu/unfused: ROWS and COLUMNS must be multiples of 64, at most 128 x 256");
static_assert((DEPTH == 32 || DEPTH == 64) && STAGES >= 2,
              "matmul_bias_gelu/unfused: DEPTH must be 32 or 64, STAGES at least 2");
static_assert(ELEMENT == 1 || ELEMENT == 2, "matmul_bias_gelu/unfused: elements must have 16 bits");

extern "C" __global__ __launch_bounds__(ROWS* COLUMNS / 128) void matmul_bias_gelu_unfused_product(
    const element_t* __restrict__ a, const element_t* __restrict__ b, element_t* __restrict__ h, long long m,
    long long n, long long k) {
    extern __shared__ __align__(1024) unsigned char ring[];
    using Product = WarpProduct<ROWS, COLUMNS, DEPTH, STAGES, false>;
    const auto prepare = [](long long) { return 0; };
    const auto finish = [](int, int, float*) {};
    Product::run(a, b, h, m, n, k, ring, prepare, finish);
}

extern "C" __global__ __launch_bounds__(128) void matmul_bias_gelu_unfused_gelu(
    const element_t* __restrict__ h, const element_t* __restrict__ bias, element_t* __restrict__ y,
    long long m, long long n, int form) {
    with_bias<128, 128, 4>(h, bias, y, m, n, [=](float* value) { gelu_all<LANES(wide16_t)>(value, form); });
}
