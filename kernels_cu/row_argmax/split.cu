// row_argmax/split: several blocks a row where rows are long and few; the last one of a row merges.
//
// computes  y[r] = the place of the first largest of x[r], or of the first NaN
// mapping   block b -> row b / splits, tiles b % splits, b % splits + splits, ... of it
// load x 16 sectors/request
// store y 1 sectors/request
// load partials 1 sectors/request
// store partials 1 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   The number of splits is chosen so that the grid fills the device, and is 1 where rows alone do;
//           rows of length THREADS * VECTORS vectors or less are never split. A counter a row finds the last
//           block, which sets it back to 0. Same bits in every run on one kind of device.
// source    CUDA samples, "threadFenceReduction"

#include "fold.cuh"

#ifndef THREADS
#define THREADS 256
#endif
#ifndef VECTORS
#define VECTORS 4
#endif
#ifndef BLOCKS
#define BLOCKS 16
#endif
static_assert(THREADS >= 32 && THREADS <= 1024 && THREADS % 32 == 0,
              "row_argmax/split: THREADS must be whole warps, at most 1024");
static_assert(VECTORS >= 1 && VECTORS <= 16,
              "row_argmax/split: VECTORS must be 1 to 16, they live in registers");
static_assert(BLOCKS >= 1, "row_argmax/split: BLOCKS counts the blocks of a multiprocessor");

extern "C" __global__ __launch_bounds__(THREADS) void row_argmax_split(const element_t* __restrict__ x,
                                                                       long long* __restrict__ y,
                                                                       float* partials, long long* places,
                                                                       unsigned* finished, long long columns,
                                                                       long long splits) {
    __shared__ float scratch[32];
    __shared__ long long scratch_places[32];
    const long long row = blockIdx.x / (unsigned)splits;
    const int split = blockIdx.x % (unsigned)splits;

    // Tiles of whole vectors: all loads first, then the merges. Rows that start between go by elements.
    const bool is_wide = columns % LANES(wide16_t) == 0;
    Best mine = fold_line<ArgMax, wide16_t, THREADS, VECTORS>(x + row * columns, columns, is_wide,
                                                              threadIdx.x, split, splits);
    mine = block_fold<ArgMax, THREADS>(mine, scratch, scratch_places);

    // The block that is the last of its row to leave its value merges those of all.
    if (is_last_to_leave(mine, finished + row, splits, blockIdx.x, partials, places)) {
        mine = fold_partials<ArgMax, THREADS>(row * splits, splits, partials, places);
        mine = block_fold<ArgMax, THREADS>(mine, scratch, scratch_places);
        if (threadIdx.x < 32) {
            const long long place = exact_place<LANES(wide16_t)>(x + row * columns, columns, mine);
            if (threadIdx.x == 0) {
                y[row] = place;
            }
        }
    }
}
