// shared_stride/pairs: eight bytes a lane; a warp goes in two halves, and the conflicts come within each.
//
// computes  y[b][c][l] = pairs[b] at element (l * stride + c) % SIDE^2
// mapping   block b -> tile b; warp c, lane l reads an element `stride` after that of lane l - 1
// load pairs 8 sectors/request
// store y 8 sectors/request
// shared store tile 2 wavefronts/request
// shared load tile 32 wavefronts/request
// teaches   64 words over 32 banks need two wavefronts at best, one a half-warp: two is no conflict. At
//           stride 32 the 16 lanes of a half share a pair of banks: 16 a half, 32 in all, for twice the
//           bytes. (Counts: stride 32.)
// source    CUDA C++ Best Practices Guide, "Shared Memory and Memory Banks"

#ifndef SIDE
#define SIDE 32
#endif
#ifndef ROW
#define ROW 64
#endif
static_assert(SIDE == 32, "shared_stride/pairs: a row of the tile is a warp, so SIDE must be 32");
static_assert(ROW == 2 * SIDE, "shared_stride/pairs: ROW counts floats, 2 for each of SIDE elements");

extern "C" __global__ void shared_stride_pairs(const float2* __restrict__ pairs, float2* __restrict__ y,
                                               int stride) {
    __shared__ float2 tile[SIDE][SIDE];
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
