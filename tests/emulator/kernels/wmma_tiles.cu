// What people write with nvcuda::wmma, and what they must not write.
#include <mma.h>

using namespace nvcuda;

extern "C" __global__ void generic(const half* a, const half* b, float* d, int from_shared) {
    __shared__ __align__(32) half tile[256];
    for (int i = threadIdx.x; i < 256; i += 32)
        tile[i] = a[i];
    __syncwarp();
    const half* p = from_shared ? tile : a;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::load_matrix_sync(fa, p, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::fill_fragment(fc, 0.0f);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(d, fc, 16, wmma::mem_row_major);
}

extern "C" __global__ void scaled(const half* a, const half* b, float* d, float scale) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    for (int i = 0; i < fa.num_elements; ++i)
        fa.x[i] = __hmul(fa.x[i], __float2half(2.0f));
    wmma::mma_sync(fc, fa, fb, fc);
    for (int i = 0; i < fc.num_elements; ++i)
        fc.x[i] = fc.x[i] * scale;
    wmma::store_matrix_sync(d, fc, 16, wmma::mem_row_major);
}

extern "C" __global__ void diverged(const half* a, float* d) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    if (threadIdx.x < 20) {
        wmma::load_matrix_sync(fa, a, 16);
        d[threadIdx.x] = __half2float(fa.x[0]);
    }
}

extern "C" __global__ void each_its_own(const half* a, float* d) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::load_matrix_sync(fa, a + threadIdx.x / 8 * 16, 16);
    d[threadIdx.x] = __half2float(fa.x[0]);
}

extern "C" __global__ void unfinished(float* d) {
    __shared__ __align__(32) half tile[256];
    for (int i = threadIdx.x; i < 255; i += 32)
        tile[i] = __float2half(1.0f);
    __syncthreads();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::load_matrix_sync(fa, tile, 16);
    for (int i = 0; i < fa.num_elements; ++i)
        d[threadIdx.x] += __half2float(fa.x[i]);
}

extern "C" __global__ void overlapping(float* d) {
    __shared__ __align__(32) float tile[256];
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 1.0f);
    wmma::store_matrix_sync(tile, fc, 12, wmma::mem_row_major);
    __syncthreads();
    d[threadIdx.x] = tile[threadIdx.x];
}

// A block of 4 x 4 warps multiplies 64 x 64 x k; each warp has a tile of 16 x 16.
extern "C" __global__ void matmul(const half* a, const half* b, float* c, int n, int k, int has_barrier) {
    __shared__ __align__(32) half sa[64 * 24], sb[16 * 72];
    const int warp = threadIdx.x / 32, row = warp / 4 * 16, column = warp % 4 * 16;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    for (int start = 0; start < k; start += 16) {
        for (int i = threadIdx.x; i < 1024; i += 512) {
            sa[i / 16 * 24 + i % 16] = a[(blockIdx.y * 64 + i / 16) * k + start + i % 16];
            sb[i / 64 * 72 + i % 64] = b[(start + i / 64) * n + blockIdx.x * 64 + i % 64];
        }
        __syncthreads();
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
        wmma::load_matrix_sync(fa, sa + row * 24, 24);
        wmma::load_matrix_sync(fb, sb + column, 72);
        wmma::mma_sync(fc, fa, fb, fc);
        if (has_barrier)
            __syncthreads();
    }
    wmma::store_matrix_sync(c + (blockIdx.y * 64 + row) * n + blockIdx.x * 64 + column, fc, n,
                            wmma::mem_row_major);
}

// One warp multiplies 16 x k by k x n; the strides and layouts are what people mix up.
template <class Layout>
__device__ void multiply_strip(const half* a, const half* b, float* c, int n, int k, int lda, int ldb,
                               int c_by_rows) {
    for (int j = 0; j < n; j += 16) {
        wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
        wmma::fill_fragment(fc, 0.0f);
        for (int i = 0; i < k; i += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, Layout> fb;
            wmma::load_matrix_sync(fa, a + i, lda);
            wmma::load_matrix_sync(fb, b + i * n + j, ldb);
            wmma::mma_sync(fc, fa, fb, fc);
        }
        wmma::store_matrix_sync(c + j, fc, n, c_by_rows ? wmma::mem_row_major : wmma::mem_col_major);
    }
}

extern "C" __global__ void strip(const half* a, const half* b, float* c, int n, int k, int lda, int ldb,
                                 int c_by_rows) {
    multiply_strip<wmma::row_major>(a, b, c, n, k, lda, ldb, c_by_rows);
}

extern "C" __global__ void strip_of_columns(const half* a, const half* b, float* c, int n, int k, int lda,
                                            int ldb, int c_by_rows) {
    multiply_strip<wmma::col_major>(a, b, c, n, k, lda, ldb, c_by_rows);
}
