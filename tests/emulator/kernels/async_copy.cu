// Asynchronous copies as people write them: CUDA's pipeline primitives, and inline assembly.
#include <cuda_pipeline.h>

__device__ unsigned to(void* shared) { return (unsigned)__cvta_generic_to_shared(shared); }

template <typename T> __device__ void copy_groups(const T* x, T* y) {  // two groups, waited for one by one
    __shared__ T s[2][64];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&s[0][t], &x[t], sizeof(T));
    __pipeline_commit();
    __pipeline_memcpy_async(&s[1][t], &x[64 + t], sizeof(T));
    __pipeline_commit();
    __pipeline_wait_prior(1);
    y[t] = s[0][t];
    __pipeline_wait_prior(0);
    y[64 + t] = s[1][t];
}
extern "C" __global__ void groups4(const float* x, float* y) { copy_groups(x, y); }
extern "C" __global__ void groups8(const float2* x, float2* y) { copy_groups(x, y); }
extern "C" __global__ void groups16(const float4* x, float4* y) { copy_groups(x, y); }

extern "C" __global__ void forms(const float4* x, float4* y, int n) {
    __shared__ float4 s[4][32];
    int t = threadIdx.x, inside = t < n ? 16 : 0;
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to(&s[0][t])), "l"(x + t), "r"(inside));
    asm volatile("cp.async.ca.shared::cta.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(to(&s[1][t])), "l"(x + t % n), "l"(policy));
    asm volatile("{ .reg .pred p; setp.ge.s32 p, %2, %3; cp.async.ca.shared.global.L2::64B [%0], [%1], 16, p; }" ::"r"(to(&s[2][t])), "l"(x + t), "r"(t), "r"(n));
    asm volatile("cp.async.ca.shared.global [%0+16], [%1+16], 16, %2;" ::"r"(to(&s[3][t]) - 16), "l"(x + t % n - 1), "r"(t % 17));
    asm volatile("cp.async.wait_all;" ::: "memory");
    for (int i = 0; i < 4; i++) y[32 * i + t] = s[i][t];
}

extern "C" __global__ void neighbours(const float4* x, float* y, int n) {  // sums rows, two buffers
    __shared__ float4 s[2][64];
    int t = threadIdx.x;
    float sum = 0;
    __pipeline_memcpy_async(&s[0][t], &x[t], 16);
    __pipeline_commit();
    for (int i = 0; i < n; i++) {
        if (i + 1 < n) __pipeline_memcpy_async(&s[(i + 1) % 2][t], &x[64 * (i + 1) + t], 16);
        __pipeline_commit();
        __pipeline_wait_prior(1 - NO_WAIT);
        if (NO_BARRIER == 0) __syncthreads();
        sum += s[i % 2][63 - t].x;
        if (NO_SECOND_BARRIER == 0) __syncthreads();
    }
    y[t] = sum;
}

extern "C" __global__ void uneven(const float* x, float* y, int is_late) {  // half a warp commits more often, and waits
    __shared__ float s[3][32];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&s[0][t], &x[t], 4);
    if (t < 16) __pipeline_commit();
    __pipeline_memcpy_async(&s[1][t], &x[32 + t], 4);
    __pipeline_commit();
    __pipeline_memcpy_async(&s[2][t], &x[64 + t], 4);
    __pipeline_commit();
    if (t < 16) { __pipeline_wait_prior(2); y[t] = s[0][t]; }
    else {
        if (is_late) __pipeline_wait_prior(2); else __pipeline_wait_prior(1);
        y[t] = s[0][t] + s[1][t];
    }
}

extern "C" __global__ void barrier_first(const float* x, float* y) {
    __shared__ float s[32];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&s[t], &x[t], 4);
    __pipeline_commit();
    __syncthreads();
    __pipeline_wait_prior(0);
    y[t] = s[31 - t];
}

extern "C" __global__ void touched(const float* x, float* y, int what) {
    __shared__ float s[32];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&s[t], &x[t], 4);
    __pipeline_commit();
    if (what == 0) y[t] = s[t];
    if (what == 1) s[t] = 1;
    if (what == 2) atomicAdd(&s[t], 1.0f);
    if (what == 3) __pipeline_memcpy_async(&s[t], &x[t], 4);
    if (what == 4) __pipeline_wait_prior(1), y[t] = s[t];
    if (what == 5) y[t] = 5;
    if (what == 6) __pipeline_wait_prior(0), y[t] = s[t];
}

extern "C" __global__ void uncommitted(const float* x, float* y) {
    __shared__ float s[32];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&s[t], &x[t], 4);
    __pipeline_wait_prior(0);
    y[t] = s[t];
}

extern "C" __global__ void stray(const float4* x, float4* y, int from, int to_, int size) {  // byte offsets
    __shared__ float4 s[32];
    int t = threadIdx.x;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to(&s[t]) + to_), "l"((const char*)(x + t) + from), "r"(size));
    asm volatile("cp.async.wait_all;" ::: "memory");
    y[t] = s[t];
}

extern "C" __global__ void strided(const float* x, float* y, int stride) {
    __shared__ float s[256];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&s[t], &x[t * stride], 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    y[t] = s[t];
}
