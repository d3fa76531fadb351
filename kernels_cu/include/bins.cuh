// Bins of equal width, as NumPy counts in them.
#ifndef KERNELLAB_BINS_CUH
#define KERNELLAB_BINS_CUH

__device__ __forceinline__ float nothing() {
    return __int_as_float(0x7fffffff);  // NaN lies in no bin
}

// The bin of a value between bottom and the top edge: guessed, then put right by the edges themselves, since
// the guess is rounded and NumPy's answer is the comparison. `borders` holds the lower edge of each bin.
__device__ __forceinline__ long long bin_of(float value, const float* borders, long long bins, float bottom,
                                            float scale) {
    int bin = min((int)((value - bottom) * scale), (int)bins - 1);
    while (bin > 0 && value < borders[bin]) {
        --bin;
    }
    while (bin + 1 < bins && value >= borders[bin + 1]) {
        ++bin;
    }
    return bin;
}

#endif
