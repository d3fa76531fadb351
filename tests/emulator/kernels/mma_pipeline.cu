// A 64 x 64 tile by four warps: cp.async into two stages of swizzled shared memory, ldmatrix, mma.sync.
#include <cuda_fp16.h>

#ifndef READ_SWIZZLE
#define READ_SWIZZLE(x) (x)
#endif
#ifndef SWIZZLE
#define SWIZZLE(x) (x)
#endif
#ifndef WAIT
#define WAIT "1"
#endif
constexpr int TILE = 64, DEPTH = 32, THREADS = 128;

__device__ unsigned shared_address(const void* p) {
    return (unsigned)__cvta_generic_to_shared(p);
}

__device__ void copy_async(half* to, const half* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}

__device__ half* place_a(half* tile, int row, int chunk) {
    return tile + row * DEPTH + (chunk ^ SWIZZLE(row >> 1 & 3)) * 8;
}

__device__ half* place_b(half* tile, int row, int chunk) {
    return tile + row * TILE + (chunk ^ SWIZZLE(row & 7)) * 8;
}

__device__ void load(half* sa, half* sb, const half* a, const half* b, int n, int k) {
    for (int i = threadIdx.x; i < TILE * DEPTH / 8; i += THREADS) {
        copy_async(place_a(sa, i / 4, i % 4), a + i / 4 * k + i % 4 * 8);
        copy_async(place_b(sb, i / 8, i % 8), b + i / 8 * n + i % 8 * 8);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(THREADS)
    matmul(const half* a, const half* b, float* c, int n, int k) {
    __shared__ __align__(128) half sa[2][TILE * DEPTH], sb[2][DEPTH * TILE];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = warp / 2 * 32, column = warp % 2 * 32;
    a += blockIdx.y * TILE * k;
    b += blockIdx.x * TILE;
    c += blockIdx.y * TILE * n + blockIdx.x * TILE;
    float sums[2][4][4] = {};
    load(sa[0], sb[0], a, b, n, k);
    for (int stage = 0, start = 0; start < k; start += DEPTH, stage ^= 1) {
        if (start + DEPTH < k) {
            load(sa[stage ^ 1], sb[stage ^ 1], a + start + DEPTH, b + (start + DEPTH) * n, n, k);
            asm volatile("cp.async.wait_group " WAIT ";" ::: "memory");
        } else {
            asm volatile("cp.async.wait_group 0;" ::: "memory");
        }
        __syncthreads();
#pragma unroll
        for (int deep = 0; deep < DEPTH; deep += 16) {
            unsigned fa[2][4], fb[4][2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const half* p =
                    place_a(sa[stage], row + i * 16 + lane % 16, READ_SWIZZLE(deep / 8 + lane / 16));
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(fa[i][0]), "=r"(fa[i][1]), "=r"(fa[i][2]), "=r"(fa[i][3])
                             : "r"(shared_address(p)));
                p = place_b(sb[stage], deep + lane % 16, (column + i * 16) / 8 + lane / 16);
                asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                             : "=r"(fb[2 * i][0]), "=r"(fb[2 * i][1]), "=r"(fb[2 * i + 1][0]),
                               "=r"(fb[2 * i + 1][1])
                             : "r"(shared_address(p)));
            }
#pragma unroll
            for (int i = 0; i < 2; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    asm volatile(
                        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                        : "+f"(sums[i][j][0]), "+f"(sums[i][j][1]), "+f"(sums[i][j][2]), "+f"(sums[i][j][3])
                        : "r"(fa[i][0]), "r"(fa[i][1]), "r"(fa[i][2]), "r"(fa[i][3]), "r"(fb[j][0]),
                          "r"(fb[j][1]));
        }
#ifndef NO_BARRIER
        __syncthreads();
#endif
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 4; ++j)
            for (int half = 0; half < 2; ++half) {
                float* p = c + (row + i * 16 + half * 8 + lane / 4) * n + column + j * 8 + lane % 4 * 2;
                *(float2*)p = make_float2(sums[i][j][2 * half], sums[i][j][2 * half + 1]);
            }
}
