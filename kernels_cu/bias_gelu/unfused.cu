// bias_gelu/unfused: two kernels: the sum to memory, then GeLU from there.
//
// computes  y[r][c] = gelu(x[r][c] + bias[c])
// mapping   as bias_gelu/vectorised; then a vector of 16 bytes a thread
// load x 16 sectors/request
// load bias 16 sectors/request
// store y 16 sectors/request
// teaches   Twice the traffic of bias_gelu/vectorised, so twice its time: what a library of single operations
//           does.
// source    two streaming kernels, one after the other

#include "element.cuh"
#include "gelu.cuh"
#include "norm.cuh"

#ifndef THREADS
#define THREADS 256
#endif
#ifndef ROWS
#define ROWS 4
#endif
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "bias_gelu/unfused: THREADS must be whole warps");
static_assert(ROWS >= 1, "bias_gelu/unfused: ROWS must be at least 1");

extern "C" __global__ __launch_bounds__(THREADS) void bias_gelu_unfused_add(
    const element_t* __restrict__ x, const element_t* __restrict__ bias, element_t* __restrict__ h,
    long long rows, long long columns) {
    constexpr int EACH = LANES(wide16_t), HELD = THREADS * EACH;
    const long long start = (long long)blockIdx.x * HELD;
    const int held = columns - start < HELD ? columns - start : HELD;
    const bool is_aligned = starts_at_vectors(x, h, columns) && starts_at_vector(bias);

    float added[EACH];
    read_bias<THREADS>(bias + start, held, threadIdx.x, is_aligned, added);
    for (long long row = (long long)blockIdx.y * ROWS; row < rows; row += (long long)gridDim.y * ROWS) {
        float value[ROWS][EACH];
#pragma unroll
        for (int q = 0; q < ROWS; ++q) {
            const int within = row + q < rows ? held : 0;
            read_row<THREADS, 1>(x + (row + q) * columns + start, within, threadIdx.x, is_aligned, ZEROS,
                                 value[q]);
        }
#pragma unroll
        for (int q = 0; q < ROWS; ++q) {
#pragma unroll
            for (int i = 0; i < EACH; ++i) {
                value[q][i] += added[i];
            }
            const int within = row + q < rows ? held : 0;
            write_row<THREADS, 1>(h + (row + q) * columns + start, within, threadIdx.x, is_aligned, value[q]);
        }
    }
}

extern "C" __global__ __launch_bounds__(THREADS) void bias_gelu_unfused_gelu(const element_t* __restrict__ h,
                                                                             element_t* __restrict__ y,
                                                                             long long rows,
                                                                             long long columns, int form) {
    constexpr int HELD = THREADS * LANES(wide16_t);
    const long long start = (long long)blockIdx.x * HELD, left = rows * columns - start;
    const int held = left < HELD ? left : HELD;
    const bool is_aligned = starts_at_vectors(h, y, held);
    float value[LANES(wide16_t)];
    read_row<THREADS, 1>(h + start, held, threadIdx.x, is_aligned, ZEROS, value);
    gelu_all<element_t, LANES(wide16_t)>(value, form);
    write_row<THREADS, 1>(y + start, held, threadIdx.x, is_aligned, value);
}
