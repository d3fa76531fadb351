// Launched by test_hopper_matmul.py: two blocks of a cluster share the columns of B, of which each loads half for both.
// The device functions are those of hopper.py.
#define STAGES 2
#define BM 64
#define BN 64
#define BK 64
struct Stage {
    unsigned char a[BM * BK * 2];
    unsigned char b[BN * BK * 2];
};
__device__ inline void arrive_at(u64* bar, unsigned rank) {
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n}" :: "r"(at(bar)), "r"(rank) : "memory");
}
__device__ inline void load_for_both(void* to, const CUtensorMap* map, int x, int y, u64* bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%3, %4}], [%2], %5;"
                 :: "r"(at(to)), "l"(map), "r"(at(bar)), "r"(x), "r"(y), "h"((unsigned short)3) : "memory");
}
__device__ inline void meet() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(256)
matmul(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float* y, int n, int k, int early) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Stage* stages = (Stage*)memory;
    u64 *full = (u64*)(stages + STAGES), *empty = full + STAGES;
    int t = threadIdx.x % 128, steps = k / BK, y0 = blockIdx.x * BM, x0 = blockIdx.y * BN;
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            init(full + s, 1);
            init(empty + s, 2);
        }
        fence_init();
    }
    meet();
    if (threadIdx.x < 128) {
        if (t / 32 == 0 && elected())
            for (int j = 0; j < steps; ++j) {
                int s = j % STAGES;
                wait(empty + s, (j / STAGES & 1) ^ 1);
                expect(full + s, sizeof(Stage));
                load_2d(stages[s].a, &a, j * BK, y0, full + s);
                load_for_both(stages[s].b + rank * BN / 2 * BK * 2, &b, j * BK, x0 + rank * BN / 2, full + s);
            }
    } else {
        float d[32];
        for (int j = 0; j < steps; ++j) {
            int s = j % STAGES;
            wait(full + s, j / STAGES & 1);
            fence_registers();
            u64 da = describe(stages[s].a, 16, 1024, 1), db = describe(stages[s].b, 16, 1024, 1);
#pragma unroll
            for (int part = 0; part < BK / 16; ++part) multiply(d, da + 2 * part, db + 2 * part, j + part > 0);
            commit_products();
            if (early && t < 2) arrive_at(empty + s, t);
            wait_products<0>();
            if (!early && t < 2) arrive_at(empty + s, t);
        }
        int row = y0 + t / 32 * 16 + t % 32 / 4, column = x0 + t % 4 * 2;
        for (int j = 0; j < BN / 8; ++j)
            for (int h = 0; h < 2; ++h)
                *(float2*)(y + (row + 8 * h) * n + column + 8 * j) = make_float2(d[4 * j + 2 * h], d[4 * j + 2 * h + 1]);
    }
    meet();
}
