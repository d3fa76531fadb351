// reread/shared: the same reads of a set that the block has brought into shared memory.
//
// computes  y[b][t] = products of neighbours in thread t's part of `reads` tiles from start[b] on, round and round
// mapping   block b -> all tiles, brought once; then as reread/global, a step of 1
// load data 16 sectors/request
// load start 1 sectors/request
// store y 4 sectors/request
// shared store set 4 wavefronts/request
// shared load set 4 wavefronts/request
// teaches   A wavefront is 128 bytes, one a clock: 16 bytes a lane take four. No read conflicts, so the
//           bandwidth is the banks' own, 32 words a clock.
// source    CUDA C++ Programming Guide, "Shared Memory"

#ifndef TILE
#define TILE 4096
#endif
#ifndef THREADS
#define THREADS 256
#endif
static_assert(TILE % (4 * THREADS) == 0, "reread/shared: TILE must be whole vectors of all THREADS");
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "reread/shared: THREADS must be whole warps");

extern "C" __global__ __launch_bounds__(THREADS) void reread_shared(const float* __restrict__ data,
                                                                    const long long* __restrict__ start,
                                                                    float* __restrict__ y, int reads,
                                                                    long long tiles) {
    constexpr int VECTORS = TILE / (4 * THREADS);
    extern __shared__ float4 set[];
    const int all = (int)tiles * (TILE / 4);

    // Bring the set.
#pragma unroll 1
    for (int i = threadIdx.x; i < all; i += THREADS) {
        const float4 filled = reinterpret_cast<const float4*>(data)[i];
        set[i] = make_float4(filled.x, filled.y, filled.z, filled.w);
    }
    __syncthreads();

    // Read it.
    int first = (int)start[blockIdx.x] * (TILE / 4) + threadIdx.x;
    float sum = 0.0f;
#pragma unroll 2
    for (int read = 0; read < reads; ++read) {
        float4 loaded[VECTORS];
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) {
            loaded[v] = set[first + v * THREADS];
        }
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) {
            sum = __fmaf_rn(loaded[v].x, loaded[v].y, sum);
            sum = __fmaf_rn(loaded[v].z, loaded[v].w, sum);
        }
        first = first + TILE / 4 < all ? first + TILE / 4 : threadIdx.x;
    }
    y[(long long)blockIdx.x * THREADS + threadIdx.x] = sum;
}
