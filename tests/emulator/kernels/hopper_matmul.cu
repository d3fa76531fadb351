// Launched by test_hopper_matmul.py: a warp-specialised, persistent matmul with several stages of TMA and wgmma.
// The device functions are those of hopper.py; @...@ marks what a test leaves out or changes.
#define STAGES 3
#define BM 128
#define BN 64
#define BK 64
struct Stage {
    unsigned char a[BM * BK * 2];
    unsigned char b[BN * BK * 2];
};

extern "C" __global__ void __launch_bounds__(384)
matmul(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
       const __grid_constant__ CUtensorMap c, int m, int n, int k) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Stage* stages = (Stage*)memory;
    float* tile = (float*)(stages + STAGES);  // two halves of 64 rows
    u64 *full = (u64*)(tile + BM * BN), *empty = full + STAGES;
    int group = threadIdx.x / 128, t = threadIdx.x % 128;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            init(full + s, 1);
            init(empty + s, 2);
        }
        fence_init();
    }
    __syncthreads();
    int columns = (n + BN - 1) / BN, tiles = (m + BM - 1) / BM * columns, steps = (k + BK - 1) / BK, step = 0;
    if (group == 0) {
        fewer_registers<40>();
        if (t / 32 == 0 && elected())
            for (int i = blockIdx.x; i < tiles; i += gridDim.x)
                for (int j = 0; j < steps; ++j, ++step) {
                    int s = step % STAGES;
                    wait(empty + s, (step / STAGES & 1) ^ 1);  // @free@
                    expect(full + s, sizeof(Stage));
                    load_2d(stages[s].a, &a, j * BK, i / columns * BM, full + s);
                    load_2d(stages[s].b, &b, j * BK, i % columns * BN, full + s);
                }
        return;
    }
    more_registers<232>();
    int half = group - 1;
    float* mine = tile + half * 64 * BN;
    for (int i = blockIdx.x; i < tiles; i += gridDim.x) {
        float d[32];
        for (int j = 0; j < steps; ++j, ++step) {
            int s = step % STAGES;
            wait(full + s, step / STAGES & 1);  // @loaded@
            fence_registers();                  // @registers@
            u64 da = describe(stages[s].a + half * 64 * BK * 2, 16, 1024, SWIZZLE);
            u64 db = describe(stages[s].b, 16, 1024, SWIZZLE);
#pragma unroll
            for (int part = 0; part < BK / 16; ++part) multiply(d, da + 2 * part, db + 2 * part, j + part > 0);
            commit_products();
            wait_products<1>();  // the product before has read its stage
            if (j > 0 && t == 0) arrive(empty + (step - 1) % STAGES);  // one step late
        }
        wait_products<0>();  // @product@
        if (t == 0) arrive(empty + (step - 1) % STAGES);
        if (t == 0) wait_stores<0>();  // @stored@
        asm volatile("bar.sync %0, 128;" :: "r"(group) : "memory");
        for (int j = 0; j < BN / 8; ++j)
            for (int h = 0; h < 2; ++h)
                *(float2*)(mine + (t / 32 * 16 + t % 32 / 4 + 8 * h) * BN + t % 4 * 2 + 8 * j)
                    = make_float2(d[4 * j + 2 * h], d[4 * j + 2 * h + 1]);
        fence_async();  // @fence@
        asm volatile("bar.sync %0, 128;" :: "r"(group) : "memory");
        if (t == 0) {
            store_2d(&c, i % columns * BN, i / columns * BM + half * 64, mine);
            commit_stores();
        }
    }
    if (t == 0) wait_stores<0>();
}
