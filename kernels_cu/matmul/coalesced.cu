// matmul/coalesced: the same loop with neighbouring lanes in neighbouring columns.
//
// computes  y[i][j] = sum of a[i][q] * b[q][j] over q
// mapping   TILE * TILE threads -> as many elements of y; lanes run along a row
// load a 1 sectors/request
// load b 4 sectors/request
// store y 4 sectors/request
// teaches   Two indices exchanged, and every sector is used whole: a warp shares one element of a and reads
//           128 bytes of a row of b. Each element is still read once for every product that it is in.
// source    CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory"

#ifndef TILE
#define TILE 32
#endif
static_assert(TILE >= 1 && TILE <= 32, "matmul/coalesced: TILE * TILE threads must not exceed 1024");

extern "C" __global__ __launch_bounds__(TILE* TILE) void matmul_coalesced(const float* __restrict__ a,
                                                                          const float* __restrict__ b,
                                                                          float* __restrict__ y, long long m,
                                                                          long long n, long long k) {
    const long long across = (n + TILE - 1) / TILE;
    const long long first_row = blockIdx.x / across * TILE, first_column = blockIdx.x % across * TILE;
    const long long i = first_row + threadIdx.y, j = first_column + threadIdx.x;
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
