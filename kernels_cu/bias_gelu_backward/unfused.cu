// bias_gelu_backward/unfused: the gradient of x to memory; then the sums of its columns from there.
//
// computes  dx[r][c] = dy[r][c] * gelu'(x[r][c] + bias[c]), dbias[c] = the sum of dx[r][c] over r
// mapping   thread i of the grid -> element i; then as column_sum/split, which calls dx its x
// load dy 4 sectors/request
// load x 6.4 sectors/request
// load bias 4 sectors/request
// store dx 4 sectors/request
// store dbias 16 sectors/request
// load partials 4 sectors/request
// store partials 4 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   dx is read again as soon as it is written, and in 16 bits what is added up was rounded before.
// source    what a library of single operations does

#include "backward.cuh"
#include "columns.cuh"
#include "element.cuh"

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
    "bias_gelu_backward/unfused: THREADS must be a multiple of 256, a thread for each column of a tile");
static_assert(32 % GROUP == 0, "bias_gelu_backward/unfused: GROUP must be a power of two up to 32");
static_assert(ROWS >= 1, "bias_gelu_backward/unfused: ROWS must be at least 1");
static_assert(BLOCKS >= 1, "bias_gelu_backward/unfused: BLOCKS counts the blocks of a multiprocessor");

extern "C" __global__ __launch_bounds__(THREADS) void bias_gelu_backward_unfused_slope(
    const element_t* __restrict__ dy, const element_t* __restrict__ x, const element_t* __restrict__ bias,
    element_t* __restrict__ dx, long long rows, long long columns, int form) {
    const long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (i < rows * columns) {
        const float added = to_float(bias[i % columns]);
        const float value = to_float(x[i]) + added;
        const float passed = to_float(dy[i]) * gelu_slope(value, form);
        dx[i] = from_float<element_t>(passed);
    }
}

extern "C" __global__ __launch_bounds__(THREADS) void bias_gelu_backward_unfused_sum(
    const element_t* __restrict__ dx, element_t* __restrict__ dbias, float* partials, unsigned* finished,
    long long rows, long long columns, long long splits) {
    __shared__ float scratch[THREADS / 32][Tile<element_t, GROUP>::HELD];
    const Tile<element_t, GROUP> tile(rows, columns, splits);
    const auto put = [=](long long column, float sum) {
        const element_t rounded = from_float<element_t>(sum);
        dbias[column] = rounded;
    };
    if (starts_at_vectors(dx, dx, columns)) {
        sum_columns<THREADS, ROWS, WIDE>(dx, tile, scratch, partials, finished, put);
    } else {
        sum_columns<THREADS, ROWS, SINGLE>(dx, tile, scratch, partials, finished, put);
    }
}
