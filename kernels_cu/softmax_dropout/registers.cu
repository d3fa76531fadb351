// softmax_dropout/registers: one kernel: what is dropped is decided where the probability is made.
//
// computes  y[r][c] = softmax(x[r])[c] / (1 - p) where the random bits of element (r, c) keep it, else 0
// mapping   GROUP threads -> ROWS rows, VECTORS times 16 bytes of each; THREADS / GROUP groups a block
// load x 16 sectors/request
// store y 16 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   Random bits are a function of the element's place and the seed, so no mask is stored: whoever
//           needs it again computes it again. Ten rounds of Philox serve eight elements at 16 bits each,
//           which keeps arithmetic behind memory.
// source    Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011)

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
              "softmax_dropout/registers: THREADS must be GROUP, or whole warps where GROUP is up to 32");
static_assert(VECTORS >= 1 && ROWS >= 1, "softmax_dropout/registers: VECTORS and ROWS must be at least 1");

extern "C" __global__ __launch_bounds__(THREADS, 1024 / THREADS) void softmax_dropout_registers(
    const element_t* __restrict__ x, element_t* __restrict__ y, long long rows, long long columns, float p,
    unsigned long long seed) {
    constexpr int ITEMS = VECTORS * LANES(wide16_t), HELD = GROUP * ITEMS;
    __shared__ float scratch[32];
    const int member = threadIdx.x % GROUP, held = columns < HELD ? columns : HELD;
    const Dropout dropout(p, seed);
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
        drop_row<GROUP, VECTORS, element_t>(dropout, first, member, is_aligned, value[q]);
        write_row<GROUP, VECTORS>(y + first, row + q < rows ? held : 0, member, is_aligned, value[q]);
#pragma unroll 4
        for (long long c = HELD + member; c < end; c += GROUP) {
            const float kept = exponential<element_t>(to_float(x[first + c]) - top) * scale;
            y[first + c] = from_float<element_t>(drop_one(dropout, kept, first + c));
        }
    }
}
