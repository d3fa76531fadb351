// copy/scalar: one element a thread, neighbours on neighbours.
//
// computes  y[i] = x[i]
// mapping   thread i of the grid -> element i
// load x 4 sectors/request
// store y 4 sectors/request
// teaches   32 lanes x 4 bytes are 128 bytes, 4 sectors: coalesced, nothing is fetched in vain. All it lacks
//           is width: copy/float4 moves the same bytes with a quarter of the requests.
// source    CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory"

extern "C" __global__ void copy_scalar(const float* __restrict__ x, float* __restrict__ y, long long n) {
    // Widen before multiplying: the 32-bit product wraps at element 2^32.
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const float value = x[i];
        y[i] = value;
    }
}
