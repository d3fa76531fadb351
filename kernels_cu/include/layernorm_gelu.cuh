// Layernorm with GeLU behind it: the work of the rungs that keep a row in registers.
#ifndef KERNELLAB_LAYERNORM_GELU_CUH
#define KERNELLAB_LAYERNORM_GELU_CUH

#include "gelu.cuh"
#include "norm.cuh"

template <class T>
struct LayernormGelu : Layernorm<T, false> {
    using Base = Layernorm<T, false>;
    using State = typename Base::State;
    int form;
    template <class S>
    __device__ __forceinline__ void finish(State own, State all, S share, long long first, long long start,
                                           float* value) const {
        Base::finish(own, all, share, first, start, value);
        gelu_all<S::ITEMS>(value, form);
    }
};

#endif
