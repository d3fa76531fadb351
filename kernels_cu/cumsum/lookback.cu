// cumsum/lookback: one pass over memory: tiles look back at what others have published.
//
// computes  y[i] = x[0] + ... + x[i], or without x[i] where `exclusive` is 1
// mapping   block b -> tile b: a warp -> 32 * VECTORS neighbouring vectors of 16 bytes, a lane -> each 32nd
//           of them; warp 0 -> what comes before the tile
// load x 16 sectors/request
// store y 16 sectors/request
// shared store sums 1 wavefronts/request
// shared load sums 1.67 wavefronts/request
// teaches   One read and one write, where reduce-then-scan reads twice. A tile publishes its sum as soon as
//           it is known, and its prefix once it has found one behind it; meanwhile the other blocks of the
//           multiprocessor load and store. The order of the additions depends on who was first: floats may
//           differ in the last bits between runs; cumsum/grouped is the deterministic one. 8 bytes an
//           element at the speed of a copy is the floor.
// source    Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back"

#include "scan.cuh"

#ifndef THREADS
#define THREADS 256
#endif
#ifndef VECTORS
#define VECTORS 8
#endif
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "cumsum/lookback: THREADS must be whole warps");
static_assert(VECTORS >= 1 && VECTORS <= 8,
              "cumsum/lookback: VECTORS must be 1 to 8, they live in registers");

extern "C" __global__ __launch_bounds__(THREADS) void cumsum_lookback(const element_t* __restrict__ x,
                                                                      element_t* __restrict__ y,
                                                                      unsigned long long* state,
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
            publish(state + tile, tile == 0 ? PREFIX : AGGREGATE, aggregate);
        }
        const float tiles_before = tile == 0 ? 0.0f : look_back(state, tile);
        if (lane == 0) {
            if (tile > 0) {
                publish(state + tile, PREFIX, tiles_before + aggregate);
            }
            sums[WARPS] = tiles_before;
        }
    }
    __syncthreads();
    const float offset = sums[WARPS] + tile_sums.earlier;
    write_tile<wide16_t>(y, first, is_whole, n, exclusive, offset, value, before);
}
