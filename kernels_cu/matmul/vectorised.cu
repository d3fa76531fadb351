// matmul/vectorised: sixteen bytes at a time, from global memory, into shared memory and out of it.
//
// computes  y[i][j] = sum of a[i][q] * b[q][j] over q
// mapping   256 threads -> a tile of 128 x 128; a thread has two quads of rows by two quads of columns
// load a 16 sectors/request
// load b 16 sectors/request
// store y 16 sectors/request
// shared store a_tile 1 wavefronts/request
// shared store b_tile 4 wavefronts/request
// shared load a_tile 2 wavefronts/request
// shared load b_tile 4 wavefronts/request
// teaches   Four loads instead of sixteen serve 64 multiplications, once a thread's values are neighbours: a goes
//           into shared memory transposed. Lanes that share their quad in pairs get it in half the time: those
//           of a do, those of b do not.
// source    CUTLASS, "Efficient GEMM in CUDA"

#include "product.cuh"

// A quad of a row that may end within it; whole where rows start at multiples of 16 bytes.
__device__ __forceinline__ void read_quad(const float* __restrict__ from, long long length, bool is_wide,
                                          float* value) {
#pragma unroll
    for (int l = 0; l < 4; ++l) {
        value[l] = !is_wide && l < length ? from[l] : 0.0f;
    }
}

extern "C" __global__ __launch_bounds__(256) void matmul_vectorised(const float* __restrict__ a,
                                                                    const float* __restrict__ b,
                                                                    float* __restrict__ y, long long m,
                                                                    long long n, long long k) {
    __shared__ __align__(16) float a_tile[8][BLOCKED_PITCH], b_tile[8][BLOCKED_PITCH];
    const Place place = tile_place(blockIdx.x, m, n, 128, 128);
    const int thread = threadIdx.x, row = thread / 16 * 4, column = thread % 16 * 4;
    const int left_row = thread / 2, left_depth = thread % 2 * 4, right_depth = thread / 32,
              right_column = thread % 32 * 4;
    const bool is_wide = n % 4 == 0 && k % 4 == 0;
    float sum[8][8] = {};

    for (long long start = 0; start < k; start += 8) {
        // A quad of a, stored down a column, and a quad of b; 0 beyond an edge.
        const long long a_at = (place.row + left_row) * k + start + left_depth;
        const long long b_at = (start + right_depth) * n + place.column + right_column;
        const long long a_length = place.row + left_row < m ? k - start - left_depth : 0;
        const long long b_length = start + right_depth < k ? n - place.column - right_column : 0;
        float value[4], other[4];
        read_quad(a + a_at, a_length, is_wide, value);
        read_quad(b + b_at, b_length, is_wide, other);
        if (is_wide && a_length > 0) {
            const float4 quad = *reinterpret_cast<const float4*>(a + a_at);
            unpack<float>(quad, value);
        }
        if (is_wide && b_length > 0) {
            const float4 quad = *reinterpret_cast<const float4*>(b + b_at);
            unpack<float>(quad, other);
        }
#pragma unroll
        for (int l = 0; l < 4; ++l) {
            a_tile[left_depth + l][left_row] = value[l];
        }
        *reinterpret_cast<float4*>(&b_tile[right_depth][right_column]) = pack<float4, float>(other);
        __syncthreads();

        // Four quads from shared memory, 64 multiplications.
#pragma unroll
        for (int q = 0; q < 8; ++q) {
            float left[8], right[8];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float4 a_quad = *reinterpret_cast<const float4*>(&a_tile[q][row + 64 * half]);
                const float4 b_quad = *reinterpret_cast<const float4*>(&b_tile[q][column + 64 * half]);
                unpack<float>(a_quad, left + 4 * half);
                unpack<float>(b_quad, right + 4 * half);
            }
#pragma unroll
            for (int i = 0; i < 8; ++i) {
#pragma unroll
                for (int j = 0; j < 8; ++j) {
                    sum[i][j] = fmaf(left[i], right[j], sum[i][j]);
                }
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const long long r = place.row + row + i / 4 * 64 + i % 4;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const long long c = place.column + column + 64 * half;
            if (is_wide && r < m && c < n) {
                reinterpret_cast<float4*>(y + r * n)[c / 4] = pack<float4, float>(sum[i] + 4 * half);
            }
#pragma unroll
            for (int l = 0; l < 4; ++l) {
                if (!is_wide && r < m && c + l < n) {
                    y[r * n + c + l] = sum[i][4 * half + l];
                }
            }
        }
    }
}
