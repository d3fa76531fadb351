// rmsnorm/registers: the row stays in registers between one read and one write of 16 bytes a thread.
//
// computes  y[r][c] = x[r][c] / sqrt(mean of x[r][k] * x[r][k] over k + eps) * weight[c]
// mapping   GROUP threads -> ROWS rows, VECTORS times 16 bytes of each; THREADS / GROUP groups a block
// load x 16 sectors/request
// load weight 16 sectors/request
// store y 16 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   One read, one sum over the group, one write: a copy with a multiplication. The weight is the same
//           for all rows and stays in the caches.
// source    Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019)

#include "element.cuh"
#include "norm.cuh"

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
              "rmsnorm/registers: THREADS must be GROUP, or whole warps where GROUP is up to 32");
static_assert(VECTORS >= 1 && ROWS >= 1, "rmsnorm/registers: VECTORS and ROWS must be at least 1");

extern "C" __global__ __launch_bounds__(THREADS, 1024 / THREADS) void rmsnorm_registers(
    const element_t* __restrict__ x, const element_t* __restrict__ weight, element_t* __restrict__ y,
    long long rows, long long columns, float eps) {
    constexpr int ITEMS = VECTORS * LANES(wide16_t), HELD = GROUP * ITEMS;
    __shared__ float scratch[32];
    const int member = threadIdx.x % GROUP, held = columns < HELD ? columns : HELD;
    const long long row = ((long long)blockIdx.x * (THREADS / GROUP) + threadIdx.x / GROUP) * ROWS;
    const bool is_aligned = starts_at_vectors(x, y, columns) && starts_at_vector(weight);

    // Read what the registers hold.
    float value[ROWS][ITEMS];
#pragma unroll
    for (int q = 0; q < ROWS; ++q) {
        read_row<GROUP, VECTORS>(x + (row + q) * columns, row + q < rows ? held : 0, member, is_aligned,
                                 ZEROS, value[q]);
    }

#pragma unroll
    for (int q = 0; q < ROWS; ++q) {
        const long long first = (row + q) * columns, end = row + q < rows ? columns : 0;
        const int within = end < HELD ? end : HELD;

        // The mean square.
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            sum = fmaf(value[q][i], value[q][i], sum);
        }
#pragma unroll 4
        for (long long c = HELD + member; c < end; c += GROUP) {
            const float value_beyond = to_float(x[first + c]);
            sum = fmaf(value_beyond, value_beyond, sum);
        }
        const float scale = rsqrtf(group_sum<GROUP>(sum, scratch) / (float)columns + eps);

        // Scale, weigh, write.
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            value[q][i] *= scale;
        }
        weigh_row<GROUP, VECTORS>(weight, within, member, is_aligned, value[q]);
        write_row<GROUP, VECTORS>(y + first, within, member, is_aligned, value[q]);
#pragma unroll 4
        for (long long c = HELD + member; c < end; c += GROUP) {
            const float w = to_float(weight[c]);
            y[first + c] = from_float<element_t>(to_float(x[first + c]) * scale * w);
        }
    }
}
