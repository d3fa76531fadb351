// horner/single: the same literals with an f: one fused multiply-add a step.
//
// computes  y[i] = 1 + x[i]/2 + ... + (x[i]/2)^degree, by Horner's rule
// mapping   thread i of the grid -> element i
// load x 4 sectors/request
// store y 4 sectors/request
// teaches   A literal has the type that it is written with: 0.5f is a float, and float times float stays one.
//           In Numba every Python float is a double, and so is a float32 times an int32: constants are made
//           float32 once, outside.
// source    CUDA C++ Best Practices Guide, "Other Arithmetic Instructions"

extern "C" __global__ void horner_single(const float* __restrict__ x, float* __restrict__ y, int degree,
                                         long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float x_value = x[i];
        float value = 1;
#pragma unroll 1
        for (int step = 0; step < degree; ++step) {
            value = 0.5f * x_value * value + 1.0f;
        }
        y[i] = value;
    }
}
