// transpose/naive: straight through; the loads are coalesced and the stores cannot be.
//
// computes  y[j][i] = x[i][j]
// mapping   thread (tx, ty) of a TILE x TILE block -> row TILE * (block row) + ty, column likewise with tx
// load x 4 sectors/request
// store y 32 sectors/request
// teaches   A warp reads along a row and writes down a column, where each lane owns a sector and fills an
//           eighth of it. Swapping tx and ty only moves the waste from the stores to the loads.
// source    NVIDIA technical blog, "An Efficient Matrix Transpose in CUDA C/C++"

#ifndef TILE
#define TILE 32
#endif
static_assert(TILE >= 1 && TILE * TILE <= 1024, "transpose/naive: TILE x TILE threads must fit in a block");

extern "C" __global__ void transpose_naive(const float* __restrict__ x, float* __restrict__ y, long long rows,
                                           long long columns) {
    // Grid z carries the rows of tiles that y, with its limit of 65535, cannot.
    const long long tile_row = (long long)blockIdx.z * gridDim.y + blockIdx.y;
    const long long i = tile_row * TILE + threadIdx.y;
    const long long j = (long long)blockIdx.x * TILE + threadIdx.x;
    if (i < rows && j < columns) {
        const float value = x[i * columns + j];
        y[j * rows + i] = value;
    }
}
