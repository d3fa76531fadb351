// shared_stride/padded_pairs: padding by one element, here 8 bytes, works at this width too.
//
// computes  y[b][c][l] = pairs[b] at element (l * stride + c) % SIDE^2
// mapping   block b -> tile b; warp c, lane l reads an element `stride` after that of lane l - 1
// load pairs 8 sectors/request
// store y 8 sectors/request
// shared store tile 2 wavefronts/request
// shared load tile 2 wavefronts/request
// teaches   Pad by one element of what a lane reads, not by one word: rows of 33 pairs put the 16 lanes of a
//           half-warp in 16 different pairs of banks. Two wavefronts, the best possible. (Counts: stride 32.)
// source    CUDA C++ Best Practices Guide, "Shared Memory and Memory Banks"

#ifndef SIDE
#define SIDE 32
#endif
#ifndef ROW
#define ROW 64
#endif
static_assert(SIDE == 32, "shared_stride/padded_pairs: a row of the tile is a warp, so SIDE must be 32");
static_assert(ROW == 2 * SIDE, "shared_stride/padded_pairs: ROW counts floats, 2 for each of SIDE elements");

extern "C" __global__ void shared_stride_padded_pairs(const float2* __restrict__ pairs,
                                                      float2* __restrict__ y, int stride) {
    __shared__ float2 tile[SIDE][SIDE + 1];
    const long long thread = (blockIdx.x * (long long)SIDE + threadIdx.y) * SIDE + threadIdx.x;

    // Fill the tile row by row, without conflicts; by members, or the line table would merge load and store.
    const float2 filled = pairs[thread];
    tile[threadIdx.y][threadIdx.x] = make_float2(filled.x, filled.y);
    __syncthreads();

    // Warp c starts at element c; its lanes are `stride` elements apart.
    const unsigned element = (threadIdx.x * stride + threadIdx.y) % (SIDE * SIDE);
    const float2 value = tile[element / SIDE][element % SIDE];
    y[thread] = make_float2(value.x, value.y);
}
