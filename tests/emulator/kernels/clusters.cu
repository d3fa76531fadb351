// Launched by test_clusters.py; the device functions are those of hopper.py.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__device__ inline unsigned mapped(const void* p, unsigned rank) {
    unsigned address;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(at(p)), "r"(rank));
    return address;
}

// Every block adds up what all blocks of its cluster hold.
extern "C" __global__ void __cluster_dims__(2, 2, 1) sum(const float* x, float* y, int* places, int without) {
    __shared__ float part;
    cg::cluster_group cluster = cg::this_cluster();
    int block = blockIdx.y * gridDim.x + blockIdx.x;
    if (threadIdx.x == 0 && !(without == 2 && cluster.block_rank() == 3)) part = x[block];
    if (without != 1) cluster.sync();
    if (threadIdx.x == 0) {
        float total = 0;
        for (int rank = 0; rank < cluster.num_blocks(); ++rank) total += *cluster.map_shared_rank(&part, rank);
        y[block] = total;
        dim3 where = cluster.block_index();
        places[block] = cluster.block_rank() + 10 * where.x + 100 * where.y
                      + 1000 * cluster.query_shared_rank(cluster.map_shared_rank(&part, 2));
    }
    cluster.sync();
}

// Block 0 of each pair writes to, and adds to, the memory of block 1, which waits on its own mbarrier.
extern "C" __global__ void __cluster_dims__(2, 1, 1) push(const int* x, int* y, int arrivals) {
    __shared__ int box[32];
    __shared__ u64 bar;
    if (threadIdx.x == 0) {
        init(&bar, arrivals);
        fence_init();
    }
    box[threadIdx.x] = 100;
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (rank == 0) {
        unsigned there = mapped(box + 31 - threadIdx.x, 1);
        asm volatile("st.shared::cluster.s32 [%0], %1;" :: "r"(there), "r"(x[blockIdx.x * 32 + threadIdx.x]) : "memory");
        asm volatile("red.shared::cluster.add.s32 [%0], 5;" :: "r"(there) : "memory");
        asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(mapped(&bar, 1)) : "memory");
    } else {
        wait(&bar, 0);
        y[blockIdx.x / 2 * 32 + threadIdx.x] = box[threadIdx.x];
    }
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// Each block of a pair loads half of a tile into both.
extern "C" __global__ void __cluster_dims__(2, 1, 1)
spread(const __grid_constant__ CUtensorMap map, float* y, unsigned short mask) {
    __shared__ __align__(1024) float tile[16 * 8];
    __shared__ u64 bar;
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
        init(&bar, 1);
        fence_init();
        expect(&bar, sizeof(tile));
    }
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
    if (threadIdx.x == 0)
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                     "[%0], [%1, {%3, %4}], [%2], %5;"
                     :: "r"(at(tile + rank * 64)), "l"(&map), "r"(at(&bar)), "r"((int)blockIdx.x / 2 * 8), "r"((int)rank * 8), "h"(mask)
                     : "memory");
    wait(&bar, 0);
    for (int i = threadIdx.x; i < 128; i += blockDim.x) y[blockIdx.x * 128 + i] = tile[i];
    asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) wrong(int* y, int what) {
    __shared__ int box[4];
    box[threadIdx.x % 4] = 1;
    if (what == 0) y[0] = mapped(box, 2);
    if (what == 1) asm volatile("barrier.cluster.arrive;\nbarrier.cluster.arrive;" ::: "memory");
    if (what == 2 && (blockIdx.x & 1)) asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
    if (what == 2 && !(blockIdx.x & 1)) asm volatile("bar.sync 1, 64;" ::: "memory");
    if (what == 6 && (blockIdx.x & 1)) return;
    __shared__ u64 bar;
    if (what == 8) {
        if (threadIdx.x == 0) init(&bar, 1);
        asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
        u64* there = cg::this_cluster().map_shared_rank(&bar, blockIdx.x & 1 ^ 1);
        asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.b64 p, [%0], 1;\n}" :: "l"(there) : "memory");
    }
    if (what == 7) asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
    if (what == 6 || what == 7) asm volatile("st.shared::cluster.s32 [%0], 7;" :: "r"(mapped(box, 1)) : "memory");
    if (what == 5) y[0] = mapped(box, 2 * blockIdx.x);
    if (what == 4) asm volatile("barrier.cluster.wait;" ::: "memory");
    if (what == 3) asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(box[0]) : "r"(mapped(box, 1) + 32));
}

// Block 0 of each pair copies from its memory into that of block 1, which waits for it.
enum Way { FINE, BEFORE_IT_CAME, WRITTEN_MEANWHILE, NOT_FENCED, NEVER_WRITTEN };
extern "C" __global__ void __cluster_dims__(2, 1, 1) pass(const float* x, float* y, int way) {
    __shared__ __align__(16) float from[32], into[32];
    __shared__ u64 came, full;
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    if (threadIdx.x == 0) {
        init(&came, 1);
        init(&full, 1);
        fence_init();
        expect(&full, sizeof into);
    }
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    if (rank == 0) {
        if (way == NOT_FENCED || way == WRITTEN_MEANWHILE) from[threadIdx.x] = x[threadIdx.x];
        if (way != NOT_FENCED) fence_async();
        __syncwarp();
        if (threadIdx.x == 0 && (way == FINE || way == BEFORE_IT_CAME)) {
            expect(&came, sizeof from);
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];"
                         :: "r"(at(from)), "l"(x), "r"(at(&came)) : "memory");
            if (way == FINE) wait(&came, 0);
        }
        if (threadIdx.x == 0)
            asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];"
                         :: "r"(mapped(into, 1)), "r"(at(from)), "r"(mapped(&full, 1)) : "memory");
        __syncwarp();
        if (way == WRITTEN_MEANWHILE) from[threadIdx.x] = -1;
        if (way == BEFORE_IT_CAME) wait(&came, 0);
    } else {
        wait(&full, 0);
        y[blockIdx.x / 2 * 32 + threadIdx.x] = into[threadIdx.x];
    }
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    if (rank == 0) from[threadIdx.x] = 0;  // block 1 has waited
}
