// relu/branch: an if with a store in each arm; no branch is left, but two stores are.
//
// computes  y[i] = max(x[i], 0), NaN stays NaN
// mapping   thread i of the grid -> element i
// load x 4 sectors/request
// store y 4 sectors/request
// teaches   What reads as a branch need not be one: arms this short become predicated stores, and no warp
//           diverges. The price is another: every warp issues both stores, each with half of its lanes, where
//           relu/branch_free issues one. Look at the SASS before removing branches by hand.
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
