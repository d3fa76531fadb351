// transpose/matrices: ldmatrix turns 8 x 8 elements on the way, and takes its rows from where they are wanted.
//
// computes  y[j][i] = x[i][j]
// mapping   256 threads -> a square tile of x, LINES times 128 bytes wide; a warp writes 64 bytes each of 8 rows
//           of y; elements have 16 bits, rows and columns are multiples of 8
// load x 16 sectors/request
// store y 16 sectors/request
// shared load tile 4 wavefronts/request
// teaches   A lane's word of a turned matrix holds two neighbours of a column. The rows of a matrix may lie
//           anywhere: with rows 8 l + 2 i and the next, l = 0..3, in matrix i, four matrices give lane l eight
//           neighbours of a column, 16 bytes to store: no byte is permuted in registers. The swizzle goes by
//           the bits in which those eight rows differ, so that they lie in all banks.
// source    PTX ISA, ldmatrix with .trans

#include "copies.cuh"
#include "mma.cuh"

#ifndef LINES
#define LINES 2
#endif
static_assert(LINES == 1 || LINES == 2, "transpose/matrices: LINES must be 1 or 2");
static_assert(sizeof(element_t) == 2, "transpose/matrices: elements must have 16 bits");

// Where the 16-byte piece of a row lies.
__device__ __forceinline__ int piece_at(int row, int piece) {
    return (row * 8 * LINES + (piece ^ (row / 8 % 4 * 2 + row % 2))) * 16;
}

extern "C" __global__ __launch_bounds__(256) void transpose_matrices(const element_t* __restrict__ x,
                                                                     element_t* __restrict__ y,
                                                                     long long rows, long long columns) {
    constexpr int TILE = 64 * LINES, PIECES = 8 * LINES, EACH = 256 / PIECES, BANDS = TILE / 32;
    __shared__ __align__(128) element_t held[TILE * TILE];
    const unsigned tile = shared_place(held);
    const long long down = (rows + TILE - 1) / TILE;
    const long long first_row = blockIdx.x % down * TILE, first_column = blockIdx.x / down * TILE;
    const int high = rows - first_row < TILE ? rows - first_row : TILE;
    const int wide = columns - first_column < TILE ? columns - first_column : TILE;

    // Read: copies need no registers, so all of a thread's are in flight together.
    const int piece = threadIdx.x % PIECES, first = threadIdx.x / PIECES;
    x += (first_row + first) * columns + first_column + piece * 8;
#pragma unroll
    for (int i = 0; i < TILE; i += EACH) {
        const bool is_there = first + i < high && piece * 8 < wide;
        copy_vector(tile + piece_at(first + i, piece), x + i * columns, is_there);
    }
    close_copies();
    wait_for_copies<0>();
    __syncthreads();

    // Write: a warp takes 32 rows of a piece at a time.
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, r = warp % BANDS * 32;
    const int matrix_row = r + lane % 8 / 2 * 8 + lane / 8 * 2 + lane % 2;
    y += (first_column + lane / 4) * rows + first_row + r + lane % 4 * 8;
    const bool has_rows = r + lane % 4 * 8 < high;
#pragma unroll
    for (int i = 0; i < PIECES; i += 8 / BANDS) {
        const int p = i + warp / BANDS;
        unsigned word[4];
        load_matrices_turned(word, tile + piece_at(matrix_row, p));
        if (has_rows && p * 8 < wide) {
            *reinterpret_cast<uint4*>(y + p * 8 * rows) = make_uint4(word[0], word[1], word[2], word[3]);
        }
    }
}
