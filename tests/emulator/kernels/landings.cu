// Launched by test_landings.py; the device functions are those of hopper.py.
__device__ inline void load(void* to, const void* from, unsigned nbytes, u64* bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(at(to)), "l"(from), "r"(nbytes), "r"(at(bar)) : "memory");
}
__device__ inline void store(void* to, const void* from, unsigned nbytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 :: "l"(to), "r"(at(from)), "r"(nbytes) : "memory");
}

// A ring of two buffers of 32 floats: warp 0 loads, warps 1 and 2 add up. How warp 2 knows that they have come:
enum How { WAITS, BLOCK_BARRIER, NAMED_BARRIER, CHAIN, FENCES, RELEASE, NOTHING, ONCE, LATE };
extern "C" __global__ void ring(const float* x, float* y, int n, int how) {
    __shared__ __align__(16) float data[2][32];
    __shared__ u64 full[2], empty[2], told[2];
    __shared__ volatile int flag;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        flag = 0;
        for (int i = 0; i < 2; ++i) {
            init(full + i, 1);
            init(empty + i, how == LATE ? 1 : 2);
            init(told + i, 1);
        }
        fence_init();
    }
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < n; ++i) {
        const int b = i % 2, phase = i / 2 & 1;
        if (warp == 0 && lane == 0) {
            wait(empty + b, phase ^ 1);
            expect(full + b, 128);
            load(data[b], x + 32 * i, 128, full + b);
        }
        if (warp == 1 || (warp == 2 && (how == WAITS || (how == ONCE && i < 2) || how == LATE)))
            wait(full + b, phase);
        if (how == BLOCK_BARRIER) __syncthreads();
        if (warp == 1) {
            if (how == NAMED_BARRIER) asm volatile("bar.arrive %0, 64;" :: "r"(1 + b) : "memory");
            if (how == CHAIN && lane == 0) arrive(told + b);
            if (how == FENCES) __threadfence_block();
            if (how == RELEASE) asm volatile("st.release.cta.shared.u32 [%0], %1;" :: "r"(at((int*)&flag)), "r"(i + 1) : "memory");
            else flag = i + 1;
        }
        if (warp == 2) {
            int seen = 0;
            if (how == NAMED_BARRIER) asm volatile("bar.sync %0, 64;" :: "r"(1 + b) : "memory");
            if (how == CHAIN) wait(told + b, phase);
            if (how == RELEASE)
                while (seen <= i) asm volatile("ld.acquire.cta.shared.u32 %0, [%1];" : "=r"(seen) : "r"(at((int*)&flag)) : "memory");
            while (flag <= i + 2 * (how == LATE)) {}  // later than warp 1, which orders nothing
            if (how == FENCES) __threadfence_block();
        }
        if (warp > 0) {
            sum = 2 * sum + data[b][lane];
            __syncwarp();
            if (lane == 0 && !(warp == 2 && how == LATE)) arrive(empty + b);
            if (warp == 2 && how == LATE) break;
        }
    }
    if (warp > 0) y[threadIdx.x - 32] = sum;
}

// The first warp waits for a copy; the others do what `what` says, later than it, which orders nothing.
enum What { STORE, ADD, COPY_OUT };
extern "C" __global__ void touched(const float* x, float* y, int what, int is_told) {
    __shared__ __align__(16) float data[32];
    __shared__ u64 full;
    __shared__ volatile int flag;
    if (threadIdx.x == 0) {
        flag = 0;
        init(&full, 1);
        fence_init();
        expect(&full, 128);
        load(data, x, 128, &full);
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        wait(&full, 0);
        flag = 1;
    }
    if (is_told) __syncthreads();
    if (threadIdx.x == 32) {
        while (flag == 0) {}
        if (what == STORE) data[3] = 1;
        if (what == ADD) atomicAdd(data + 3, 1.0f);
        if (what == COPY_OUT) {
            store(y, data, 128);
            commit_stores();
            wait_stores<0>();
        }
    }
}

// A block of a cluster loads into both; the other one's second warp reads what its first has waited for.
extern "C" __global__ void __cluster_dims__(2, 1, 1) both(const float* x, float* y, int is_met) {
    __shared__ __align__(16) float data[32];
    __shared__ u64 full;
    __shared__ volatile int flag;
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
        flag = 0;
        init(&full, 1);
        fence_init();
        expect(&full, 128);
    }
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    if (rank == 0 && threadIdx.x == 0)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                     "[%0], [%1], 128, [%2], %3;"
                     :: "r"(at(data)), "l"(x), "r"(at(&full)), "h"((unsigned short)3) : "memory");
    if (threadIdx.x < 32) {
        wait(&full, 0);
        flag = 1;
    }
    if (is_met) asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    if (threadIdx.x >= 32) {
        while (flag == 0) {}
        y[32 * blockIdx.x + threadIdx.x - 32] = data[threadIdx.x - 32];
    }
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// A warpgroup multiplies what the other one has loaded and waited for; `waiting` of its own four warps wait too.
extern "C" __global__ void products(const float* x, float* y, int waiting) {
    __shared__ __align__(128) float data[512];
    __shared__ u64 full;
    __shared__ volatile int flag;
    const int warp = threadIdx.x / 32;
    if (threadIdx.x == 0) {
        flag = 0;
        init(&full, 1);
        fence_init();
        expect(&full, sizeof data);
        load(data, x, sizeof data, &full);
    }
    __syncthreads();
    if (warp < 4 + waiting) wait(&full, 0);
    if (warp < 4) {
        flag = 1;
    } else {
        float d[4];
        while (flag == 0) {}
        fence_registers();
        multiply(d, describe(data, 128, 256, 0), describe(data, 128, 256, 0), 0);
        commit_products();
        wait_products<0>();
        for (int i = 0; i < 4; ++i) y[(threadIdx.x - 128) * 4 + i] = d[i];
    }
}
