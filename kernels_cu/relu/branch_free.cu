// relu/branch_free: the select written out.
//
// computes  y[i] = max(x[i], 0), NaN stays NaN
// mapping   thread i of the grid -> element i
// load x 4 sectors/request
// store y 4 sectors/request
// teaches   The comparison is `value < 0` and not `value > 0`: NaN fails both, and numpy.maximum keeps it.
//           fmaxf would drop it, as IEEE maxNum does.
// source    CUDA C++ Programming Guide, "Mathematical Functions"

extern "C" __global__ void relu_branch_free(const float* __restrict__ x, float* __restrict__ y, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float value = x[i];
        // Not fmaxf(value, 0.0f), which turns NaN into 0.
        y[i] = value < 0.0f ? 0.0f : value;
    }
}
