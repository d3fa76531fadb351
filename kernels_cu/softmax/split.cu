// softmax/split: a row over several blocks, in two launches: partial maxima and sums, then the answer.
//
// computes  y[r][c] = exp(x[r][c] - top) / sum of exp(x[r][k] - top) over k, where top is the row's maximum
// mapping   block -> VECTORS times 16 bytes a thread of one row; `parts` blocks a row
// load x 16 sectors/request
// store y 16 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   A row beyond one block's registers needs a meeting of blocks, and between launches there is one. It
//           costs a second read; what the first launch read last may still be in L2, so the second begins
//           there. One long row keeps the whole device busy. Partial results merge by the online rule.
// source    Dao et al., "Flash-Decoding for long-context inference" (2023): partial softmax, merged

#include "element.cuh"
#include "rows.cuh"

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
    constexpr int ITEMS = VECTORS * LANES(wide16_t), HELD = THREADS * ITEMS;
    __shared__ float scratch[32];
    const long long r = blockIdx.x / parts, start = blockIdx.x % parts * HELD;
    const int held = columns - start < HELD ? columns - start : HELD;
    const bool is_aligned = starts_at_vectors(x, x, columns);

    float value[ITEMS];
    read_row<THREADS, VECTORS>(x + r * columns + start, held, threadIdx.x, is_aligned, MINUS_INFINITIES,
                               value);
    float top = LOWEST;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        top = fmaxf(top, value[i]);
    }
    top = group_max<THREADS>(top, scratch);

    // A part of nothing but -inf sums to 0; NaN and +inf come through.
    const float shift = top == LOWEST ? 0.0f : top;
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        sum += exponential<element_t>(value[i] - shift);
    }
    sum = group_sum<THREADS>(sum, scratch);
    if (threadIdx.x == 0) {
        tops[blockIdx.x] = top;
        sums[blockIdx.x] = sum;
    }
}

extern "C" __global__ __launch_bounds__(THREADS) void softmax_split_write(
    const element_t* __restrict__ x, const float* __restrict__ tops, const float* __restrict__ sums,
    element_t* __restrict__ y, long long columns, long long parts) {
    constexpr int ITEMS = VECTORS * LANES(wide16_t), HELD = THREADS * ITEMS;
    __shared__ Pair scratch[32];
    const long long block = gridDim.x - 1 - (long long)blockIdx.x;  // the last parts are still in L2
    const long long r = block / parts, start = block % parts * HELD;
    const int held = columns - start < HELD ? columns - start : HELD;
    const bool is_aligned = starts_at_vectors(x, y, columns);

    float value[ITEMS];
    read_row<THREADS, VECTORS>(x + r * columns + start, held, threadIdx.x, is_aligned, MINUS_INFINITIES,
                               value);

    // Merge the parts of the row; an infinite maximum makes the sum NaN.
    Pair found = {LOWEST, 0.0f};
#pragma unroll 1
    for (long long part = threadIdx.x; part < parts; part += THREADS) {
        found = merge_softmax(found, {tops[r * parts + part], sums[r * parts + part]});
    }
    found = group_softmax<THREADS>(found, scratch);
    const float top = found.first, scale = 1.0f / (found.second + (top - top));

#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        value[i] = exponential<element_t>(value[i] - top) * scale;
    }
    write_row<THREADS, VECTORS>(y + r * columns + start, held, threadIdx.x, is_aligned, value);
}
