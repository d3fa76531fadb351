// Hopper: barriers in shared memory, tiles by TMA, and products by warpgroups (sm_90a).
//
// Arrivals and waits are those of the block's own scope, also where a barrier stands in another block of the
// cluster: `.release.cluster` would put a fence of the whole device before every arrival, and `.acquire.cluster`
// empty the L1 after every wait, which no product can hide. Order between blocks is what the TMA
// itself gives: it writes after the arrival, and completes the barrier after the write.
#ifndef KERNELLAB_HOPPER_CUH
#define KERNELLAB_HOPPER_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

struct alignas(64) TileMap {
    unsigned long long word[16];
};

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return (unsigned)__cvta_generic_to_shared(pointer);
}

// -- barriers
__device__ __forceinline__ void barrier_init(unsigned barrier, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
__device__ __forceinline__ void barrier_expect(unsigned barrier, unsigned nbytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(nbytes)
                 : "memory");
}
__device__ __forceinline__ void barrier_arrive(unsigned barrier, unsigned rank) {
    asm volatile(
        "{\n.reg .b32 there;\n"
        "mapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n}\n" ::"r"(barrier),
        "r"(rank)
        : "memory");
}
__device__ __forceinline__ void barrier_wait(unsigned barrier, unsigned parity) {
    asm volatile(
        "{\n.reg .pred done;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;\n}\n" ::"r"(barrier),
        "r"(parity)
        : "memory");
}
template <int blocks>
__device__ __forceinline__ void cluster_sync() {
    if constexpr (blocks > 1) {
        asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    } else {
        __syncthreads();
    }
}

// -- tiles: into the block's own shared memory, or to the same place in every block of the cluster
template <int blocks>
__device__ __forceinline__ void load_tile(unsigned to, const TileMap* map, int column, int row,
                                          unsigned barrier) {
    if constexpr (blocks > 1) {
        constexpr unsigned short EVERY = (1 << blocks) - 1;
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
            "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
            "l"(map), "r"(column), "r"(row), "r"(barrier), "h"(EVERY)
            : "memory");
    } else {
        asm volatile(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
            "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
            "l"(map), "r"(column), "r"(row), "r"(barrier)
            : "memory");
    }
}
__device__ __forceinline__ void store_tile(const TileMap* map, int column, int row, unsigned from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
                 "r"(column), "r"(row), "r"(from)
                 : "memory");
}

// -- products: 64 x COLUMNS x 16 by a warpgroup, both operands in shared memory
#define FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SIXTEEN(i) FOUR(i), FOUR(i + 4), FOUR(i + 8), FOUR(i + 12)
#define SIXTY_FOUR(i) SIXTEEN(i), SIXTEEN(i + 16), SIXTEEN(i + 32), SIXTEEN(i + 48)
#define NAMES_64                                                                       \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define NAMES_128                                                                                  \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                       \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "             \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "             \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "             \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "             \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "             \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

// An operand in rows of 128 bytes, their 16-byte pieces swizzled: eight rows every 1024 bytes; `leading` bytes lie
// between columns of 64 elements where the rows are those of k.
__device__ __forceinline__ unsigned long long operand(unsigned address, unsigned leading) {
    return (unsigned long long)((address & 0x3ffff) >> 4) | (unsigned long long)(leading >> 4) << 16 |
           1024ull >> 4 << 32 | 1ull << 62;
}

// d += a b, or d = a b where `adds` is 0; the last argument tells what the operands hold.
#define PRODUCT(T, KIND, SUMS, SHAPE, NAMES, OPERANDS, A, B, ADDS, TURNED)                                   \
    template <int is_b_by_k>                                                                                 \
    __device__ __forceinline__ void multiply(float (&d)[SUMS], unsigned long long a, unsigned long long b,   \
                                             int adds, const T*) {                                           \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" ADDS                                               \
                     ", 0;\n"                                                                                \
                     "wgmma.mma_async.sync.aligned." SHAPE ".f32." KIND "." KIND " {" NAMES "}, %" A ", %" B \
                     ", p, 1, 1, 0, %" TURNED ";\n}\n"                                                       \
                     : OPERANDS                                                                              \
                     : "l"(a), "l"(b), "r"(adds), "n"(is_b_by_k));                                           \
    }
#define PRODUCTS(T, KIND)                                                               \
    PRODUCT(T, KIND, 64, "m64n128k16", NAMES_64, SIXTY_FOUR(0), "64", "65", "66", "67") \
    PRODUCT(T, KIND, 128, "m64n256k16", NAMES_128, WHOLE, "128", "129", "130", "131")
#define WHOLE SIXTY_FOUR(0), SIXTY_FOUR(64)

PRODUCTS(__half, "f16")
PRODUCTS(__nv_bfloat16, "bf16")

#undef FOUR
#undef SIXTEEN
#undef SIXTY_FOUR
#undef WHOLE
#undef NAMES_64
#undef NAMES_128
#undef PRODUCT
#undef PRODUCTS

#endif
