// shared_stride/quads: sixteen bytes a lane; a warp goes in four quarters.
//
// computes  y[b][c][l] = quads[b] at element (l * stride + c) % SIDE^2
// mapping   block b -> tile b; warp c, lane l reads an element `stride` after that of lane l - 1
// load quads 16 sectors/request
// store y 16 sectors/request
// shared store tile 4 wavefronts/request
// shared load tile 32 wavefronts/request
// teaches   128 words over 32 banks need four wavefronts at best, one a quarter-warp. At stride 32 the 8
//           lanes of a quarter share four banks: 8 a quarter, 32 in all. The same 32 as copies of 4 bytes,
//           for four times the bytes. (Counts: stride 32.)
// source    CUDA C++ Best Practices Guide, "Shared Memory and Memory Banks"

#ifndef SIDE
#define SIDE 32
#endif
#ifndef ROW
#define ROW 128
#endif
static_assert(SIDE == 32, "shared_stride/quads: a row of the tile is a warp, so SIDE must be 32");
static_assert(ROW == 4 * SIDE, "shared_stride/quads: ROW counts floats, 4 for each of SIDE elements");

extern "C" __global__ void shared_stride_quads(const float4* __restrict__ quads, float4* __restrict__ y,
                                               int stride) {
    __shared__ float4 tile[SIDE][SIDE];
    const long long thread = (blockIdx.x * (long long)SIDE + threadIdx.y) * SIDE + threadIdx.x;

    // Fill the tile row by row, without conflicts; by members, or the line table would merge load and store.
    const float4 filled = quads[thread];
    tile[threadIdx.y][threadIdx.x] = make_float4(filled.x, filled.y, filled.z, filled.w);
    __syncthreads();

    // Warp c starts at element c; its lanes are `stride` elements apart.
    const unsigned element = (threadIdx.x * stride + threadIdx.y) % (SIDE * SIDE);
    const float4 value = tile[element / SIDE][element % SIDE];
    y[thread] = make_float4(value.x, value.y, value.z, value.w);
}
