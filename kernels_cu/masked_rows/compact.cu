// masked_rows/compact: launch threads for the active rows only; every lane of every warp has work.
//
// computes  y[r] = mask[r] ? sum over f of weights[f] * x[f][r] : 0
// mapping   thread t of the grid -> row active[t]; the masked rows of y are zero beforehand
// load active 8 sectors/request
// load x 10 sectors/request
// load weights 1 sectors/request
// store y 10 sectors/request
// teaches   Compaction is what removes divergence: where 2 rows in 5 are active, 2 warps in 5 are launched.
//           Lanes are then 2.5 rows apart on average, so a request touches more sectors, of rows that are not
//           all asked for.
// source    GPU Gems 3, chapter 39, "Parallel Prefix Sum (Scan) with CUDA": stream compaction

extern "C" __global__ void masked_rows_compact(const float* __restrict__ x, const float* __restrict__ weights,
                                               const long long* __restrict__ active, float* __restrict__ y,
                                               long long features, long long rows, long long count) {
    const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (thread < count) {
        const long long r = active[thread];
        float sum = 0.0f;
#pragma unroll 1
        for (long long f = 0; f < features; ++f) {
            const float weight = weights[f];
            sum = fmaf(weight, x[f * rows + r], sum);
        }
        y[r] = sum;
    }
}
