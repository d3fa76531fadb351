// bias_gelu_backward/fused: the gradient of the bias is added up while that of x is in registers.
//
// computes  dx[r][c] = dy[r][c] * gelu'(x[r][c] + bias[c]), dbias[c] = the sum of dx[r][c] over r
// mapping   block b -> tile b % tiles of columns, GROUP lanes each -> rows of part b / tiles
// load dy 16 sectors/request
// load x 16 sectors/request
// load bias 16 sectors/request
// store dx 16 sectors/request
// store dbias 16 sectors/request
// load partials 4 sectors/request
// store partials 4 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   The sum takes what is there anyway: dx is not read again, so three arrays move and not four; and in 16
//           bits the sum is of what was computed, before it is rounded.
// source    Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016)

#include "backward.cuh"
#include "columns.cuh"
#include "element.cuh"
#include "gelu.cuh"

#ifndef THREADS
#define THREADS 256
#endif
#ifndef GROUP
#define GROUP 32
#endif
#ifndef ROWS
#define ROWS 2
#endif
#ifndef BLOCKS
#define BLOCKS 4
#endif
static_assert(
    THREADS % 256 == 0 && THREADS <= 1024,
    "bias_gelu_backward/fused: THREADS must be a multiple of 256, a thread for each column of a tile");
static_assert(32 % GROUP == 0, "bias_gelu_backward/fused: GROUP must be a power of two up to 32");
static_assert(ROWS >= 1, "bias_gelu_backward/fused: ROWS must be at least 1");
static_assert(BLOCKS >= 1, "bias_gelu_backward/fused: BLOCKS counts the blocks of a multiprocessor");

extern "C" __global__ __launch_bounds__(THREADS) void bias_gelu_backward_fused(
    const element_t* __restrict__ dy, const element_t* __restrict__ x, const element_t* __restrict__ bias,
    element_t* __restrict__ dx, element_t* __restrict__ dbias, float* partials, unsigned* finished,
    long long rows, long long columns, long long splits, int form) {
    __shared__ float scratch[THREADS / 32][Tile<element_t, GROUP>::HELD];
    const Tile<element_t, GROUP> tile(rows, columns, splits);
    const auto all = [&](auto laid) {
        using S = Share<element_t, GROUP, 1, laid.LAYOUT>;
        float added[S::ITEMS], sum[S::ITEMS] = {};
        read_bias(bias + tile.start(), tile.template share<S>(), added);
        down_columns<S, THREADS, ROWS>(tile, [&](const S* here, const long long* offset) {
            float value[ROWS][S::ITEMS], passed[ROWS][S::ITEMS];
#pragma unroll
            for (int q = 0; q < ROWS; ++q) {
                read(x + offset[q], here[q], false, value[q]);
                read_dy(dy + offset[q], here[q], passed[q]);
            }
#pragma unroll
            for (int q = 0; q < ROWS; ++q) {
#pragma unroll
                for (int i = 0; i < S::ITEMS; ++i) {
                    value[q][i] += added[i];
                }
                gelu_slope_all<S::ITEMS>(value[q], form);
#pragma unroll
                for (int i = 0; i < S::ITEMS; ++i) {
                    passed[q][i] *= value[q][i];
                    sum[i] += passed[q][i];
                }
                write_dx(dx + offset[q], here[q], passed[q]);
            }
        });
        finish_columns<S, THREADS>(tile, sum, scratch, partials, finished,
                                   [=](long long column, float total) {
                                       const element_t rounded = from_float<element_t>(total);
                                       dbias[column] = rounded;
                                   });
    };
    if (starts_at_vectors(x, dx, columns) && starts_at_vectors(dy, bias, columns)) {
        all(Laid<WIDE>{});
    } else {
        all(Laid<SINGLE>{});
    }
}
