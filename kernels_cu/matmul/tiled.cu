// matmul/tiled: tiles of both matrices in shared memory, each element read TILE times less often.
//
// computes  y[i][j] = sum of a[i][q] * b[q][j] over q
// mapping   TILE * TILE threads -> a tile of y; TILE columns of a and rows of b at a time
// load a 4 sectors/request
// load b 4 sectors/request
// store y 4 sectors/request
// shared store a_tile 1 wavefronts/request
// shared store b_tile 1 wavefronts/request
// shared load a_tile 2 wavefronts/request
// shared load b_tile 1 wavefronts/request
// teaches   Global traffic falls by TILE. But a multiplication still waits for a word of b and, as the compiler
//           joins four of a row of a into one load, for a quarter of one: shared memory is the limit now.
// source    CUDA C++ Programming Guide, "Shared Memory"

#ifndef TILE
#define TILE 32
#endif
static_assert(TILE >= 1 && TILE <= 32, "matmul/tiled: TILE * TILE threads must not exceed 1024");

extern "C" __global__ __launch_bounds__(TILE* TILE) void matmul_tiled(const float* __restrict__ a,
                                                                      const float* __restrict__ b,
                                                                      float* __restrict__ y, long long m,
                                                                      long long n, long long k) {
    const long long across = (n + TILE - 1) / TILE;
    const long long first_row = blockIdx.x / across * TILE, first_column = blockIdx.x % across * TILE;
    const int r = threadIdx.y, c = threadIdx.x;
    __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
    float sum = 0.0f;
    for (long long start = 0; start < k; start += TILE) {
        // Beyond an edge stands 0: it adds nothing.
        a_tile[r][c] = first_row + r < m && start + c < k ? a[(first_row + r) * k + start + c] : 0.0f;
        b_tile[r][c] = start + r < k && first_column + c < n ? b[(start + r) * n + first_column + c] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int q = 0; q < TILE; ++q) {
            const float left = a_tile[r][q];
            const float right = b_tile[q][c];
            sum = fmaf(left, right, sum);
        }
        __syncthreads();
    }
    if (first_row + r < m && first_column + c < n) {
        y[(first_row + r) * n + first_column + c] = sum;
    }
}
