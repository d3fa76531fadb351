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

// Not unrolled, so that one pass of the loop is one call and the counts can be read.
#define SUM(f)                                            \
    _Pragma("unroll 1") for (int k = 0; k < terms; ++k) { \
        sum += f;                                         \
        a += 1.0f / 64;                                   \
    }

extern "C" __global__ void elementary_fast_math(const float* __restrict__ x, float* __restrict__ y,
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
