// masked_rows/branch: skip the masked rows; their lanes idle while the others work.
//
// computes  y[r] = mask[r] ? sum over f of weights[f] * x[f][r] : 0
// mapping   thread r of the grid -> row r; features lie one after the other, so lanes read neighbours
// load mask 1 sectors/request
// load x 4 sectors/request
// load weights 1 sectors/request
// store y 4 sectors/request
// teaches   A warp with one active row costs as much as a warp with 32. Where 2 rows in 5 are active, 60 % of
//           the lanes idle through the loop; only a warp without any active row is skipped.
// source    CUDA C++ Best Practices Guide, "Branching and Divergence"

extern "C" __global__ void masked_rows_branch(const float* __restrict__ x, const float* __restrict__ weights,
                                              const bool* __restrict__ mask, float* __restrict__ y,
                                              long long features, long long rows) {
    const long long r = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (r < rows) {
        float sum = 0.0f;
        if (mask[r]) {
#pragma unroll 1
            for (long long f = 0; f < features; ++f) {
                const float weight = weights[f];
                sum = fmaf(weight, x[f * rows + r], sum);
            }
        }
        y[r] = sum;
    }
}
