// Launched by test_mbarrier.py; the device functions are those of hopper.py.
extern "C" __global__ void ring(int* y, int n, int absent) {
    __shared__ int data[2];
    __shared__ u64 full[2], empty[2];
    if (threadIdx.x == 0)
        for (int i = 0; i < 2; ++i) {
            init(full + i, 1);
            init(empty + i, 32);
        }
    __syncthreads();
    if (threadIdx.x < 32) {
        if (threadIdx.x == 0)
            for (int i = 0; i < n; ++i) {
                wait(empty + i % 2, (i / 2 & 1) ^ 1);
                data[i % 2] = i * i + 3 + blockIdx.x;
                arrive(full + i % 2);
            }
    } else if (threadIdx.x < 64 - absent) {
        int sum = 0;
        for (int i = 0; i < n; ++i) {
            while (!look(full + i % 2, i / 2 & 1)) {}
            sum = sum * 3 + data[i % 2];
            arrive(empty + i % 2);
        }
        y[blockIdx.x * 32 + threadIdx.x - 32] = sum;
    }
}

__device__ inline u64 state_of(u64* bar, unsigned count) {
    u64 state;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1], %2;" : "=l"(state) : "r"(at(bar)), "r"(count) : "memory");
    return state;
}
__device__ inline int is_over(u64* bar, u64 state) {
    int done;
    asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.shared.b64 p, [%1], %2;\nselp.s32 %0, 1, 0, p;\n}"
                 : "=r"(done) : "r"(at(bar)), "l"(state) : "memory");
    return done;
}
// It may wait: on an H200 the thread's own next operation on the mbarrier comes first, so ask only what is over.
__device__ inline int is_over_soon(u64* bar, u64 state) {
    int done;
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.shared.b64 p, [%1], %2;\nselp.s32 %0, 1, 0, p;\n}"
                 : "=r"(done) : "r"(at(bar)), "l"(state) : "memory");
    return done;
}
__device__ inline int pending(u64 state) {
    int count;
    asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(count) : "l"(state));
    return count;
}
extern "C" __global__ void phases(int* y) {
    __shared__ u64 bar;
    init(&bar, 5);
    u64 first = state_of(&bar, 2);
    y[0] = pending(first);
    y[1] = is_over(&bar, first);
    u64 second;
    asm volatile("mbarrier.arrive.noComplete.shared.b64 %0, [%1], 1;" : "=l"(second) : "r"(at(&bar)) : "memory");
    y[2] = pending(second);
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 48;" :: "r"(at(&bar)) : "memory");
    asm volatile("mbarrier.arrive_drop.shared.b64 _, [%0];" :: "r"(at(&bar)) : "memory");
    state_of(&bar, 1);
    y[3] = is_over(&bar, first);  // 48 bytes are missing
    asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 48;" :: "r"(at(&bar)) : "memory");
    y[4] = is_over_soon(&bar, first);
    y[5] = look(&bar, 0) + 2 * look(&bar, 1);
    y[6] = pending(state_of(&bar, 4));  // one thread has dropped out
    y[7] = look(&bar, 0) + 2 * look(&bar, 1);
    asm volatile("mbarrier.inval.shared.b64 [%0];" :: "r"(at(&bar)) : "memory");
    init(&bar, 1);
    y[8] = pending(state_of(&bar, 1));
}

extern "C" __global__ void wrong(int* y, int what) {
    __shared__ u64 bar[4];
    if (threadIdx.x == 0) init(bar, 2);
    if (what == 0) for (int i = 0; i < 3; ++i) asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 16;" :: "r"(at(bar)));
    if (what == 1) arrive(bar + 1);
    if (what == 2) { bar[0] = 7; arrive(bar); }
    if (what == 3) init(bar, 2);
    if (what == 4) init(bar + 1, y[1]);  // 0: the constant crashes NVRTC 13.0
    if (what == 5) asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(at(bar) + 4));
    if (what == 7) asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(at(bar) + (threadIdx.x == 5) * 4));
    if (what == 6) asm volatile("mbarrier.arrive.b64 _, [%0];" :: "l"(y));
    y[0] = 1;
}

