// copy/offset: the same copy, each warp shifted by `offset` elements.
//
// computes  y[i] = x[i]
// mapping   thread i of the grid -> element i + offset; the last threads wrap round to the first elements
// load x 5 sectors/request
// store y 5 sectors/request
// teaches   128 bytes that do not start on a sector touch a fifth one. A shift by a multiple of 8 elements, a
//           whole sector, costs nothing. The next warp needs the other half of that sector, so a cache
//           usually hides it: misalignment is far cheaper than a stride. (Counts: offset 1.)
// source    CUDA C++ Best Practices Guide, "Misaligned Sequential Access"

extern "C" __global__ void copy_offset(const float* __restrict__ x, float* __restrict__ y, long long n,
                                       long long offset) {
    const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (thread < n) {
        // 0 <= offset <= n, so one subtraction wraps; a 64-bit remainder would cost some 70 instructions.
        const long long shifted = thread + offset;
        const long long i = shifted < n ? shifted : shifted - n;
        const float value = x[i];
        y[i] = value;
    }
}
