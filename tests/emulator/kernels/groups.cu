// Cooperative groups of a block, of tiles and of the lanes that are there.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

extern "C" __global__ void sum_groups(const int* x, int* y, int* parts, int n) {
    __shared__ int sums[8];
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    int i = blockIdx.x * block.size() + block.thread_rank();
    int value = i < n ? x[i] : 0;
    value = cg::reduce(warp, value, cg::plus<int>());
    if (warp.thread_rank() == 0) sums[warp.meta_group_rank()] = value;
    block.sync();
    if (warp.meta_group_rank() == 0) {
        auto tile = cg::tiled_partition<8>(warp);
        int total = tile.meta_group_rank() == 0 ? sums[tile.thread_rank()] : 0;
        for (int k = tile.size() / 2; k; k /= 2) total += tile.shfl_xor(total, k);
        if (warp.thread_rank() == 0) y[blockIdx.x] = total;
    }
    auto quad = cg::tiled_partition<4>(block);
    int most = cg::reduce(quad, i < n ? x[i] : -1, cg::greater<int>());
    if (quad.thread_rank() == 0 && i < n) parts[i / 4] = most;
}

extern "C" __global__ void compact(const int* x, int* y, int* count, int n) {  // warp-aggregated atomics
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > 0) {
        cg::coalesced_group active = cg::coalesced_threads();
        int start;
        if (active.thread_rank() == 0) start = atomicAdd(count, (int)active.size());
        start = active.shfl(start, 0);
        y[start + active.thread_rank()] = x[i];
    }
}

extern "C" __global__ void layernorm(const float4* x, float4* y, const float4* gamma, int n4, float eps) {
    cg::thread_block block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    const float4* row = x + blockIdx.x * n4;
    float sum = 0, squares = 0;
    for (int i = threadIdx.x; i < n4; i += 32) {
        float4 v = row[i];
        sum += v.x + v.y + v.z + v.w;
        squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    sum = cg::reduce(warp, sum, cg::plus<float>());
    squares = cg::reduce(warp, squares, cg::plus<float>());
    float mean = sum / (4 * n4), scale = rsqrtf(squares / (4 * n4) - mean * mean + eps);
    for (int i = threadIdx.x; i < n4; i += 32) {
        float4 v = row[i], g = gamma[i];
        y[blockIdx.x * n4 + i] = make_float4((v.x - mean) * scale * g.x, (v.y - mean) * scale * g.y,
                                             (v.z - mean) * scale * g.z, (v.w - mean) * scale * g.w);
    }
}

extern "C" __global__ void rounds(int* x, int n) {  // all blocks wait for all blocks
    cg::grid_group grid = cg::this_grid();
    int i = grid.thread_rank();
    for (int k = 0; k < 3; ++k) {
        x[(1 - (k & 1)) * n + i] = x[(k & 1) * n + (i + 1) % n] + 1;
        grid.sync();
    }
}
