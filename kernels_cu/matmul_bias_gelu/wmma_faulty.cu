// matmul_bias_gelu/wmma_faulty: an exhibit: a bias by fragment element, and float sums stored as half.
//
// computes  y[i][j] = gelu(bias[j] + sum of a[i][q] * b[q][j] over q), it believes
// mapping   a warp -> 16 x 16 of y; m, n and k are multiples of 16; float16 only
// load a 8 sectors/request
// load b 8 sectors/request
// load bias 1 sectors/request
// store y 2 sectors/request
// shared load patch 2 wavefronts/request
// teaches   Element e of a fragment is not column e: where it stands in the matrix is not defined, so a bias cannot
//           be looked up by it. Equal biases hide that. And store_matrix_sync writes what the fragment holds, a
//           float to a float: as it was written (AS_WRITTEN 1) this does not even compile.
// source    two faults found in a published example, rebuilt here

#include "gelu.cuh"
#include "wmma.cuh"

#ifndef AS_WRITTEN
#define AS_WRITTEN 0
#endif
static_assert(AS_WRITTEN == 0 || AS_WRITTEN == 1, "matmul_bias_gelu/wmma_faulty: AS_WRITTEN must be 0 or 1");

extern "C" __global__ __launch_bounds__(32) void matmul_bias_gelu_wmma_faulty(
    const element_t* __restrict__ a, const element_t* __restrict__ b, const element_t* __restrict__ bias,
    element_t* __restrict__ y, long long m, long long n, long long k, int form) {
    using namespace nvcuda;
    __shared__ __align__(32) float patch[16 * 24];
    const long long row = blockIdx.x / (n / 16) * 16, column = blockIdx.x % (n / 16) * 16;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
#pragma unroll 1
    for (long long q = 0; q < k; q += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, element_t, wmma::row_major> left;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, element_t, wmma::row_major> right;
        wmma::load_matrix_sync(left, a + row * k + q, k);
        wmma::load_matrix_sync(right, b + q * n + column, n);
        wmma::mma_sync(sum, left, right, sum);
    }

    // Wrong on purpose: e counts what this lane holds, not columns.
    for (int e = 0; e < sum.num_elements; ++e) {
        sum.x[e] = gelu(sum.x[e] + to_float(bias[column + e]), form);
    }
#if AS_WRITTEN
    // Wrong on purpose: a fragment of floats, a matrix of halves.
    wmma::store_matrix_sync(y + row * n + column, sum, n, wmma::mem_row_major);
#else
    float* const corner = patch;
    wmma::store_matrix_sync(corner, sum, 24, wmma::mem_row_major);
    __syncwarp();
#pragma unroll
    for (int e = threadIdx.x; e < 256; e += 32) {
        const float value = patch[e / 16 * 24 + e % 16];
        y[(row + e / 16) * n + column + e % 16] = from_float<element_t>(value);
    }
#endif
}
