// transpose/vectorised: sixteen bytes a thread on both sides, a swizzle of vectors, tiles walked down columns.
//
// computes  y[j][i] = x[i][j]
// mapping   256 threads -> a square tile of x whose rows are LINES times 128 bytes; a warp writes 128 bytes
//           each of 4 rows of y, of 8 rows for 2-byte elements and of 16 for 1-byte ones
// load x 16 sectors/request
// store y 16 sectors/request
// shared store tile 4 wavefronts/request
// shared load tile 1 wavefronts/request
// teaches   Several loads of 16 bytes in flight a thread hide the latency that one of 4 bytes leaves open.
//           Vectors are swizzled: they go in whole, and columns come out without conflicts. Elements
//           smaller than a word come out in words, a row's part of 2 or 4 columns in each, and byte
//           permutations part the columns in registers. Blocks that run together take tiles below each
//           other: they write neighbouring parts of one row of y.
// source    CUTLASS documentation on swizzled shared-memory layouts

#include "element.cuh"
#include "turn.cuh"

#ifndef LINES
#define LINES 1
#endif
static_assert(LINES >= 1 && LINES * LINES * 16 / sizeof(element_t) <= 48,
              "transpose/vectorised: LINES * LINES * 16 KiB / the size of an element must not exceed 48 KiB");

extern "C" __global__ __launch_bounds__(256) void transpose_vectorised(const element_t* __restrict__ x,
                                                                       element_t* __restrict__ y,
                                                                       long long rows, long long columns) {
    constexpr int BYTES = sizeof(element_t), EACH = LANES(uint4), TILE = 8 * LINES * EACH;
    constexpr int TURN = TILE & -TILE;  // the largest power of two in TILE: the XOR stays inside
    constexpr int GROUPS = 8 * LINES, PASSES = (TILE * GROUPS + 255) / 256;  // vectors in a row; a thread
    using word_t = TurnOf<BYTES>::word;
    using wide_t = TurnOf<BYTES>::wide;
    constexpr int SHARE = sizeof(word_t) / BYTES, PITCH = TILE / SHARE, WORDS = 16 / sizeof(word_t);
    __shared__ __align__(16) element_t tile[TILE * TILE];
    const long long down = (rows + TILE - 1) / TILE;
    const long long first_row = blockIdx.x % down * TILE, first_column = blockIdx.x / down * TILE;
    const int thread = threadIdx.x;

    // Tiles at an edge, and shapes whose rows do not start at a multiple of 16 bytes, go element by element; an
    // XOR by the row then parts a column over the banks.
    const bool is_whole =
        first_row + TILE <= rows && first_column + TILE <= columns && rows % EACH == 0 && columns % EACH == 0;

    // Read: all loads first, so that they are in flight together; then into shared memory.
    if (is_whole) {
        uint4 kept[PASSES];
#pragma unroll
        for (int p = 0; p < PASSES; ++p) {
            const int k = thread + p * 256, r = k / GROUPS;
            if (k < TILE * GROUPS) {
                kept[p] =
                    reinterpret_cast<const uint4*>(x + (first_row + r) * columns + first_column)[k % GROUPS];
            }
        }
#pragma unroll
        for (int p = 0; p < PASSES; ++p) {
            const int k = thread + p * 256, r = k / GROUPS;
            if (k < TILE * GROUPS) {
                reinterpret_cast<uint4*>(tile)[r * GROUPS + (k % GROUPS ^ r / EACH % 8)] = kept[p];
            }
        }
    } else {
        for (int start = thread; start < TILE * TILE; start += 4 * 256) {
            element_t kept[4];
#pragma unroll
            for (int p = 0; p < 4; ++p) {
                const int k = start + p * 256, r = k / TILE, c = k % TILE;
                if (r < TILE && first_row + r < rows && first_column + c < columns) {
                    kept[p] = x[(first_row + r) * columns + first_column + c];
                }
            }
#pragma unroll
            for (int p = 0; p < 4; ++p) {
                const int k = start + p * 256, r = k / TILE, c = k % TILE;
                if (r < TILE && first_row + r < rows && first_column + c < columns) {
                    tile[r * TILE + (c ^ r % TURN)] = kept[p];
                }
            }
        }
    }
    __syncthreads();

    // Write: a lane takes a vector's worth of rows of one column of words; the words of a warp lie in 32 banks.
    if (is_whole) {
        const int lane = thread % 32;
#pragma unroll
        for (int job = thread / 32; job < LINES * PITCH / 4; job += 8) {
            const int q = job % LINES * 8 + lane % 8, w = job / LINES * 4 + lane / 8;
            const int at = EACH * q * PITCH + WORDS * (w / WORDS ^ q % 8) + w % WORDS;
            word_t words[EACH];
#pragma unroll
            for (int k = 0; k < EACH; ++k) {
                words[k] = reinterpret_cast<const word_t*>(tile)[at + k * PITCH];
            }
#pragma unroll
            for (int e = 0; e < SHARE; ++e) {
                const long long c = first_column + SHARE * w + e;
                reinterpret_cast<wide_t*>(y + c * rows + first_row)[q] = column_of<BYTES>(words, e);
            }
        }
    } else {
        for (int k = thread; k < TILE * TILE; k += 256) {
            const int c = k / TILE, r = k % TILE;
            if (first_row + r < rows && first_column + c < columns) {
                const element_t value = tile[r * TILE + (c ^ r % TURN)];
                y[(first_column + c) * rows + first_row + r] = value;
            }
        }
    }
}
