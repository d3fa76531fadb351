// column_sum/split: rows shared by warps and blocks, sixteen bytes a lane; the last block of a tile of columns merges.
//
// computes  y[c] = the sum of x[r][c] over r
// mapping   block b -> tile b % tiles of columns, GROUP lanes each -> rows of part b / tiles
// load x 16 sectors/request
// store y 16 sectors/request
// load partials 4 sectors/request
// store partials 4 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   A sum down the columns needs no transpose: lanes keep to their columns, so rows are read as they lie,
//           and what must meet are whole rows of sums. In shared memory value i of all lanes lies together: no
//           bank conflict where a column's order would have some. Rows of fewer vectors than a warp has lanes
//           share it: a lane with nothing to load is bandwidth left over.
// source    CUDA samples, "threadFenceReduction"

#include "columns.cuh"
#include "element.cuh"

#ifndef THREADS
#define THREADS 256
#endif
#ifndef GROUP
#define GROUP 32
#endif
#ifndef ROWS
#define ROWS 4
#endif
#ifndef BLOCKS
#define BLOCKS 4
#endif
static_assert(THREADS % 256 == 0 && THREADS <= 1024,
              "column_sum/split: THREADS must be a multiple of 256, a thread for each column of a tile");
static_assert(32 % GROUP == 0, "column_sum/split: GROUP must be a power of two up to 32");
static_assert(ROWS >= 1, "column_sum/split: ROWS must be at least 1");
static_assert(BLOCKS >= 1, "column_sum/split: BLOCKS counts the blocks of a multiprocessor");

extern "C" __global__ __launch_bounds__(THREADS) void column_sum_split(const element_t* __restrict__ x,
                                                                       element_t* __restrict__ y,
                                                                       float* partials, unsigned* finished,
                                                                       long long rows, long long columns,
                                                                       long long splits) {
    __shared__ float scratch[THREADS / 32][Tile<element_t, GROUP>::HELD];
    const Tile<element_t, GROUP> tile(rows, columns, splits);
    const auto put = [=](long long column, float sum) {
        const element_t rounded = from_float<element_t>(sum);
        y[column] = rounded;
    };
    if (starts_at_vectors(x, x, columns)) {
        sum_columns<THREADS, ROWS, WIDE>(x, tile, scratch, partials, finished, put);
    } else {
        sum_columns<THREADS, ROWS, SINGLE>(x, tile, scratch, partials, finished, put);
    }
}
