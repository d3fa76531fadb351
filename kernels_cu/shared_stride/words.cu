// shared_stride/words: four bytes a lane, no padding; the stride decides how many lanes share a bank.
//
// computes  y[b][c][l] = words[b] at element (l * stride + c) % SIDE^2
// mapping   block b -> tile b; warp c, lane l reads an element `stride` after that of lane l - 1
// load words 4 sectors/request
// store y 4 sectors/request
// shared store tile 1 wavefronts/request
// shared load tile 32 wavefronts/request
// teaches   32 banks of 4 bytes: a stride of s words puts gcd(s, 32) lanes in one bank, and they go one after
//           the other. Odd strides are free, 2 costs 2, a column (32) costs 32. (Counts: stride 32.)
// source    CUDA C++ Best Practices Guide, "Shared Memory and Memory Banks"

#ifndef SIDE
#define SIDE 32
#endif
#ifndef ROW
#define ROW 32
#endif
static_assert(SIDE == 32, "shared_stride/words: a row of the tile is a warp, so SIDE must be 32");
static_assert(ROW == SIDE, "shared_stride/words: ROW counts floats, 1 for each of SIDE elements");

extern "C" __global__ void shared_stride_words(const float* __restrict__ words, float* __restrict__ y,
                                               int stride) {
    __shared__ float tile[SIDE][SIDE];
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