__device__ inline void load(void* to, const void* from, unsigned nbytes, u64* bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(at(to)), "l"(from), "r"(nbytes), "r"(at(bar)) : "memory");
}
__device__ inline void store(void* to, const void* from, unsigned nbytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 :: "l"(to), "r"(at(from)), "r"(nbytes) : "memory");
}
// Copies n floats through shared memory, doubled on the way.
extern "C" __global__ void doubled(const float* x, float* y, int n, int expected, int what) {
    __shared__ __align__(16) float data[256];
    __shared__ u64 bar;
    x += blockIdx.x * n;
    y += blockIdx.x * n;
    if (threadIdx.x == 0) {
        init(&bar, 1);
        fence_init();
        expect(&bar, expected);
        load(data, x, n * 4, &bar);
    }
    __syncthreads();
    if (what != 1) wait(&bar, 0);
    for (int i = threadIdx.x; i < n; i += blockDim.x) data[i] *= 2;
    if (what != 5) fence_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        store(y, data, n * 4);
        commit_stores();
        if (what != 2 && what != 3) wait_stores<0>();
        if (what == 2) data[5] = 0;
        if (what == 4) { load(data, x, n * 4, &bar); data[0] = 1; }
    }
}

// The first half of the warps fills a buffer of two, the second half reads it: barriers that some only arrive at.
extern "C" __global__ void named(int* y, int n, int count) {
    __shared__ int data[2][64];
    int t = threadIdx.x % 64;
    if (threadIdx.x < 64) {
        for (int i = 0; i < n; ++i) {
            if (i > 1) asm volatile("bar.sync %0, 128;" :: "r"(3 + i % 2) : "memory");
            data[i % 2][t] = i * t;
            asm volatile("bar.arrive %0, %1;" :: "r"(1 + i % 2), "r"(count) : "memory");
        }
    } else {
        int sum = 0;
        for (int i = 0; i < n; ++i) {
            asm volatile("bar.sync %0, %1;" :: "r"(1 + i % 2), "r"(count) : "memory");
            sum = sum * 2 + data[i % 2][63 - t];
            if (i + 2 < n) asm volatile("bar.arrive %0, 128;" :: "r"(3 + i % 2) : "memory");
        }
        y[t] = sum;
    }
}

extern "C" __global__ void nobody_comes() {
    __shared__ u64 bar;
    if (threadIdx.x == 0) init(&bar, 1);
    __syncthreads();
    wait(&bar, 0);
}

// Adds what each block holds to y: plain bytes, and tiles of a tensor map.
extern "C" __global__ void add_up(const __grid_constant__ CUtensorMap tiles, float* y) {
    __shared__ __align__(128) float data[64];
    data[threadIdx.x] = threadIdx.x + blockIdx.x;
    fence_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], 256;"
                     :: "l"(y), "r"(at(data)) : "memory");
        asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];"
                     :: "l"(&tiles), "r"(4), "r"(-2), "r"(at(data)) : "memory");
        commit_stores();
        wait_stores<0>();
    }
}

// Each thread copies four floats; their arrival is an arrival of the thread.
extern "C" __global__ void gathered(const float* x, float* y, int adds, int is_early) {
    __shared__ __align__(16) float data[256];
    __shared__ u64 bar;
    if (threadIdx.x == 0) init(&bar, 64);
    __syncthreads();
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :: "r"(at(data + 4 * threadIdx.x)), "l"(x + 4 * (63 - threadIdx.x)) : "memory");
    if (adds) {
        asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];" :: "r"(at(&bar)) : "memory");
        arrive(&bar);
    } else {
        asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(at(&bar)) : "memory");
    }
    if (is_early) y[0] = data[4 * threadIdx.x];
    wait(&bar, 0);
    for (int i = threadIdx.x; i < 256; i += 64) y[i] = data[i];
}
