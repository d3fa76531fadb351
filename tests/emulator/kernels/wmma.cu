// One warp multiplies with nvcuda::wmma, from global memory, from shared memory, or from either (generic).
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

template <bool BY_ROWS>
struct Layout {
    using type = wmma::row_major;
};
template <>
struct Layout<false> {
    using type = wmma::col_major;
};

template <class T>
struct Element {
    using type = T;
};
template <>
struct Element<wmma::precision::tf32> {
    using type = float;
};

template <class T>
__device__ void copy(T* to, const T* from, int n) {
#pragma unroll 1
    for (int i = threadIdx.x; i < n; i += 32)
        to[i] = from[i];
}

template <class Fragment>
__device__ void round_tf32(Fragment&) {
}
template <class Use, int M, int N, int K, class L>
__device__ void round_tf32(wmma::fragment<Use, M, N, K, wmma::precision::tf32, L>& fragment) {
    for (int i = 0; i < fragment.num_elements; ++i)
        fragment.x[i] = wmma::__float_to_tf32(fragment.x[i]);
}

template <class T, class C, int M, int N, int K, bool A_BY_ROWS, bool B_BY_ROWS, bool C_BY_ROWS, bool SHARED>
__global__ void product(const typename Element<T>::type* a, const typename Element<T>::type* b, const C* c,
                        C* d, int lda, int ldb, int ldc) {
    using E = typename Element<T>::type;
    wmma::fragment<wmma::matrix_a, M, N, K, T, typename Layout<A_BY_ROWS>::type> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, T, typename Layout<B_BY_ROWS>::type> fb;
    wmma::fragment<wmma::accumulator, M, N, K, C> fc;
    constexpr auto layout = C_BY_ROWS ? wmma::mem_row_major : wmma::mem_col_major;
    if constexpr (SHARED) {
        __shared__ __align__(32) E sa[2048];
        __shared__ __align__(32) E sb[2048];
        __shared__ __align__(32) C sc[2048];
        const int nc = ldc * (C_BY_ROWS ? M : N);
        copy(sa, a, lda * (A_BY_ROWS ? M : K));
        copy(sb, b, ldb * (B_BY_ROWS ? K : N));
        copy(sc, c, nc);
        __syncthreads();
        wmma::load_matrix_sync(fa, sa, lda);
        wmma::load_matrix_sync(fb, sb, ldb);
        wmma::load_matrix_sync(fc, sc, ldc, layout);
        round_tf32(fa), round_tf32(fb);
        wmma::mma_sync(fc, fa, fb, fc);
        __syncthreads();
        wmma::store_matrix_sync(sc, fc, ldc, layout);
        __syncthreads();
        copy(d, sc, nc);
    } else {
        wmma::load_matrix_sync(fa, a, lda);
        wmma::load_matrix_sync(fb, b, ldb);
        wmma::load_matrix_sync(fc, c, ldc, layout);
        round_tf32(fa), round_tf32(fb);
        wmma::mma_sync(fc, fa, fb, fc);
        wmma::store_matrix_sync(d, fc, ldc, layout);
    }
}
