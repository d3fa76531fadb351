// Biases: what the epilogue of a product by warpgroups adds to a lane's columns, and GeLU of the sum.
#ifndef KERNELLAB_BIASES_CUH
#define KERNELLAB_BIASES_CUH

#include "gelu.cuh"

// The biases of columns `column`, `column` + 1, and of every eighth after those; asked for before the products.
template <int columns, class T>
struct Biases {
    unsigned word[columns / 8];

    __device__ __forceinline__ Biases(const T* __restrict__ bias, int column, int n) {
#pragma unroll
        for (int j = 0; j < columns / 8; ++j) {
            const int at = column + 8 * j;
            word[j] = 0;
            if (at < n) {
                word[j] = *reinterpret_cast<const unsigned*>(bias + at);
            }
        }
    }

    // A branch on the form here would keep both forms' code between the products: the kernel asks once, before.
    template <bool is_tanh>
    __device__ __forceinline__ void finish(int first, float* value) const {
        const T* const kind = nullptr;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            float added[2];
            unpack_word(word[first + j], added, kind);
#pragma unroll
            for (int q = 0; q < 4; ++q) {
                value[4 * j + q] += added[q % 2];
            }
        }
        gelu_all<32, true>(value, is_tanh);
    }
};

#endif
