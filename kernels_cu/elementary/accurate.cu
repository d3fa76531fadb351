// elementary/accurate: division and the elementary functions as CUDA's library has them by default.
//
// computes  y[i] = f(x[i]) + f(x[i] + 1/64) + ... , `terms` in all; `function` says which f
// mapping   thread i of the grid -> element i
// load x 4 sectors/request
// store y 4 sectors/request
// teaches   Only add, multiply and fma are one instruction. A division is a reciprocal estimate that Newton steps
//           refine, with a routine of its own for awkward exponents; exp, log, sin, tanh and power are an estimate
//           or a polynomial with a range reduction around it: tens of instructions, a few ulp at most. sinf even
//           holds float64, for arguments beyond 105615.
// source    CUDA C++ Programming Guide, "Mathematical Functions"

#include "elementary.cuh"

extern "C" __global__ void elementary_accurate(const float* __restrict__ x, float* __restrict__ y,
                                               int function, int terms, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float value = x[i];
        y[i] = sum_of(function, value, terms);
    }
}
