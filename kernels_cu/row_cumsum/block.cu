// row_cumsum/block: a block a row, tile after tile, with the sum so far carried along.
//
// computes  y[r][i] = x[r][0] + ... + x[r][i], or without x[r][i] where `exclusive` is 1
// mapping   block r -> row r; a warp -> 32 * VECTORS neighbouring vectors of 16 bytes of each tile
// load x 16 sectors/request
// store y 16 sectors/request
// shared store sums 1 wavefronts/request
// shared load sums 2 wavefronts/request
// teaches   Rows need not know of each other, so there is nothing to publish and nothing to look back at; but
//           few rows leave most of the device idle, which cumsum/grouped does not. Rows that are no whole
//           number of vectors start between multiples of 16 bytes and go by elements.
// source    GPU Gems 3, chapter 39, "Arrays of Arbitrary Size"

#include "scan.cuh"

#ifndef THREADS
#define THREADS 256
#endif
#ifndef VECTORS
#define VECTORS 4
#endif
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "row_cumsum/block: THREADS must be whole warps");
static_assert(VECTORS >= 1 && VECTORS <= 8,
              "row_cumsum/block: VECTORS must be 1 to 8, they live in registers");

extern "C" __global__ __launch_bounds__(THREADS) void row_cumsum_block(const element_t* __restrict__ x,
                                                                       element_t* __restrict__ y,
                                                                       int exclusive, long long columns) {
    constexpr int EACH = LANES(wide16_t), WARPS = THREADS / 32, TILE = THREADS * VECTORS * EACH;
    __shared__ __align__(16) float sums[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const long long row = (long long)blockIdx.x * columns;
    float carry = 0.0f;
#pragma unroll 1
    for (long long start = 0; start < columns; start += TILE) {
        // Read, and scan within the tile.
        const long long first = start / EACH + warp * (32 * VECTORS) + lane;
        const bool is_whole = start + TILE <= columns && columns % EACH == 0;
        float value[VECTORS][EACH], before[VECTORS];
        read_tile<wide16_t>(x + row, first, is_whole, columns, value);
        const TileSums tile_sums = scan_tile<WARPS>(value, before, sums);
        __syncthreads();

        // Write, and carry the sum along.
        write_tile<wide16_t>(y + row, first, is_whole, columns, exclusive, carry + tile_sums.earlier, value,
                             before);
        carry += tile_sums.aggregate;
    }
}
