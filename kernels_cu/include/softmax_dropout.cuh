// Softmax with dropout behind it: the work of the rungs that keep a row in registers.
#ifndef KERNELLAB_SOFTMAX_DROPOUT_CUH
#define KERNELLAB_SOFTMAX_DROPOUT_CUH

#include "philox.cuh"
#include "softmax.cuh"

template <class T>
struct SoftmaxDropout : Softmax<T> {
    Dropout dropout;
    __device__ __forceinline__ float settle(Pair own, Pair all) const {
        return Softmax<T>::settle(own, all) * dropout.scale;
    }
    template <class S>
    __device__ __forceinline__ void finish(float factor, S share, long long first, long long start,
                                           float* value) const {
        Softmax<T>::finish(factor, share, first, start, value);
        drop(dropout, first + start, share, value);
    }
};

#endif
