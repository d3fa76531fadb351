// horner/double_literals: 0.5 and 1.0 without an f are doubles, and take the whole expression with them.
//
// computes  y[i] = 1 + x[i]/2 + ... + (x[i]/2)^degree, by Horner's rule
// mapping   thread i of the grid -> element i
// load x 4 sectors/request
// store y 4 sectors/request
// teaches   `0.5 * x * value + 1.0` with a float x and value is computed in double: value is widened, multiplied
//           and added in float64, and narrowed again, every step. The answer is a little better and the same to
//           the eye, so that nobody notices; the PTX shows it (cvt.f64.f32, fma.rn.f64, cvt.rn.f32.f64).
// source    numba/numba#4676, NVIDIA/raft#3133

extern "C" __global__ void horner_double_literals(const float* __restrict__ x, float* __restrict__ y,
                                                  int degree, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float x_value = x[i];
        float value = 1;
        // Not unrolled, so that one pass of the loop is one step and the counts can be read.
#pragma unroll 1
        for (int step = 0; step < degree; ++step) {
            value = 0.5 * x_value * value + 1.0;
        }
        y[i] = value;
    }
}
