// layernorm_gelu/unfused: two kernels: layernorm to memory, then GeLU from there.
//
// computes  y[r][c] = gelu((x[r][c] - mean) / sqrt(variance + eps) * weight[c] + bias[c]), of each row r
// mapping   GROUP threads -> ROWS rows, VECTORS times 16 bytes of each; THREADS / GROUP groups a block; then
//           a vector of 16 bytes a thread
// load x 16 sectors/request
// load weight 16 sectors/request
// load bias 16 sectors/request
// store y 16 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   Each kernel is as fast as a copy, and the pair takes two copies' time: the array h between them
//           is written and read for nothing.
// source    layernorm/registers and a streaming kernel, one after the other

#include "element.cuh"
#include "gelu.cuh"
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
              "layernorm_gelu/unfused: THREADS must be GROUP, or whole warps where GROUP is up to 32");
static_assert(VECTORS >= 1 && ROWS >= 1, "layernorm_gelu/unfused: VECTORS and ROWS must be at least 1");

extern "C" __global__ __launch_bounds__(THREADS, 1024 / THREADS) void layernorm_gelu_unfused_norm(
    const element_t* __restrict__ x, const element_t* __restrict__ weight, const element_t* __restrict__ bias,
    element_t* __restrict__ h, long long rows, long long columns, float eps) {
    constexpr int ITEMS = VECTORS * LANES(wide16_t), HELD = GROUP * ITEMS;
    __shared__ Pair scratch[32];
    const int member = threadIdx.x % GROUP, held = columns < HELD ? columns : HELD;
    const long long row = ((long long)blockIdx.x * (THREADS / GROUP) + threadIdx.x / GROUP) * ROWS;
    const bool is_aligned =
        starts_at_vectors(x, h, columns) && starts_at_vector(weight) && starts_at_vector(bias);

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
        const Beyond<element_t> beyond = {x + first};
        const Norm norm = norm_of<GROUP, VECTORS, element_t>(value[q], within, member, is_aligned, end, eps,
                                                             scratch, beyond);

        // Normalise, weigh, write.
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            value[q][i] = norm(value[q][i]);
        }
        weigh_row<GROUP, VECTORS>(weight, bias, within, member, is_aligned, value[q]);
        write_row<GROUP, VECTORS>(h + first, within, member, is_aligned, value[q]);
#pragma unroll 4
        for (long long c = HELD + member; c < end; c += GROUP) {
            const float w = to_float(weight[c]), b = to_float(bias[c]);
            h[first + c] = from_float<element_t>(fmaf(norm(beyond(c)), w, b));
        }
    }
}

extern "C" __global__ __launch_bounds__(THREADS) void layernorm_gelu_unfused_gelu(
    const element_t* __restrict__ h, element_t* __restrict__ y, long long rows, long long columns, int form) {
    constexpr int HELD = THREADS * LANES(wide16_t);
    const long long start = (long long)blockIdx.x * HELD, left = rows * columns - start;
    const int held = left < HELD ? left : HELD;
    const bool is_aligned = starts_at_vectors(h, y, held);
    float value[LANES(wide16_t)];
    read_row<THREADS, 1>(h + start, held, threadIdx.x, is_aligned, ZEROS, value);
    gelu_all<element_t, LANES(wide16_t)>(value, form);
    write_row<THREADS, 1>(y + start, held, threadIdx.x, is_aligned, value);
}
