// histogram/global: an atomic in global memory for each byte.
//
// computes  counts[b] = how many x[i] equal b
// mapping   thread i of the grid -> byte i
// load x 1 sectors/request
// atomic counts 27.18 sectors/request
// teaches   Atomics are done in L2, one after the other for one address: bins that many threads want at once
//           are a queue of the whole device, and with equal bytes there is one queue only.
// source    CUDA C++ Programming Guide, "Atomic Functions"

#ifndef BINS
#define BINS 256
#endif
static_assert(BINS == 256, "histogram/global: a byte has 256 values, so BINS must be 256");

extern "C" __global__ void histogram_global(const unsigned char* __restrict__ x,
                                            long long* __restrict__ counts, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const unsigned bin = x[i];
        atomicAdd(reinterpret_cast<unsigned long long*>(counts) + bin, 1ull);
    }
}
