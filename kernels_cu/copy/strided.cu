// copy/strided: the same copy in another order; neighbouring threads are `stride` elements apart.
//
// computes  y[i] = x[i]
// mapping   thread t of grid row r -> element t * stride + r
// load x 32 sectors/request
// store y 32 sectors/request
// teaches   A request costs the sectors it touches: 4 at stride 1, 8 at stride 2, and 32 from stride 8 on,
//           where each lane has a sector of 32 bytes to itself and uses 4 of them. (Counts: stride 8.)
// source    CUDA C++ Best Practices Guide, "Strided Accesses"

extern "C" __global__ void copy_strided(const float* __restrict__ x, float* __restrict__ y, long long n,
                                        int stride) {
    // A grid row for each residue keeps the division out of the kernel.
    const long long i = ((long long)blockIdx.x * blockDim.x + threadIdx.x) * stride + blockIdx.y;
    if (i < n) {
        const float value = x[i];
        y[i] = value;
    }
}
