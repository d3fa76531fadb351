// reread/registers: one tile stays in registers; a fused multiply-add reads three of them.
//
// computes  y[b][t] = products of neighbours in thread t's part of a tile, added `reads` times
// mapping   block b -> tile start[b], the only one; thread t -> four vectors of 16 bytes of it, loaded once
// load data 16 sectors/request
// load start 1 sectors/request
// store y 4 sectors/request
// teaches   Bytes over time is what arithmetic takes from registers: issued multiply-adds times three operands.
//           One sum a thread makes each addition wait for the one before: with few warps the time is the latency
//           of an instruction, with many its throughput.
// source    CUDA C++ Programming Guide, "Arithmetic Instructions"

#ifndef TILE
#define TILE 4096
#endif
#ifndef THREADS
#define THREADS 256
#endif
static_assert(TILE % (4 * THREADS) == 0, "reread/registers: TILE must be whole vectors of all THREADS");
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "reread/registers: THREADS must be whole warps");

extern "C" __global__ __launch_bounds__(THREADS) void reread_registers(const float* __restrict__ data,
                                                                       const long long* __restrict__ start,
                                                                       float* __restrict__ y, int reads) {
    constexpr int VECTORS = TILE / (4 * THREADS);
    const long long tile = start[blockIdx.x];
    const long long first = tile * (TILE / 4) + threadIdx.x;
    float4 held[VECTORS];
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
        held[v] = reinterpret_cast<const float4*>(data)[first + v * THREADS];
    }
    // Fused by hand: of a product and a sum the compiler would take the product out of the loop.
    float sum = 0.0f;
#pragma unroll 16
    for (int read = 0; read < reads; ++read) {
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) {
            sum = __fmaf_rn(held[v].x, held[v].y, sum);
            sum = __fmaf_rn(held[v].z, held[v].w, sum);
        }
    }
    y[(long long)blockIdx.x * THREADS + threadIdx.x] = sum;
}
