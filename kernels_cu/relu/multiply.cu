// relu/multiply: an exhibit: multiplying by the comparison is no select.
//
// computes  y[i] = x[i] * (x[i] > 0), it believes
// mapping   thread i of the grid -> element i
// load x 4 sectors/request
// store y 4 sectors/request
// teaches   -inf * 0 is NaN, so one minus infinity poisons the output where a select gives 0. Nor do the two
//           forms agree on NaN: `x if x > 0 else 0` turns it into 0, the product keeps it. And no instruction
//           is saved: a compare, a select of 0 or 1, and the multiplication on top.
// source    a trick recommended in a published example, rebuilt here

extern "C" __global__ void relu_multiply(const float* __restrict__ x, float* __restrict__ y, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float value = x[i];
        // Wrong on purpose: 0 times infinity is not 0.
        y[i] = value * (value > 0.0f ? 1.0f : 0.0f);
    }
}
