// transpose/padded: one column of padding turns a column of the tile into 32 different banks.
//
// computes  y[j][i] = x[i][j]
// mapping   a TILE x TILE block -> a tile of x; warps read its rows, then write its columns as rows of y
// load x 4 sectors/request
// store y 4 sectors/request
// shared store tile 1 wavefronts/request
// shared load tile 1 wavefronts/request
// teaches   With rows of 33 words, the word below lies one bank further, so a column is free of conflicts
//           and a row still is. The price is 128 bytes of shared memory a tile.
// source    NVIDIA technical blog, "An Efficient Matrix Transpose in CUDA C/C++"

#ifndef TILE
#define TILE 32
#endif
static_assert(TILE >= 1 && TILE * TILE <= 1024, "transpose/padded: TILE x TILE threads must fit in a block");

extern "C" __global__ void transpose_padded(const float* __restrict__ x, float* __restrict__ y,
                                            long long rows, long long columns) {
    __shared__ float tile[TILE][TILE + 1];
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
