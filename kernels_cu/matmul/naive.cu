// matmul/naive: one element a thread, neighbouring lanes in different rows.
//
// computes  y[i][j] = sum of a[i][q] * b[q][j] over q
// mapping   TILE * TILE threads -> as many elements of y; lanes run down a column
// load a 32 sectors/request
// load b 1 sectors/request
// store y 32 sectors/request
// teaches   Lanes that run down a column read 32 rows of a at a time and write 32 rows of y: of each sector
//           of 32 bytes four are used, and a column of y costs eight times its traffic.
// source    CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory"

#ifndef TILE
#define TILE 32
#endif
static_assert(TILE >= 1 && TILE <= 32, "matmul/naive: TILE * TILE threads must not exceed 1024");

extern "C" __global__ __launch_bounds__(TILE* TILE) void matmul_naive(const float* __restrict__ a,
                                                                      const float* __restrict__ b,
                                                                      float* __restrict__ y, long long m,
                                                                      long long n, long long k) {
    const long long across = (n + TILE - 1) / TILE;
    const long long first_row = blockIdx.x / across * TILE, first_column = blockIdx.x % across * TILE;
    const long long i = first_row + threadIdx.x, j = first_column + threadIdx.y;
    if (i < m && j < n) {
        float sum = 0.0f;
        for (long long q = 0; q < k; ++q) {
            const float left = a[i * k + q];
            const float right = b[q * n + j];
            sum = fmaf(left, right, sum);
        }
        y[i * n + j] = sum;
    }
}
