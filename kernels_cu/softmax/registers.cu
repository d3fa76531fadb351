// softmax/registers: the row stays in registers between one read and one write of 16 bytes a thread.
//
// computes  y[r][c] = exp(x[r][c] - top) / sum of exp(x[r][k] - top) over k, where top is the row's maximum
// mapping   GROUP threads -> ROWS rows, VECTORS times 16 bytes of each; THREADS / GROUP groups a block
// load x 16 sectors/request
// store y 16 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   Two parts of traffic, the least there can be: with 64 KiB in flight on every SM it runs at the
//           speed of a copy. All loads of a thread are issued before the first is needed. GROUP and VECTORS
//           come from the length of the row: short rows share a warp and need no barrier. Rows that do not
//           start at 16 bytes, and what is beyond the registers, go element by element.
// source    Triton tutorial "Fused Softmax": one program a row, the row on the chip

#include "element.cuh"
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
              "softmax/registers: THREADS must be GROUP, or whole warps where GROUP is up to 32");
static_assert(VECTORS >= 1 && ROWS >= 1, "softmax/registers: VECTORS and ROWS must be at least 1");

extern "C" __global__ __launch_bounds__(THREADS, 1024 / THREADS) void softmax_registers(
    const element_t* __restrict__ x, element_t* __restrict__ y, long long rows, long long columns) {
    constexpr int ITEMS = VECTORS * LANES(wide16_t), HELD = GROUP * ITEMS;
    __shared__ float scratch[32];
    const int member = threadIdx.x % GROUP, held = columns < HELD ? columns : HELD;
    const long long row = ((long long)blockIdx.x * (THREADS / GROUP) + threadIdx.x / GROUP) * ROWS;
    const bool is_aligned = starts_at_vectors(x, y, columns);

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
        write_row<GROUP, VECTORS>(y + first, row + q < rows ? held : 0, member, is_aligned, value[q]);
#pragma unroll 4
        for (long long c = HELD + member; c < end; c += GROUP) {
            y[first + c] =
                from_float<element_t>(exponential<element_t>(to_float(x[first + c]) - top) * scale);
        }
    }
}
