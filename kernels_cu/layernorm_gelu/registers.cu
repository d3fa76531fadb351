// layernorm_gelu/registers: one kernel: the activation is applied while the row is still in registers.
//
// computes  y[r][c] = gelu((x[r][c] - mean) / sqrt(variance + eps) * weight[c] + bias[c]), of each row r
// mapping   GROUP threads -> ROWS rows, VECTORS times 16 bytes of each; THREADS / GROUP groups a block
// load x 16 sectors/request
// load weight 16 sectors/request
// load bias 16 sectors/request
// store y 16 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   Fusing saves a write and a read of the whole array: half the traffic of layernorm_gelu/unfused,
//           and half the time where both run at the speed of memory. form 1 is the tanh form of GeLU, 0 the
//           one with erf.
// source    Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016)

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
              "layernorm_gelu/registers: THREADS must be GROUP, or whole warps where GROUP is up to 32");
static_assert(VECTORS >= 1 && ROWS >= 1, "layernorm_gelu/registers: VECTORS and ROWS must be at least 1");

extern "C" __global__ __launch_bounds__(THREADS, 1024 / THREADS) void layernorm_gelu_registers(
    const element_t* __restrict__ x, const element_t* __restrict__ weight, const element_t* __restrict__ bias,
    element_t* __restrict__ y, long long rows, long long columns, float eps, int form) {
    constexpr int ITEMS = VECTORS * LANES(wide16_t), HELD = GROUP * ITEMS;
    __shared__ Pair scratch[32];
    const int member = threadIdx.x % GROUP, held = columns < HELD ? columns : HELD;
    const long long row = ((long long)blockIdx.x * (THREADS / GROUP) + threadIdx.x / GROUP) * ROWS;
    const bool is_aligned =
        starts_at_vectors(x, y, columns) && starts_at_vector(weight) && starts_at_vector(bias);

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
        gelu_all<element_t, ITEMS>(value[q], form);
        write_row<GROUP, VECTORS>(y + first, within, member, is_aligned, value[q]);
#pragma unroll 4
        for (long long c = HELD + member; c < end; c += GROUP) {
            const float w = to_float(weight[c]), b = to_float(bias[c]);
            y[first + c] = from_float<element_t>(gelu<element_t>(fmaf(norm(beyond(c)), w, b), form));
        }
    }
}
