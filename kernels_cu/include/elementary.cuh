// Elementary: a sum of values of one of nine functions, whose code the compiler's options decide.
#ifndef KERNELLAB_ELEMENTARY_CUH
#define KERNELLAB_ELEMENTARY_CUH

// Not unrolled, so that one pass of the loop is one call and the counts can be read.
#define SUM(f)                                            \
    _Pragma("unroll 1") for (int k = 0; k < terms; ++k) { \
        sum += f;                                         \
        a += 1.0f / 64;                                   \
    }

__device__ __forceinline__ float sum_of(int function, float b, int terms) {
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
    return sum;
}

#undef SUM

#endif
