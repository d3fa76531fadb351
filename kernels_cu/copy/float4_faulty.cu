// copy/float4_faulty: an exhibit: blocks step four times too far, and the bound is in the wrong unit.
//
// computes  y[i] = x[i], it believes
// mapping   block b -> vectors 4 * b * blockDim.x onwards, which is where ELEMENTS of that block would start
// load x 16 sectors/request
// store y 16 sectors/request
// teaches   An index counts in one unit. The factor 4 belongs to elements and the pointer to vectors, so
//           three vectors in four are skipped and the rest run past the end, though every access is a
//           perfect 16-sector request. It passes at n = 1024, one block, so small tests miss it.
// source    a fault found in a published example, rebuilt here

extern "C" __global__ void copy_float4_faulty(const float* __restrict__ x, float* __restrict__ y,
                                              long long n) {
    // Wrong on purpose: the step of a block is blockDim.x vectors, not four times that.
    const long long i = (long long)blockIdx.x * blockDim.x * 4 + threadIdx.x;
    // Wrong on purpose: i counts vectors and n elements.
    if (i < n) {
        const float4 value = reinterpret_cast<const float4*>(x)[i];
        reinterpret_cast<float4*>(y)[i] = make_float4(value.x, value.y, value.z, value.w);
    }
}
