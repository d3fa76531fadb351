// Layernorm with GeLU behind it: the work of the rungs that keep a row in registers.
#ifndef KERNELLAB_LAYERNORM_GELU_CUH
#define KERNELLAB_LAYERNORM_GELU_CUH

#include "gelu.cuh"
#include "norm.cuh"

// `only` is the one form that there is, or negative: then `form` says which.
template <class T, int only = -1>
struct LayernormGelu : Layernorm<T, false> {
    using Base = Layernorm<T, false>;
    int form;
    template <class S>
    __device__ __forceinline__ void finish(Norm norm, S share, long long first, long long start,
                                           float* value) const {
        Base::finish(norm, share, first, start, value);
        gelu_all<S::ITEMS>(value, only < 0 ? form : only);
    }
};

#endif
