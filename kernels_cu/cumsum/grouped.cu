// cumsum/grouped: one pass, and the same bits in every run: tiles look back within fixed groups.
//
// computes  y[i] = x[0] + ... + x[i], or without x[i] where `exclusive` is 1
// mapping   block b -> tile b: a warp -> 32 * VECTORS neighbouring vectors of 16 bytes, a lane -> each 32nd
//           of them; warp 0 -> what comes before the tile
// load x 16 sectors/request
// store y 16 sectors/request
// shared store sums 1 wavefronts/request
// shared load sums 1.67 wavefronts/request
// teaches   A tile adds the sums of its group, up to GROUP - 1 words, to the prefix that the last tile of
//           the group before has published: the same terms in the same order every time. The chain of
//           waiting is one step a group.
// source    Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", regular search

#include "scan.cuh"

#ifndef THREADS
#define THREADS 256
#endif
#ifndef VECTORS
#define VECTORS 4
#endif
#ifndef GROUP
#define GROUP 256
#endif
static_assert(GROUP >= 32 && GROUP <= 1024 && GROUP % 32 == 0, "cumsum/grouped: GROUP must be whole warps");
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
    // Blocks start in the order of their index, so a tile waits only for tiles that run or are done.
    const long long tile = blockIdx.x;
    const long long first = (tile * WARPS + warp) * (32 * VECTORS) + lane;

    // Read: all loads of a whole tile first; the tile that the array ends in goes by elements.
    const bool is_whole = (tile + 1) * (THREADS * VECTORS * EACH) <= n;
    float value[VECTORS][EACH];
    if (is_whole) {
        wide16_t loaded[VECTORS];
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) {
            loaded[v] = reinterpret_cast<const wide16_t*>(x)[first + 32 * v];
        }
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) {
            unpack<element_t>(loaded[v], value[v]);
        }
    } else {
#pragma unroll
        for (int j = 0; j < VECTORS * EACH; ++j) {
            const long long i = (first + 32 * (j / EACH)) * EACH + j % EACH;
            value[j / EACH][j % EACH] = 0.0f;
            if (i < n) {
                const element_t one = x[i];
                value[j / EACH][j % EACH] = to_float(one);
            }
        }
    }

    // Sums of vectors, scanned over the warp: before[v] is what the warp's part holds before vector v.
    float before[VECTORS];
    const float sum = scan_vectors<VECTORS, EACH>(value, before);
    if (lane == 0) {
        sums[warp] = sum;
    }
    __syncthreads();

    // Every warp: what the warps before it hold. Warp 0: publish the tile's sum, then ask the tiles before.
    float earlier = 0.0f, aggregate = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
        const float part = sums[w];
        earlier = w == warp ? aggregate : earlier;
        aggregate += part;
    }
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
    const float offset = sums[WARPS] + earlier;

    // Write: the running sum through each vector.
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
        const long long i = first + 32 * v;
        float running = offset + before[v], answer[EACH];
#pragma unroll
        for (int k = 0; k < EACH; ++k) {
            const float next = running + value[v][k];
            answer[k] = exclusive ? running : next;
            running = next;
        }
        if (is_whole) {
            reinterpret_cast<wide16_t*>(y)[i] = pack<wide16_t, element_t>(answer);
        } else {
#pragma unroll
            for (int k = 0; k < EACH; ++k) {
                if (i * EACH + k < n) {
                    y[i * EACH + k] = from_float<element_t>(answer[k]);
                }
            }
        }
    }
}
