// transpose/tiled: through a tile in shared memory; both sides of global memory are coalesced.
//
// computes  y[j][i] = x[i][j]
// mapping   a TILE x TILE block -> a tile of x; warps read its rows, then write its columns as rows of y
// load x 4 sectors/request
// store y 4 sectors/request
// shared store tile 1 wavefronts/request
// shared load tile 32 wavefronts/request
// teaches   The tile turns the corner inside the chip, so no sector is wasted. But a column of a tile that is
//           32 words wide lies in one bank: 32 lanes queue for it. See transpose/padded.
// source    NVIDIA technical blog, "An Efficient Matrix Transpose in CUDA C/C++"

#ifndef TILE
#define TILE 32
#endif
static_assert(TILE >= 1 && TILE * TILE <= 1024, "transpose/tiled: TILE x TILE threads must fit in a block");

extern "C" __global__ void transpose_tiled(const float* __restrict__ x, float* __restrict__ y, long long rows,
                                           long long columns) {
    __shared__ float tile[TILE][TILE];
    const long long tile_row = (long long)blockIdx.z * gridDim.y + blockIdx.y;
    const long long first_row = tile_row * TILE, first_column = (long long)blockIdx.x * TILE;

    // Read rows of x. Lanes outside only skip the access: they must still reach the barrier.
    if (first_row + threadIdx.y < rows && first_column + threadIdx.x < columns) {
        const float value = x[(first_row + threadIdx.y) * columns + first_column + threadIdx.x];
        tile[threadIdx.y][threadIdx.x] = value;
    }
    __syncthreads();

    // Write rows of y: lanes now run down a column of the tile.
    if (first_column + threadIdx.y < columns && first_row + threadIdx.x < rows) {
        const float value = tile[threadIdx.x][threadIdx.y];
        y[(first_column + threadIdx.y) * rows + first_row + threadIdx.x] = value;
    }
}
