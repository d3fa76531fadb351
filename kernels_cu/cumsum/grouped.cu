// cumsum/grouped: one pass, and the same bits in every run: tiles look back within fixed groups.
//
// computes  y[i] = x[0] + ... + x[i], or without x[i] where `exclusive` is 1
// mapping   block b -> tile b: a warp -> 32 * VECTORS neighbouring vectors of 16 bytes, a lane -> each 32nd
//           of them; warp 0 -> what comes before the tile
// load x 16 sectors/request
// store y 16 sectors/request
// shared store sums 1 wavefronts/request
// shared load sums 1.8 wavefronts/request
// teaches   A tile adds the sums of its group, up to GROUP - 1 words, to the prefix that the last tile of
//           the group before has published: the same terms in the same order every time. The chain of
//           waiting is one step a group.
// source    Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", regular search

#include "scan.cuh"

#ifndef THREADS
#define THREADS 512
#endif
#ifndef VECTORS
#define VECTORS 7
#endif
#ifndef GROUP
#define GROUP 1024
#endif
static_assert(GROUP >= 32 && GROUP <= 2048 && GROUP % 32 == 0, "cumsum/grouped: GROUP must be whole warps");
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "cumsum/grouped: THREADS must be whole warps");
static_assert(VECTORS >= 1 && VECTORS <= 8, "cumsum/grouped: VECTORS must be 1 to 8, they live in registers");

extern "C" __global__ __launch_bounds__(THREADS) void cumsum_grouped(const element_t* __restrict__ x,
                                                                     element_t* __restrict__ y,
                                                                     unsigned long long* state,
                                                                     unsigned long long* carries,
                                                                     int exclusive, long long n) {
    constexpr int EACH = LANES(wide16_t), WARPS = THREADS / 32;
    __shared__ float sums[WARPS + 1];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // Blocks start in the order of their index, so a tile waits only for tiles that run or are done; CUB's scan
    // relies on it too. Tiles numbered by an atomic counter would not need that, but each block's first load
    // would wait for the atomic and for a barrier.
    const long long tile = blockIdx.x;
    const long long first = (tile * WARPS + warp) * (32 * VECTORS) + lane;

    // Read, and scan within the tile.
    const bool is_whole = (tile + 1) * (THREADS * VECTORS * EACH) <= n;
    float value[VECTORS][EACH], before[VECTORS];
    read_tile<wide16_t>(x, first, is_whole, n, value);
    const TileSums tile_sums = scan_tile<WARPS>(value, before, sums);
    const float aggregate = tile_sums.aggregate;

    // Warp 0: publish the tile's sum, then ask the tiles before.
    if (warp == 0) {
        if (lane == 0) {
            publish(state + tile, AGGREGATE, aggregate);
        }
        const float tiles_before = look_back_in_group<GROUP>(state, carries, tile);
        if (lane == 0) {
            if (tile % GROUP == GROUP - 1) {
                publish(carries + tile / GROUP, PREFIX, tiles_before + aggregate);
            }
            sums[WARPS] = tiles_before;
        }
    }
    __syncthreads();
    const float offset = sums[WARPS] + tile_sums.earlier;
    write_tile<wide16_t>(y, first, is_whole, n, exclusive, offset, value, before);
}
