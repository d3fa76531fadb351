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

// Not unrolled, so that one pass of the loop is one call and the counts can be read.
#define SUM(f)                                            \
    _Pragma("unroll 1") for (int k = 0; k < terms; ++k) { \
        sum += f;                                         \
        a += 1.0f / 64;                                   \
    }

extern "C" __global__ void elementary_accurate(const float* __restrict__ x, float* __restrict__ y,
                                               int function, int terms, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float b = x[i];
        float a = b, sum = 0;
        // By halves: a table of jumps would leave the counts of branches undecided.
        if (function < 4) {
            if (function < 2) {
                if (function < 1) {
                    SUM(a * b);
                } else {
                    SUM(7.0f / a);
                }
            } else {
                if (function < 3) {
                    SUM(1.0f / a);
                } else {
                    SUM(sqrtf(a));
                }
            }
        } else {
            if (function < 6) {
                if (function < 5) {
                    SUM(expf(a));
                } else {
                    SUM(logf(a));
                }
            } else {
                if (function < 7) {
                    SUM(sinf(a));
                } else {
                    if (function < 8) {
                        SUM(tanhf(a));
                    } else {
                        SUM(powf(a, b));
                    }
                }
            }
        }
        y[i] = sum;
    }
}
