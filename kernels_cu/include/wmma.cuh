// The product by nvcuda::wmma, the tensor cores' portable interface: any shape, elements of 16 bits.
#ifndef KERNELLAB_WMMA_CUH
#define KERNELLAB_WMMA_CUH

#include <mma.h>

#include "product.cuh"

template <bool is_turned>
struct LayoutOf {
    using type = nvcuda::wmma::row_major;
};
template <>
struct LayoutOf<true> {
    using type = nvcuda::wmma::col_major;
};

// 256 threads take 128 x 128 of the answer, 32 steps of k at a time. Rows are eight elements longer than they need to
// be: eight rows below each other then begin in different banks.
template <bool is_turned, class T>
struct alignas(32) FragmentTiles {
    static constexpr int LENGTH = 128, DEEP = 32, PITCH = DEEP + 8;
    static constexpr int B_ROWS = is_turned ? LENGTH : DEEP, B_COLUMNS = is_turned ? DEEP : LENGTH;
    static constexpr int B_PITCH = B_COLUMNS + 8, PATCH_PITCH = 24;
    T a[LENGTH * PITCH];
    T b[B_ROWS * B_PITCH];
    float patch[8][16 * PATCH_PITCH];
};

// `finish(value, column)` gives what is written for a sum.
template <bool is_turned, class T, class Finish>
__device__ __forceinline__ void fragment_product(const T* __restrict__ a, const T* __restrict__ b,
                                                 T* __restrict__ y, long long m, long long n, long long k,
                                                 FragmentTiles<is_turned, T>& tiles, Finish finish) {
    using namespace nvcuda;
    using S = FragmentTiles<is_turned, T>;
    using Layout = typename LayoutOf<is_turned>::type;
    const Place place = tile_place(blockIdx.x, m, n, S::LENGTH, S::LENGTH);
    const int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
    const int warp_row = warp / 2 * 32, warp_column = warp % 2 * 64;
    T *const a_tile = tiles.a, *const b_tile = tiles.b;
    float* const corner = tiles.patch[warp];

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum[2][4];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        wmma::fill_fragment(sum[i / 4][i % 4], 0.0f);
    }
    for (long long start = 0; start < k; start += S::DEEP) {
        // Element by element, so that no row needs to start anywhere in particular; 0 beyond an edge.
#pragma unroll
        for (int i = 0; i < S::LENGTH * S::DEEP / 256; ++i) {
            const int r = (thread + 256 * i) / S::DEEP, q = thread % S::DEEP;
            const bool is_inside = place.row + r < m && start + q < k;
            a_tile[r * S::PITCH + q] = is_inside ? a[(place.row + r) * k + start + q] : from_float<T>(0.0f);
        }
        const long long first_row = is_turned ? place.column : start, b_rows = is_turned ? n : k;
        const long long first_column = is_turned ? start : place.column, b_columns = is_turned ? k : n;
#pragma unroll
        for (int i = 0; i < S::LENGTH * S::DEEP / 256; ++i) {
            const int r = (thread + 256 * i) / S::B_COLUMNS, c = thread % S::B_COLUMNS;
            const long long row = first_row + r, column = first_column + c;
            const bool is_inside = row < b_rows && column < b_columns;
            b_tile[r * S::B_PITCH + c] = is_inside ? b[row * b_columns + column] : from_float<T>(0.0f);
        }
        __syncthreads();

        // A warp multiplies 32 x 16 by 16 x 64: six fragments from shared memory, eight products.
#pragma unroll
        for (int q = 0; q < S::DEEP; q += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> left[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, T, Layout> right;
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                wmma::load_matrix_sync(left[i], a_tile + (warp_row + i * 16) * S::PITCH + q, S::PITCH);
            }
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                const int c = warp_column + j * 16, at = is_turned ? c * S::B_PITCH + q : q * S::B_PITCH + c;
                wmma::load_matrix_sync(right, b_tile + at, S::B_PITCH);
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    wmma::mma_sync(sum[i][j], left[i], right, sum[i][j]);
                }
            }
        }
        __syncthreads();
    }

    // Which element of a fragment a lane holds is nobody's business: only memory says where it stands in the matrix.
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        wmma::store_matrix_sync(corner, sum[i / 4][i % 4], S::PATCH_PITCH, wmma::mem_row_major);
        __syncwarp();
#pragma unroll
        for (int e = lane; e < 256; e += 32) {
            const float value = tiles.patch[warp][e / 16 * S::PATCH_PITCH + e % 16];
            const long long row = place.row + warp_row + i / 4 * 16 + e / 16;
            const long long column = place.column + warp_column + i % 4 * 16 + e % 16;
            if (row < m && column < n) {
                y[row * n + column] = from_float<T>(finish(value, column));
            }
        }
        __syncwarp();
    }
}

#endif
