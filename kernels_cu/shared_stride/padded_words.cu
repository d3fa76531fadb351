// shared_stride/padded_words: one column of padding frees the column and charges another stride.
//
// computes  y[b][c][l] = words[b] at element (l * stride + c) % SIDE^2
// mapping   block b -> tile b; warp c, lane l reads an element `stride` after that of lane l - 1
// load words 4 sectors/request
// store y 4 sectors/request
// shared store tile 1 wavefronts/request
// shared load tile 1 wavefronts/request
// teaches   With rows of 33 words a column (stride 32) is free, and so are 2, 4, 8 and 16. But stride 33,
//           free without padding, now steps 34 words and costs 2: padding suits one pattern, it is no cure
//           for all. (Counts: stride 32.)
// source    CUDA C++ Best Practices Guide, "Shared Memory and Memory Banks"

#ifndef SIDE
#define SIDE 32
#endif
#ifndef ROW
#define ROW 32
#endif
static_assert(SIDE == 32, "shared_stride/padded_words: a row of the tile is a warp, so SIDE must be 32");
static_assert(ROW == SIDE, "shared_stride/padded_words: ROW counts floats, 1 for each of SIDE elements");

extern "C" __global__ void shared_stride_padded_words(const float* __restrict__ words, float* __restrict__ y,
                                                      int stride) {
    __shared__ float tile[SIDE][SIDE + 1];
    const long long thread = (blockIdx.x * (long long)SIDE + threadIdx.y) * SIDE + threadIdx.x;

    // Fill the tile row by row, without conflicts.
    const float filled = words[thread];
    tile[threadIdx.y][threadIdx.x] = filled;
    __syncthreads();

    // Warp c starts at element c; its lanes are `stride` elements apart.
    const unsigned element = (threadIdx.x * stride + threadIdx.y) % (SIDE * SIDE);
    const float value = tile[element / SIDE][element % SIDE];
    y[thread] = value;
}
