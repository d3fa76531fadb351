// tally/contended: an addition in global memory for each key, whoever else wants the same count.
//
// computes  counts[k] += how many keys[i] equal k
// mapping   thread i of the grid -> key i
// load keys 4 sectors/request
// atomic counts 32 sectors/request
// teaches   Additions are made in L2, those to one address in turn: a warp that agrees asks 32 times for one
//           sector, and a device that agrees is one queue. Spread over neighbours 32 of them take 4 sectors.
//           (Counts: equal keys.)
// source    CUDA C++ Programming Guide, "Atomic Functions"

extern "C" __global__ void tally_contended(const unsigned* __restrict__ keys, unsigned* __restrict__ counts,
                                           long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const unsigned key = keys[i];
        atomicAdd(counts + key, 1u);
    }
}
