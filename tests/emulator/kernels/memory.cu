// Memory: atomics of all kinds, cache hints, generic addresses, warps that exchange values.
#include <cuda_fp16.h>
#include <cuda_bf16.h>

extern "C" __global__ void atomics(const int* x, int* y, int* old) {
    int i = threadIdx.x;
    atomicAdd(&y[0], x[i]); atomicSub(&y[1], x[i]); atomicMin(&y[2], x[i]); atomicMax(&y[3], x[i]);
    atomicAnd(&y[4], x[i]); atomicOr(&y[5], x[i]); atomicXor(&y[6], x[i]); atomicExch(&y[7], x[i]);
    atomicInc((unsigned*)&y[8], 10); atomicDec((unsigned*)&y[9], 6); atomicCAS(&y[10], 0, x[i]);
    old[i] = atomicAdd(&y[11], 2);
    old[i + 64] = atomicMax(&y[12], x[i]);
    atomicAdd_block(&y[13], 1); atomicAdd_system(&y[14], 1);
}
extern "C" __global__ void atomics_wide(const long long* x, unsigned long long* y, float* f, double* d, __half2* h, __half* s, __nv_bfloat162* b) {
    int i = threadIdx.x;
    atomicAdd(&y[0], (unsigned long long)x[i]); atomicMax((long long*)&y[1], x[i]); atomicMin((long long*)&y[2], x[i]);
    atomicCAS(&y[3], 0ull, (unsigned long long)x[i]); atomicExch(&y[4], (unsigned long long)x[i]); atomicXor(&y[5], (unsigned long long)x[i]);
    atomicAdd(f, 0.5f * i); atomicAdd(d, 0.25 * i); atomicAdd(h, __halves2half2(__int2half_rn(1), __int2half_rn(2)));
    atomicAdd(s, __int2half_rn(1)); atomicAdd(b, __floats2bfloat162_rn(1.0f, 2.0f));
    atomicExch(f + 1, (float)i);
}
__device__ float atomic_max(float* address, float value) {  // by compare-and-swap, as people write it
    int* as_int = (int*)address;
    int old = *as_int, assumed;
    do { assumed = old; old = atomicCAS(as_int, assumed, __float_as_int(fmaxf(value, __int_as_float(assumed)))); } while (assumed != old);
    return __int_as_float(old);
}
extern "C" __global__ void float_max(const float* x, float* y) {
    __shared__ float most;
    if (threadIdx.x == 0) most = -1e30f;
    __syncthreads();
    atomic_max(&most, x[blockIdx.x * blockDim.x + threadIdx.x]);
    __syncthreads();
    if (threadIdx.x == 0) atomic_max(y, most);
}
extern "C" __global__ void shared_atomics(const int* x, int* y, float* z) {
    __shared__ int s[8];
    __shared__ float f[2];
    __shared__ unsigned long long u[2];
    int i = threadIdx.x;
    if (i < 8) s[i] = 0;
    if (i < 2) { f[i] = 0; u[i] = 0; }
    __syncthreads();
    atomicAdd(&s[i % 4], x[i]); atomicMax(&s[4], x[i]); atomicOr(&s[5], x[i]); atomicInc((unsigned*)&s[6], 1000);
    atomicAdd(&f[i & 1], (float)x[i]); atomicAdd(&u[0], (unsigned long long)x[i]); atomicMax(&u[1], (unsigned long long)x[i]);
    int old = atomicAdd(&s[7], 1);
    __syncthreads();
    if (i < 8) y[i] = s[i];
    if (i < 2) { z[i] = f[i]; y[8 + i] = (int)u[i]; }
    y[16 + old] = 1;
}
extern "C" __global__ void hints(const float* __restrict__ x, float* y, float4* z) {
    int i = threadIdx.x;
    float v = __ldg(x + i) + __ldcg(x + i) + __ldca(x + i) + __ldcs(x + i) + __ldcv(x + i);
    __stcs(y + i, v); __stcg(y + i + 32, v * 2); __stwt(y + i + 64, v * 3);
    float4 four = __ldg((const float4*)x + i);
    __stcs(z + i, four);
    asm volatile("prefetch.global.L2 [%0];" ::"l"(x + i));
    float w;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.f32 %0, [%1];" : "=f"(w) : "l"(x + i));
    y[i + 96] = w;
}
__device__ __noinline__ float read_any(const float* p, int i) { return p[i] + (__isShared(p) ? 1000 : 0) + (__isLocal(p) ? 2000 : 0) + (__isGlobal(p) ? 3000 : 0); }
__device__ __noinline__ void write_any(float* p, int i, float v) { p[i] = v; }
extern "C" __global__ void generic(const float* x, float* y) {
    __shared__ float s[32];
    float l[4];
    int i = threadIdx.x;
    s[i] = x[i] * 2;
    for (int k = 0; k < 4; ++k) l[k] = i + k;
    __syncthreads();
    const float* p = i % 3 == 0 ? s : i % 3 == 1 ? l : x;
    y[i] = read_any(p, i % 4);
    float* q = i % 2 ? s : y + 32;
    write_any(q, i, 5.0f * i);
    __syncthreads();
    y[i + 64] = s[i];
}
extern "C" __global__ void copies(const int4* x, int4* y, int n) {
    struct Row { int4 a, b; char tail[7]; };
    __shared__ Row rows[4];
    int i = threadIdx.x;
    if (i < 4) { memset(&rows[i], 0, sizeof(Row)); memcpy(&rows[i].a, x + i, 16); rows[i].b = x[i + 4]; rows[i].tail[3] = i; }
    __syncthreads();
    if (i < 4) { Row r = rows[3 - i]; y[i] = r.a; y[i + 4] = r.b; y[i + 8] = make_int4(r.tail[3], r.tail[2], sizeof(Row), 0); }
}
extern "C" __global__ void warps(const int* x, int* y, unsigned* z) {
    int i = threadIdx.x, v = x[i];
    unsigned all = 0xffffffffu;
    y[i] = __shfl_sync(all, v, i * 7);
    y[i + 32] = __shfl_up_sync(all, v, 3, 8);
    y[i + 64] = __shfl_down_sync(all, v, 5, 16);
    y[i + 96] = __shfl_xor_sync(all, v, 9);
    z[i] = __ballot_sync(all, v > 4); z[i + 32] = __match_any_sync(all, v);
    int same; z[i + 64] = __match_all_sync(all, v / 100, &same) + same;
    z[i + 96] = __reduce_add_sync(all, v) + __reduce_max_sync(all, v) * 1000 + __reduce_xor_sync(all, v) * 100000;
    z[i + 128] = __any_sync(all, v == 7) * 2 + __all_sync(all, v < 10) + __uni_sync(all, v > 100) * 4;
    double d = __shfl_sync(all, (double)v, 3); long long l = __shfl_xor_sync(all, (long long)v << 33, 1);
    y[i + 128] = (int)d + (int)(l >> 33);
    unsigned half = i < 16 ? 0xffffu : 0xffff0000u;
    if (i < 16) y[i + 160] = __shfl_xor_sync(half, v, 1); else y[i + 160] = __reduce_min_sync(half, v);
    y[i + 192] = __activemask() == all;
}
extern "C" __global__ void partial_masks(const int* x, int* y) {  // sub-warp sums in a divergent branch
    int i = threadIdx.x;
    if (i % 8 < 5) {
        unsigned mask = 0x1fu << (i / 8 * 8);
        int v = x[i];
        for (int k = 0; k < i / 8; ++k) v += __shfl_sync(mask, v, 0, 8);
        y[i] = v;
    }
}
extern "C" __global__ void sloppy_mask(const int* x, int* y) {  // names lanes that are not there
    if (threadIdx.x < 16) {
        int v = x[threadIdx.x];
        for (int k = 8; k; k /= 2) v += __shfl_down_sync(0xffffffff, v, k);
        if (threadIdx.x == 0) y[0] = v;
    }
}
extern "C" __global__ void not_in_mask(int* y) { y[threadIdx.x] = __shfl_sync(threadIdx.x < 8 ? 0xffu : 0xffu, (int)threadIdx.x, 3); }
extern "C" __global__ void beyond(float* y, int n) { y[threadIdx.x + n] = 1; }
extern "C" __global__ void before(float* y) { y[(int)threadIdx.x - 1] = 1; }
extern "C" __global__ void reads_beyond(const float* x, float* y, int n) { y[threadIdx.x] = x[threadIdx.x + n]; }
extern "C" __global__ void wide(const float4* x, float4* y) { y[threadIdx.x] = x[threadIdx.x]; }
extern "C" __global__ void null_pointer(float* y, const float* x) { y[threadIdx.x] = x ? x[threadIdx.x] : -1.0f; }
extern "C" __global__ void null_read(float* y, const float* x) { y[threadIdx.x] = x[threadIdx.x]; }
extern "C" __global__ void unwritten(float* y) { __shared__ float s[64]; if (threadIdx.x < 31) s[threadIdx.x] = 1; __syncthreads(); y[threadIdx.x] = s[threadIdx.x]; }
extern "C" __global__ void shared_beyond(float* y, int n) { __shared__ float s[32]; s[threadIdx.x + n] = 1; __syncthreads(); y[threadIdx.x] = s[threadIdx.x]; }
extern "C" __global__ void race(float* y) { __shared__ float s[64]; s[threadIdx.x] = threadIdx.x; y[threadIdx.x] = s[63 - threadIdx.x]; }
extern "C" __global__ void no_race(float* y) { __shared__ float s[64]; s[threadIdx.x] = threadIdx.x; __syncthreads(); y[threadIdx.x] = s[63 - threadIdx.x]; }
extern "C" __global__ void warp_race(float* y) { __shared__ float s[32]; s[threadIdx.x] = threadIdx.x; y[threadIdx.x] = s[31 - threadIdx.x]; }
extern "C" __global__ void warp_no_race(float* y) { __shared__ float s[32]; s[threadIdx.x] = threadIdx.x; __syncwarp(); y[threadIdx.x] = s[31 - threadIdx.x]; }
extern "C" __global__ void write_race(float* y) { __shared__ float s[2]; s[threadIdx.x & 1] = threadIdx.x; __syncthreads(); y[threadIdx.x] = s[threadIdx.x & 1]; }
extern "C" __global__ void lost_update(int* y) { __shared__ int s; if (threadIdx.x == 0) s = 0; __syncthreads(); s += 1; __syncthreads(); y[threadIdx.x] = s; }
extern "C" __global__ void reused_scratch(int* y) {
    __shared__ int s[32]; int t = threadIdx.x;
    for (int k = 0; k < 2; ++k) { if (t < 32) s[t] = t + k; __syncthreads(); y[k * 64 + t] = s[(t + 1) % 32]; }
}
extern "C" __global__ void big_index(signed char* y, long long n) { long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = 1; }
extern "C" __global__ void block_sizes(int* y) { y[(blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x * blockDim.y * blockDim.z + (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x] = blockDim.x * 10000 + blockDim.y * 100 + blockDim.z + blockIdx.x * 1000000; }
extern "C" __global__ void scalars(double* y, float a, double b, int c, unsigned char d, long long e, bool f, short g, unsigned h) { y[0] = a; y[1] = b; y[2] = c; y[3] = d; y[4] = e; y[5] = f; y[6] = g; y[7] = h; }
extern "C" __global__ void clocks(long long* y) { long long a = clock64(); unsigned b = clock(); unsigned long long t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); while (clock64() - a < 1000) {} y[threadIdx.x] = clock64() - a + (b > 0) + (t > 0); }
