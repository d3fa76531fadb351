// Softmax with dropout behind it: the work of the rungs that keep a row in registers.
#ifndef KERNELLAB_SOFTMAX_DROPOUT_CUH
#define KERNELLAB_SOFTMAX_DROPOUT_CUH

#include "philox.cuh"
#include "softmax.cuh"

template <class T>
struct SoftmaxDropout : Softmax<T> {
    Dropout dropout;
    template <class S>
    __device__ __forceinline__ void finish(Pair own, Pair all, S share, long long first, long long start,
                                           float* value) const {
        const float factor = Softmax<T>::scale(own, all) * dropout.scale;
#pragma unroll
        for (int i = 0; i < S::ITEMS; ++i) {
            value[i] *= factor;
        }
        drop(dropout, first + start, share, value);
    }
};

#endif
