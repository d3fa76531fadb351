// reread/global: each block reads tiles of one set again and again, from whichever memory holds the set.
//
// computes  y[b][t] = products of neighbours in thread t's part of `reads` tiles from start[b], `step` apart
// mapping   block b -> tiles start[b], start[b] + step, ..., round and round; thread t -> four vectors of each
// load data 16 sectors/request
// load start 1 sectors/request
// store y 4 sectors/request
// teaches   Bytes over time is the bandwidth of the level that a set fits into, if nobody else brings a block
//           what it reads: one block a multiprocessor, for two would meet in its L1. Blocks start a tile apart
//           and step over each other, so that together they read a set once before any of it is read again;
//           a step without a common divisor leads each block through all of it, more than its L1 holds.
// source    Konstantinidis and Cotronis, "A quantitative roofline model for GPU kernel performance estimation"

#ifndef TILE
#define TILE 4096
#endif
#ifndef THREADS
#define THREADS 256
#endif
static_assert(TILE % (4 * THREADS) == 0, "reread/global: TILE must be whole vectors of all THREADS");
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "reread/global: THREADS must be whole warps");

extern "C" __global__ __launch_bounds__(THREADS) void reread_global(const float* __restrict__ data,
                                                                    const long long* __restrict__ start,
                                                                    float* __restrict__ y, int reads,
                                                                    int step, long long tiles) {
    constexpr int VECTORS = TILE / (4 * THREADS);
    const long long ahead = step % tiles;
    long long tile = start[blockIdx.x];
    float sum = 0.0f;
#pragma unroll 2
    for (int read = 0; read < reads; ++read) {
        const long long first = tile * (TILE / 4) + threadIdx.x;
        float4 loaded[VECTORS];
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) {
            loaded[v] = reinterpret_cast<const float4*>(data)[first + v * THREADS];
        }
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) {
            sum = __fmaf_rn(loaded[v].x, loaded[v].y, sum);
            sum = __fmaf_rn(loaded[v].z, loaded[v].w, sum);
        }
        tile += ahead;
        tile -= tile < tiles ? 0 : tiles;
    }
    y[(long long)blockIdx.x * THREADS + threadIdx.x] = sum;
}
