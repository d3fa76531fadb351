// shared_stride/padding_unused: an exhibit: padding that is declared and then not used.
//
// computes  y[b][c][l] = words[b] at element (l * stride + c) % SIDE^2
// mapping   block b -> tile b; warp c, lane l reads an element `stride` after that of lane l - 1
// load words 4 sectors/request
// store y 4 sectors/request
// shared store tile 1 wavefronts/request
// shared load tile 32 wavefronts/request
// teaches   The declaration says 33 words a row, the index arithmetic still says 32: every answer is right
//           and every column read still queues 32 deep. Only a count shows it. (Counts: stride 32.)
// source    CUDA C++ Best Practices Guide, "Shared Memory and Memory Banks"

#ifndef SIDE
#define SIDE 32
#endif
#ifndef ROW
#define ROW 32
#endif
static_assert(SIDE == 32, "shared_stride/padding_unused: a row of the tile is a warp, so SIDE must be 32");
static_assert(ROW == SIDE, "shared_stride/padding_unused: ROW counts floats, 1 for each of SIDE elements");

extern "C" __global__ void shared_stride_padding_unused(const float* __restrict__ words,
                                                        float* __restrict__ y, int stride) {
    __shared__ float tile[SIDE * (SIDE + 1)];
    const long long thread = (blockIdx.x * (long long)SIDE + threadIdx.y) * SIDE + threadIdx.x;

    // Wrong on purpose, here and below: the pitch of a padded row is SIDE + 1.
    const float filled = words[thread];
    tile[threadIdx.y * SIDE + threadIdx.x] = filled;
    __syncthreads();

    const unsigned element = (threadIdx.x * stride + threadIdx.y) % (SIDE * SIDE);
    const float value = tile[element / SIDE * SIDE + element % SIDE];
    y[thread] = value;
}
