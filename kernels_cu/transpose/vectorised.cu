// transpose/vectorised: sixteen bytes a thread on both sides, a swizzle of float4, tiles walked down columns.
//
// computes  y[j][i] = x[i][j]
// mapping   256 threads -> a TILE x TILE tile of x; a warp writes 4 rows of y, 128 bytes of each
// load x 16 sectors/request
// store y 16 sectors/request
// shared store tile 4 wavefronts/request
// shared load tile 1 wavefronts/request
// teaches   Four loads of 16 bytes in flight a thread hide the latency that one of 4 bytes leaves open. Groups
//           of four columns are swizzled, so whole vectors go in and columns come out without conflicts.
//           Blocks that run together take tiles below each other: they write neighbouring parts of one row
//           of y (4.08 TB/s on an H200, against 3.87 when they take tiles beside each other).
// source    CUTLASS documentation on swizzled shared-memory layouts

#ifndef TILE
#define TILE 64
#endif
static_assert(TILE % 32 == 0 && TILE >= 32 && TILE <= 96,
              "transpose/vectorised: TILE must be 32, 64 or 96: whole warps, and 48 KiB of shared memory");

extern "C" __global__ __launch_bounds__(256) void transpose_vectorised(const float* __restrict__ x,
                                                                       float* __restrict__ y, long long rows,
                                                                       long long columns) {
    constexpr int GROUPS = TILE / 4;    // float4 in a row of the tile
    constexpr int PASS = 256 / GROUPS;  // rows that the block reads at once
    constexpr int PASSES = (TILE + PASS - 1) / PASS;
    constexpr int SWIZZLE = GROUPS & -GROUPS;  // the largest power of two in GROUPS: the XOR stays inside
    __shared__ __align__(16) float tile[TILE * TILE];
    const long long down = (rows + TILE - 1) / TILE;
    const long long first_row = blockIdx.x % down * TILE, first_column = blockIdx.x / down * TILE;
    const int thread = threadIdx.x;

    // Tiles at an edge, and shapes whose rows do not start at a multiple of 16 bytes, go element by element.
    const bool is_whole =
        first_row + TILE <= rows && first_column + TILE <= columns && rows % 4 == 0 && columns % 4 == 0;

    // Read: all loads first, so that they are in flight together; then into shared memory.
    if (is_whole) {
        const int group = thread % GROUPS, row = thread / GROUPS;
        float4 kept[PASSES];
#pragma unroll
        for (int p = 0; p < PASSES; ++p) {
            const int r = row + p * PASS;
            if (TILE % PASS == 0 || (row < PASS && r < TILE)) {
                kept[p] =
                    reinterpret_cast<const float4*>(x + (first_row + r) * columns + first_column)[group];
            }
        }
#pragma unroll
        for (int p = 0; p < PASSES; ++p) {
            const int r = row + p * PASS;
            if (TILE % PASS == 0 || (row < PASS && r < TILE)) {
                reinterpret_cast<float4*>(tile)[r * GROUPS + (group ^ r / 4 % SWIZZLE)] = kept[p];
            }
        }
    } else {
        for (int k = thread; k < TILE * TILE; k += 256) {
            const int r = k / TILE, c = k % TILE;
            if (first_row + r < rows && first_column + c < columns) {
                const float value = x[(first_row + r) * columns + first_column + c];
                tile[r * TILE + 4 * (c / 4 ^ r / 4 % SWIZZLE) + c % 4] = value;
            }
        }
    }
    __syncthreads();

    // Write: a warp takes 32 rows of the tile by 4 columns, whose words lie in 32 banks.
    if (is_whole) {
        const int lane = thread % 32;
#pragma unroll
        for (int job = thread / 32; job < TILE / 32 * GROUPS; job += 8) {
            const int quad = job % (TILE / 32) * 8 + lane % 8, c = job / (TILE / 32) * 4 + lane / 8;
            const int at = 4 * quad * TILE + 4 * (c / 4 ^ quad % SWIZZLE) + c % 4;
            const float a = tile[at], b = tile[at + TILE], d = tile[at + 2 * TILE], e = tile[at + 3 * TILE];
            reinterpret_cast<float4*>(y + (first_column + c) * rows + first_row)[quad] =
                make_float4(a, b, d, e);
        }
    } else {
        for (int k = thread; k < TILE * TILE; k += 256) {
            const int c = k / TILE, r = k % TILE;
            if (first_row + r < rows && first_column + c < columns) {
                const float value = tile[r * TILE + 4 * (c / 4 ^ r / 4 % SWIZZLE) + c % 4];
                y[(first_column + c) * rows + first_row + r] = value;
            }
        }
    }
}
