// tally/warp: lanes with the same key find each other, and one of them adds for all.
//
// computes  counts[k] += how many keys[i] equal k
// mapping   thread i of the grid -> key i
// load keys 4 sectors/request
// atomic counts 1 sectors/request
// teaches   A match gives every lane the mask of the lanes with its key: the first adds their number. A 32nd of
//           the additions where a warp agrees, and none saved where it does not: then the match is for nothing.
// source    NVIDIA technical blog, "CUDA Pro Tip: Optimized Filtering with Warp-Aggregated Atomics"

extern "C" __global__ void tally_warp(const unsigned* __restrict__ keys, unsigned* __restrict__ counts,
                                      long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned active = __ballot_sync(0xffffffffu, i < n);
    if (i < n) {
        const unsigned key = keys[i];
        const unsigned same = __match_any_sync(active, key);
        if (__ffs(same) - 1 == threadIdx.x % 32) {
            atomicAdd(counts + key, (unsigned)__popc(same));
        }
    }
}
