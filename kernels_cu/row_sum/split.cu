// row_sum/split: several blocks a row where rows are long and few; the last one of a row merges.
//
// computes  y[r] = the sum of x[r]
// mapping   block b -> row b / splits, tiles b % splits, b % splits + splits, ... of it
// load x 16 sectors/request
// store y 1 sectors/request
// load partials 1 sectors/request
// store partials 1 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   The number of splits is chosen so that the grid fills the device, and is 1 where rows alone do;
//           rows of length THREADS * VECTORS vectors or less are never split. A counter a row finds the last
//           block, which sets it back to 0. Same bits in every run on one kind of device.
// source    CUDA samples, "threadFenceReduction"

#include "reduce.cuh"

#ifndef THREADS
#define THREADS 256
#endif
#ifndef VECTORS
#define VECTORS 4
#endif
#ifndef BLOCKS
#define BLOCKS 16
#endif
static_assert(THREADS >= 32 && THREADS <= 1024 && THREADS % 32 == 0,
              "row_sum/split: THREADS must be whole warps, at most 1024");
static_assert(VECTORS >= 1 && VECTORS <= 16,
              "row_sum/split: VECTORS must be 1 to 16, they live in registers");
static_assert(BLOCKS >= 1, "row_sum/split: BLOCKS counts the blocks of a multiprocessor");

extern "C" __global__ __launch_bounds__(THREADS) void row_sum_split(const element_t* __restrict__ x,
                                                                    element_t* __restrict__ y,
                                                                    float* partials, unsigned* finished,
                                                                    long long columns, long long splits) {
    constexpr int EACH = LANES(wide16_t);
    __shared__ float scratch[32];
    __shared__ bool is_last;
    const long long row = blockIdx.x / (unsigned)splits;
    const int split = blockIdx.x % (unsigned)splits;
    float mine = 0.0f;

    // Tiles of whole vectors: all loads first, then the merges. Rows that start between go by elements.
    if (columns % EACH == 0) {
        const long long whole = columns / EACH;
#pragma unroll 1
        for (long long start = (long long)split * (THREADS * VECTORS); start < whole;
             start += splits * (THREADS * VECTORS)) {
            wide16_t loaded[VECTORS];
#pragma unroll
            for (int v = 0; v < VECTORS; ++v) {
                const long long i = start + v * THREADS + threadIdx.x;
                if (i < whole) {
                    loaded[v] = reinterpret_cast<const wide16_t*>(x + row * columns)[i];
                }
            }
#pragma unroll
            for (int v = 0; v < VECTORS; ++v) {
                const long long i = start + v * THREADS + threadIdx.x;
                if (i < whole) {
                    float value[EACH];
                    unpack<element_t>(loaded[v], value);
#pragma unroll
                    for (int k = 0; k < EACH; ++k) {
                        mine = add(mine, value[k]);
                    }
                }
            }
        }
    } else {
#pragma unroll 1
        for (long long i = (long long)split * THREADS + threadIdx.x; i < columns; i += splits * THREADS) {
            const element_t value = x[row * columns + i];
            mine = add(mine, to_float(value));
        }
    }
    mine = block_sum<THREADS>(mine, scratch);

    // Leave the block's value where the row's last block will see it: fence, then count.
    if (threadIdx.x == 0) {
        partials[blockIdx.x] = mine;
        __threadfence();
        is_last = atomicInc(finished + row, splits - 1) == splits - 1;
    }
    __syncthreads();
    if (is_last) {
        mine = 0.0f;
#pragma unroll 1
        for (long long i = threadIdx.x; i < splits; i += THREADS) {
            const float partial = partials[row * splits + i];
            mine = add(mine, partial);
        }
        mine = block_sum<THREADS>(mine, scratch);
        if (threadIdx.x == 0) {
            y[row] = from_float<element_t>(mine);
        }
    }
}
