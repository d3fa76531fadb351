// elementary/fast_math: the same text compiled with -use_fast_math.
//
// computes  y[i] = f(x[i]) + f(x[i] + 1/64) + ... , `terms` in all; `function` says which f
// mapping   thread i of the grid -> element i
// load x 4 sectors/request
// store y 4 sectors/request
// teaches   Every function becomes an estimate by the special function unit (ex2, lg2, sin, tanh, rcp) with a
//           multiplication before or after it; subnormal numbers are flushed to zero, everywhere in the file. What
//           it costs is accuracy: read the errors in ulp before turning it on. Numba: cuda.jit(fastmath=True).
// source    CUDA C++ Programming Guide, "Intrinsic Functions"

#include "elementary.cuh"

extern "C" __global__ void elementary_fast_math(const float* __restrict__ x, float* __restrict__ y,
                                                int function, int terms, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float value = x[i];
        y[i] = sum_of(function, value, terms);
    }
}
