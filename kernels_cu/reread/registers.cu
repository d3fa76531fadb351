// reread/registers: one tile stays in registers; a fused multiply-add reads three of them.
//
// computes  y[b][t] = products of neighbours in thread t's part of a tile, added `reads` times, in SUMS sums
// mapping   block b -> tile start[b], the only one; thread t -> four vectors of 16 bytes of it, loaded once
// load data 16 sectors/request
// load start 1 sectors/request
// store y 4 sectors/request
// teaches   Bytes over time is what arithmetic takes from registers: issued multiply-adds times three operands.
//           The registers are two banks, which give a word a lane and clock each: of three operands two are in
//           one bank, so that a multiply-add takes two clocks, unless the one before leaves it an operand in the
//           reuse cache. Here SUMS in a row take the same two factors: the more, the fewer clocks go to that.
//           With one sum and one warp each waits for the one before: the time is then the latency of an
//           instruction.
// source    Huerta et al., "Analyzing Modern NVIDIA GPU cores", 2025

#ifndef TILE
#define TILE 4096
#endif
#ifndef THREADS
#define THREADS 256
#endif
#ifndef SUMS
#define SUMS 16
#endif
static_assert(TILE % (4 * THREADS) == 0, "reread/registers: TILE must be whole vectors of all THREADS");
static_assert(16 % SUMS == 0, "reread/registers: SUMS must divide 16");
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
    // Fused by hand: of a product and a sum the compiler would take the product out of the loop. The sums begin
    // apart, or they would all be one.
    float sums[SUMS];
#pragma unroll
    for (int s = 0; s < SUMS; ++s) {
        sums[s] = (float)s;
    }
#pragma unroll(32 / SUMS)
    for (int round = 0; round < reads / SUMS; ++round) {
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) {
#pragma unroll
            for (int s = 0; s < SUMS; ++s) {
                sums[s] = __fmaf_rn(held[v].x, held[v].y, sums[s]);
            }
#pragma unroll
            for (int s = 0; s < SUMS; ++s) {
                sums[s] = __fmaf_rn(held[v].z, held[v].w, sums[s]);
            }
        }
    }
    float sum = 0.0f;
#pragma unroll 1
    for (int read = 0; read < reads % SUMS; ++read) {
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) {
            sum = __fmaf_rn(held[v].x, held[v].y, sum);
            sum = __fmaf_rn(held[v].z, held[v].w, sum);
        }
    }
#pragma unroll
    for (int s = 0; s < SUMS; ++s) {
        sum += sums[s] - (float)s;
    }
    y[(long long)blockIdx.x * THREADS + threadIdx.x] = sum;
}
