// Products of matrices on the CUDA cores: which tile a block takes, and the register-blocked product of any shape.
#ifndef KERNELLAB_PRODUCT_CUH
#define KERNELLAB_PRODUCT_CUH

#include "element.cuh"

// Which tile a block takes: eight rows of tiles together, down before across, so that blocks that run at the same
// time share their parts of `a` and `b` in L2.
struct Tile {
    int row, column;
};
__device__ __forceinline__ Tile tile_of(long long m, long long n, int rows, int columns) {
    constexpr unsigned TOGETHER = 8;
    const unsigned down = (unsigned)((m + rows - 1) / rows), across = (unsigned)((n + columns - 1) / columns);
    const unsigned group = TOGETHER * across, band = blockIdx.x / group * TOGETHER,
                   within = blockIdx.x % group;
    const unsigned high = min(down - band, TOGETHER);
    return {(int)(band + within % high), (int)(within / high)};
}

// Where that tile begins.
struct Place {
    long long row, column;
};
__device__ __forceinline__ Place tile_place(unsigned, long long m, long long n, int rows, int columns) {
    const Tile tile = tile_of(m, n, rows, columns);
    return {tile.row * (long long)rows, tile.column * (long long)columns};
}

// Eight by eight elements of a tile of 128 x 128 for each of 256 threads, eight steps of k at a time; any shape.
// `finish(prepare(column), value)` gives what is written for a sum.
//
// A thread's rows and columns lie 16 apart: neighbouring lanes read neighbouring words. Rows of the tiles are four
// words longer than 128, so that what comes in along k is stored down a column without conflicts.
#define BLOCKED_PITCH 132
template <bool is_turned, class T, class Prepare, class Finish>
__device__ __forceinline__ void blocked_product(const T* __restrict__ a, const T* __restrict__ b,
                                                T* __restrict__ y, long long m, long long n, long long k,
                                                float (*a_tile)[BLOCKED_PITCH],
                                                float (*b_tile)[BLOCKED_PITCH], Prepare prepare,
                                                Finish finish) {
    const Place place = tile_place(blockIdx.x, m, n, 128, 128);
    const int thread = threadIdx.x, lane_row = thread / 16, lane_column = thread % 16;
    float sum[8][8] = {};

    for (long long start = 0; start < k; start += 8) {
        // Eight columns of a and eight rows of b, as floats; 0 beyond the end.
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int r = thread / 8 + 32 * i, q = thread % 8;
            const bool is_inside = place.row + r < m && start + q < k;
            a_tile[q][r] = is_inside ? to_float(a[(place.row + r) * k + start + q]) : 0.0f;
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int c = is_turned ? thread / 8 + 32 * i : thread % 128;
            const int q = is_turned ? thread % 8 : thread / 128 + 2 * i;
            const bool is_inside = place.column + c < n && start + q < k;
            const long long at =
                is_turned ? (place.column + c) * k + start + q : (start + q) * n + place.column + c;
            b_tile[q][c] = is_inside ? to_float(b[at]) : 0.0f;
        }
        __syncthreads();

        // Sixteen values from shared memory, 64 multiplications.
#pragma unroll
        for (int q = 0; q < 8; ++q) {
            float left[8], right[8];
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                left[i] = a_tile[q][lane_row + 16 * i];
                right[i] = b_tile[q][lane_column + 16 * i];
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
    for (int j = 0; j < 8; ++j) {
        const long long column = place.column + lane_column + 16 * j;
        const float prepared = column < n ? prepare(column) : 0.0f;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const long long row = place.row + lane_row + 16 * i;
            if (row < m && column < n) {
                y[row * n + column] = from_float<T>(finish(prepared, sum[i][j]));
            }
        }
    }
}

#endif
