// reread/constant: each warp reads vectors of constant memory, all of its lanes the same one.
//
// computes  y[b][t] = products of neighbours in 4 `reads` vectors of fixed from shift[b] on, fixed[k & mask]
// mapping   every thread -> the same vectors of 16 bytes: one value for a whole warp
// load shift 1 sectors/request
// store y 4 sectors/request
// teaches   A constant is for warps that agree: what arrives is 16 bytes for 32 lanes, where the L1 would send
//           512. Where lanes want 32 constants, they get them one after the other.
// source    Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking", 2018

#ifndef TILE
#define TILE 4096
#endif
#ifndef THREADS
#define THREADS 256
#endif
static_assert(TILE == 4096, "reread/constant: TILE must be 4096 floats, the 16 KiB of its constants");
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "reread/constant: THREADS must be whole warps");

struct alignas(16) Numbers {
    float value[TILE];
    constexpr Numbers() : value() {
        for (int k = 0; k < TILE; ++k) {
            value[k] = (float)(k * 7 % 5 % 4);
        }
    }
};
__constant__ const Numbers fixed = Numbers();

extern "C" __global__ __launch_bounds__(THREADS) void reread_constant(const long long* __restrict__ shift,
                                                                      float* __restrict__ y, int reads,
                                                                      int mask) {
    int place = (int)shift[blockIdx.x];
    float sum = 0.0f;
#pragma unroll 4
    for (int read = 0; read < reads; ++read) {
#pragma unroll
        for (int v = 0; v < 4; ++v) {
            const float4 loaded = reinterpret_cast<const float4*>(fixed.value)[(place + v) & mask];
            sum = __fmaf_rn(loaded.x, loaded.y, sum);
            sum = __fmaf_rn(loaded.z, loaded.w, sum);
        }
        place += 4;
    }
    y[(long long)blockIdx.x * THREADS + threadIdx.x] = sum;
}
