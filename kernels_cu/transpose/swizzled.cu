// transpose/swizzled: an XOR scatters a column over the banks; no shared memory is spent on padding.
//
// computes  y[j][i] = x[i][j]
// mapping   a TILE x TILE block -> a tile of x; element (r, c) of the tile is kept at (r, c ^ r)
// load x 4 sectors/request
// store y 4 sectors/request
// shared store tile 1 wavefronts/request
// shared load tile 1 wavefronts/request
// teaches   c ^ r permutes each row by its own number: rows and columns are both conflict-free, at one
//           instruction a side, and rows stay a power of two long, which vector and TMA accesses need.
// source    CUTLASS documentation on swizzled shared-memory layouts

#ifndef TILE
#define TILE 32
#endif
static_assert(TILE >= 1 && TILE * TILE <= 1024,
              "transpose/swizzled: TILE x TILE threads must fit in a block");
static_assert((TILE & (TILE - 1)) == 0,
              "transpose/swizzled: TILE must be a power of two, or c ^ r leaves the tile");

extern "C" __global__ void transpose_swizzled(const float* __restrict__ x, float* __restrict__ y,
                                              long long rows, long long columns) {
    __shared__ float tile[TILE][TILE];
    const long long tile_row = (long long)blockIdx.z * gridDim.y + blockIdx.y;
    const long long first_row = tile_row * TILE, first_column = (long long)blockIdx.x * TILE;

    // Read rows of x. Lanes outside only skip the access: they must still reach the barrier.
    if (first_row + threadIdx.y < rows && first_column + threadIdx.x < columns) {
        const float value = x[(first_row + threadIdx.y) * columns + first_column + threadIdx.x];
        tile[threadIdx.y][threadIdx.x ^ threadIdx.y] = value;
    }
    __syncthreads();

    // Write rows of y: lanes now run down a column of the tile.
    if (first_column + threadIdx.y < columns && first_row + threadIdx.x < rows) {
        const float value = tile[threadIdx.x][threadIdx.y ^ threadIdx.x];
        y[(first_column + threadIdx.y) * rows + first_row + threadIdx.x] = value;
    }
}
