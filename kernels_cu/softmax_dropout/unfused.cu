// softmax_dropout/unfused: two kernels: softmax to memory, then dropout from there.
//
// computes  y[r][c] = softmax(x[r])[c] / (1 - p) where the random bits of element (r, c) keep it, else 0
// mapping   GROUP threads -> ROWS rows, VECTORS times 16 bytes of each; THREADS / GROUP groups a block; then
//           a vector of 16 bytes a thread
// load x 16 sectors/request
// store y 16 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   Twice the traffic of softmax_dropout/registers for the same bits: the seed and the place decide,
//           whichever kernel asks.
// source    softmax/registers and a streaming kernel, one after the other

#include "element.cuh"
#include "philox.cuh"
#include "rows.cuh"

#ifndef THREADS
#define THREADS 128
#endif
#ifndef GROUP
#define GROUP 128
#endif
#ifndef VECTORS
#define VECTORS 2
#endif
#ifndef ROWS
#define ROWS 1
#endif
static_assert(THREADS <= 1024 && (GROUP == THREADS || (GROUP <= 32 && THREADS % 32 == 0)),
              "softmax_dropout/unfused: THREADS must be GROUP, or whole warps where GROUP is up to 32");
static_assert(VECTORS >= 1 && ROWS >= 1, "softmax_dropout/unfused: VECTORS and ROWS must be at least 1");

extern "C" __global__ __launch_bounds__(THREADS, 1024 / THREADS) void softmax_dropout_unfused_softmax(
    const element_t* __restrict__ x, element_t* __restrict__ h, long long rows, long long columns) {
    constexpr int ITEMS = VECTORS * LANES(wide16_t), HELD = GROUP * ITEMS;
    __shared__ float scratch[32];
    const int member = threadIdx.x % GROUP, held = columns < HELD ? columns : HELD;
    const long long row = ((long long)blockIdx.x * (THREADS / GROUP) + threadIdx.x / GROUP) * ROWS;
    const bool is_aligned = starts_at_vectors(x, h, columns);

    // Read what the registers hold.
    float value[ROWS][ITEMS];
#pragma unroll
    for (int q = 0; q < ROWS; ++q) {
        read_row<GROUP, VECTORS>(x + (row + q) * columns, row + q < rows ? held : 0, member, is_aligned,
                                 MINUS_INFINITIES, value[q]);
    }

#pragma unroll
    for (int q = 0; q < ROWS; ++q) {
        const long long first = (row + q) * columns, end = row + q < rows ? columns : 0;

        // The maximum: NaN is lost here and comes back with the sum.
        float top = LOWEST;
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            top = fmaxf(top, value[q][i]);
        }
#pragma unroll 4
        for (long long c = HELD + member; c < end; c += GROUP) {
            top = fmaxf(top, to_float(x[first + c]));
        }
        top = group_max<GROUP>(top, scratch);

        // The exponentials, in place, and their sum.
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            value[q][i] = exponential<element_t>(value[q][i] - top);
            sum += value[q][i];
        }
#pragma unroll 4
        for (long long c = HELD + member; c < end; c += GROUP) {
            sum += exponential<element_t>(to_float(x[first + c]) - top);
        }
        const float scale = 1.0f / group_sum<GROUP>(sum, scratch);

        // Write.
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            value[q][i] *= scale;
        }
        write_row<GROUP, VECTORS>(h + first, row + q < rows ? held : 0, member, is_aligned, value[q]);
#pragma unroll 4
        for (long long c = HELD + member; c < end; c += GROUP) {
            h[first + c] =
                from_float<element_t>(exponential<element_t>(to_float(x[first + c]) - top) * scale);
        }
    }
}

extern "C" __global__ __launch_bounds__(THREADS) void softmax_dropout_unfused_dropout(
    const element_t* __restrict__ h, element_t* __restrict__ y, long long rows, long long columns, float p,
    unsigned long long seed) {
    constexpr int HELD = THREADS * LANES(wide16_t);
    const long long start = (long long)blockIdx.x * HELD, left = rows * columns - start;
    const int held = left < HELD ? left : HELD;
    const bool is_aligned = starts_at_vectors(h, y, held);
    float value[LANES(wide16_t)];
    read_row<THREADS, 1>(h + start, held, threadIdx.x, is_aligned, ZEROS, value);
    drop_row<THREADS, 1, element_t>(Dropout(p, seed), start, threadIdx.x, is_aligned, value);
    write_row<THREADS, 1>(y + start, held, threadIdx.x, is_aligned, value);
}
