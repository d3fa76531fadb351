// Tensor cores by the warp (sm_80): matrices of 8 x 8 elements of 16 bits between shared memory and registers, and
// the product of 16 x 16 by 16 x 8, added up in float.
//
// A lane's word of a matrix holds elements 2 * (lane % 4) and the next of row lane / 4. A fragment of `a` is four
// matrices: rows 0-7 and 8-15 of columns 0-7, then of columns 8-15; of `b` two, each a column of its own a row;
// of the sum two values of row lane / 4, then two of the eighth row below.
#ifndef KERNELLAB_MMA_CUH
#define KERNELLAB_MMA_CUH

#include "element.cuh"

// Where the 16-byte piece of a row lies, for rows of `pitch` bytes: eight rows below each other, or eight pieces
// beside each other, then lie in all 32 banks.
template <int pitch>
__device__ __forceinline__ int swizzled(int row, int piece) {
    static_assert(pitch == 64 || pitch % 128 == 0, "mma: rows must take 64 bytes, or a multiple of 128");
    return row * pitch + (pitch == 64 ? piece ^ row / 2 % 4 : piece ^ row % 8) * 16;
}

// Four matrices; lane l gives the address of row l % 8 of matrix l / 8. `turned`: rows become columns.
__device__ __forceinline__ void load_matrices(unsigned (&word)[4], unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "r"(row)
                 : "memory");
}
__device__ __forceinline__ void load_matrices_turned(unsigned (&word)[4], unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "r"(row)
                 : "memory");
}

__device__ __forceinline__ void multiply_add(float (&sum)[4], const unsigned (&a)[4], const unsigned* b,
                                             const __half*) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void multiply_add(float (&sum)[4], const unsigned (&a)[4], const unsigned* b,
                                             const __nv_bfloat16*) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#endif
