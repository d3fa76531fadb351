// softmax/split: a row over several blocks, in two launches: partial maxima and sums, then the answer.
//
// computes  y[r][c] = exp(x[r][c] - top) / sum of exp(x[r][k] - top) over k, where top is the row's maximum
// mapping   block -> VECTORS times 16 bytes a thread of one row; `parts` blocks a row
// load x 16 sectors/request
// store y 16 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 2 wavefronts/request
// teaches   A row beyond one block's registers needs a meeting of blocks, and between launches there is one. It
//           costs a second read; what the first launch read last may still be in L2, so the second begins
//           there. One long row keeps the whole device busy. Partial results merge by the online rule. Clusters
//           that read once were slower: every row waits for a barrier of blocks.
// source    Dao et al., "Flash-Decoding for long-context inference" (2023): partial softmax, merged

#include "element.cuh"
#include "softmax.cuh"

#ifndef THREADS
#define THREADS 128
#endif
#ifndef VECTORS
#define VECTORS 2
#endif
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "softmax/split: THREADS must be whole warps");
static_assert(VECTORS >= 1, "softmax/split: VECTORS must be at least 1");

extern "C" __global__ __launch_bounds__(THREADS) void softmax_split_partial(const element_t* __restrict__ x,
                                                                            float* __restrict__ tops,
                                                                            float* __restrict__ sums,
                                                                            long long columns,
                                                                            long long parts) {
    __shared__ Pair scratch[32];
    const long long r = blockIdx.x / parts, part = blockIdx.x % parts;
    in_part<THREADS, VECTORS>(x, x, columns, true, part, [&](auto share, long long start, float* value) {
        read(x + r * columns + start, share, true, value);
        const Pair found =
            Softmax<element_t>::meet(Softmax<element_t>::take(share, kept(share, value)), share, scratch);
        if (threadIdx.x == 0) {
            tops[blockIdx.x] = found.first;
            sums[blockIdx.x] = found.second;
        }
    });
}

extern "C" __global__ __launch_bounds__(THREADS) void softmax_split_write(
    const element_t* __restrict__ x, const float* __restrict__ tops, const float* __restrict__ sums,
    element_t* __restrict__ y, long long columns, long long parts) {
    __shared__ Pair scratch[32];
    const long long block = gridDim.x - 1 - (long long)blockIdx.x;  // the last parts are still in L2
    const long long r = block / parts, part = block % parts;
    in_part<THREADS, VECTORS>(x, y, columns, true, part, [&](auto share, long long start, float* value) {
        read(x + r * columns + start, share, true, value);

        // Merge the parts of the row; an infinite maximum makes the sum NaN.
        Pair found = {LOWEST, 0.0f};
#pragma unroll 1
        for (long long k = threadIdx.x; k < parts; k += THREADS) {
            found = merge_softmax<element_t>(found, {tops[r * parts + k], sums[r * parts + k]});
        }
        found = group_softmax<THREADS, element_t>(found, scratch);
        const float top = found.first, scale = 1.0f / (found.second + (top - top));
#pragma unroll
        for (int i = 0; i < share.ITEMS; ++i) {
            value[i] = raised<element_t>(value[i], top) * scale;
        }
        write(y + r * columns + start, share, value);
    });
}
