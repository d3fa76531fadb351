// relu/branch: an if that only chooses a value; the compiler makes a select of it.
//
// computes  y[i] = max(x[i], 0), NaN stays NaN
// mapping   thread i of the grid -> element i
// load x 4 sectors/request
// store y 4 sectors/request
// teaches   What reads as a branch need not be one: both arms end in one store, so the compiler selects the
//           value and no warp diverges. Look at the SASS before removing branches by hand.
// source    CUDA C++ Best Practices Guide, "Branch Predication"

extern "C" __global__ void relu_branch(const float* __restrict__ x, float* __restrict__ y, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float value = x[i];
        if (value < 0.0f) {
            y[i] = 0.0f;
        } else {
            y[i] = value;
        }
    }
}
