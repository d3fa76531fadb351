// tally/block: a block counts in shared memory and makes one addition in global memory a count.
//
// computes  counts[k] += how many keys[i] equal k
// mapping   thread t of the grid -> keys t, t + threads, ...; the block's counts in dynamic shared memory
// load keys 4 sectors/request
// atomic counts 1 sectors/request
// shared atomic own 1 wavefronts/request
// shared load own 1 wavefronts/request
// teaches   Blocks no longer meet but at the end, and equal keys do not wait either: adding 1 in shared memory is
//           an instruction of its own, ATOMS.POPC.INC, that counts the lanes of an address at once. Adding
//           anything else would take them one after the other. (Counts: equal keys.)
// source    NVIDIA technical blog, "GPU Pro Tip: Fast Histograms Using Shared Atomics on Maxwell"

#include "counts.cuh"

#ifndef THREADS
#define THREADS 512
#endif
#ifndef BLOCKS
#define BLOCKS 4
#endif
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "tally/block: THREADS must be whole warps");
static_assert(BLOCKS >= 1, "tally/block: BLOCKS counts the blocks of a multiprocessor");

extern "C" __global__ __launch_bounds__(THREADS) void tally_block(const unsigned* __restrict__ keys,
                                                                  unsigned* __restrict__ counts, long long n,
                                                                  long long bins) {
    extern __shared__ unsigned own[];
    clear_counts<THREADS>(own, bins);
    __syncthreads();
    const long long step = (long long)gridDim.x * THREADS;
#pragma unroll 1
    for (long long i = (long long)blockIdx.x * THREADS + threadIdx.x; i < n; i += step) {
        const unsigned key = keys[i];
        atomicAdd(own + key, 1u);
    }
    __syncthreads();
    add_counts<THREADS>(counts, bins, [=](int bin) { return own[bin]; });
}
