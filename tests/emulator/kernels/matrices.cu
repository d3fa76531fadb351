// ldmatrix, stmatrix and movmatrix: lane i names row i % 8 of matrix i / 8; rows are `pitch` bytes apart.
#define ROW(i) ((unsigned)__cvta_generic_to_shared(tile) + (i) * pitch + shift)

#define LOAD(name, opcode, N, OUT, R)                                                       \
    extern "C" __global__ void name(const unsigned* x, unsigned* y, int pitch, int shift) { \
        __shared__ __align__(16) unsigned tile[1024];                                       \
        for (int i = threadIdx.x; i < 1024; i += blockDim.x)                                \
            tile[i] = x[i];                                                                 \
        __syncthreads();                                                                    \
        unsigned r[4];                                                                      \
        asm volatile(opcode " {" OUT "}, [%" #N "];" : R : "r"(ROW(threadIdx.x % 32)));     \
        for (int i = 0; i < N; ++i)                                                         \
            y[i * 32 + threadIdx.x] = r[i];                                                 \
    }
#define R1 "=r"(r[0])
#define R2 R1, "=r"(r[1])
#define R4 R2, "=r"(r[2]), "=r"(r[3])
LOAD(load_x1, "ldmatrix.sync.aligned.m8n8.x1.shared.b16", 1, "%0", R1)
LOAD(load_x2, "ldmatrix.sync.aligned.m8n8.x2.shared.b16", 2, "%0, %1", R2)
LOAD(load_x4, "ldmatrix.sync.aligned.m8n8.x4.shared.b16", 4, "%0, %1, %2, %3", R4)
LOAD(load_x1_trans, "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16", 1, "%0", R1)
LOAD(load_x2_trans, "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16", 2, "%0, %1", R2)
LOAD(load_x4_trans, "ldmatrix.sync.aligned.m8n8.x4.trans.shared::cta.b16", 4, "%0, %1, %2, %3", R4)

#define STORE(name, opcode, N, IN, R)                                                       \
    extern "C" __global__ void name(const unsigned* x, unsigned* y, int pitch, int shift) { \
        __shared__ __align__(16) unsigned tile[1024];                                       \
        for (int i = threadIdx.x; i < 1024; i += blockDim.x)                                \
            tile[i] = 0;                                                                    \
        __syncthreads();                                                                    \
        unsigned r[N];                                                                      \
        for (int i = 0; i < N; ++i)                                                         \
            r[i] = x[i * 32 + threadIdx.x];                                                 \
        asm volatile(opcode " [%0], {" IN "};" ::"r"(ROW(threadIdx.x % 32)), R : "memory"); \
        __syncthreads();                                                                    \
        for (int i = threadIdx.x; i < 1024; i += blockDim.x)                                \
            y[i] = tile[i];                                                                 \
    }
#define S1 "r"(r[0])
#define S2 S1, "r"(r[1])
#define S4 S2, "r"(r[2]), "r"(r[3])
STORE(store_x1, "stmatrix.sync.aligned.m8n8.x1.shared.b16", 1, "%1", S1)
STORE(store_x2, "stmatrix.sync.aligned.m8n8.x2.shared.b16", 2, "%1, %2", S2)
STORE(store_x4, "stmatrix.sync.aligned.m8n8.x4.shared.b16", 4, "%1, %2, %3, %4", S4)
STORE(store_x1_trans, "stmatrix.sync.aligned.m8n8.x1.trans.shared.b16", 1, "%1", S1)
STORE(store_x2_trans, "stmatrix.sync.aligned.m8n8.x2.trans.shared.b16", 2, "%1, %2", S2)
STORE(store_x4_trans, "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16", 4, "%1, %2, %3, %4", S4)

extern "C" __global__ void move(const unsigned* x, unsigned* y) {
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;"
                 : "=r"(y[threadIdx.x])
                 : "r"(x[threadIdx.x]));
}

// What must not be done
#define LOAD_ONE(address) \
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r) : "r"(address) : "memory")
extern "C" __global__ void half_a_warp_loads(unsigned* y) {
    __shared__ __align__(16) unsigned tile[64];
    unsigned r = 0;
    tile[threadIdx.x] = tile[threadIdx.x + 32] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x < 16) {
        LOAD_ONE((unsigned)__cvta_generic_to_shared(tile) + threadIdx.x % 8 * 16);
    }
    y[threadIdx.x] = r;
}

extern "C" __global__ void loads_what_nobody_wrote(unsigned* y) {
    __shared__ __align__(16) unsigned tile[64];
    unsigned r;
    if (threadIdx.x < 31)
        tile[threadIdx.x] = 1;
    __syncthreads();
    LOAD_ONE((unsigned)__cvta_generic_to_shared(tile) + threadIdx.x % 8 * 16);
    y[threadIdx.x] = r;
}

extern "C" __global__ void loads_without_a_barrier(unsigned* y, int has_barrier) {
    __shared__ __align__(16) unsigned tile[2][32];
    unsigned r;
    tile[threadIdx.x / 32][threadIdx.x % 32] = threadIdx.x;
    if (has_barrier)
        __syncthreads();
    LOAD_ONE((unsigned)__cvta_generic_to_shared(tile[1 - threadIdx.x / 32]) + threadIdx.x % 8 * 16);
    y[threadIdx.x] = r;
}

extern "C" __global__ void stores_without_a_barrier(unsigned* y, int has_barrier) {
    __shared__ __align__(16) unsigned tile[2][32];
    asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(
                     (unsigned)__cvta_generic_to_shared(tile[threadIdx.x / 32]) + threadIdx.x % 8 * 16),
                 "r"(threadIdx.x)
                 : "memory");
    if (has_barrier)
        __syncthreads();
    y[threadIdx.x] = tile[1 - threadIdx.x / 32][threadIdx.x % 32];
}
