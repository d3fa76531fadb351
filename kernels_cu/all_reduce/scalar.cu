// all_reduce/scalar: an element a thread at a time, for arrays that start anywhere.
//
// computes  x[i] = y[i] = x[i] + y[i]; rank 0 has x, rank 1 has y, each forms half of the sums
// mapping   a rank's blocks -> its half, THREADS elements each at a time; rank 2 is both, in two rows of blocks
// load x 4 sectors/request
// load y 4 sectors/request
// store x 4 sectors/request
// store y 4 sectors/request
// teaches   Each sum is formed once, by the rank that owns it, and written to both: so both have the same bits, in
//           place, with nothing between. A rank reads half a bucket from the other and writes half to it, so
//           that each way carries one bucket.
// source    the direct reduce-scatter and all-gather of NCCL for ranks that reach each other's memory

#include "element.cuh"
#include "ranks.cuh"

#ifndef THREADS
#define THREADS 1024
#endif
#ifndef BLOCKS
#define BLOCKS 4
#endif
static_assert(THREADS % 32 == 0 && THREADS <= 1024,
              "all_reduce/scalar: THREADS must be whole warps, at most 1024");
static_assert(BLOCKS >= 1, "all_reduce/scalar: BLOCKS must be at least 1");

extern "C" __global__ __launch_bounds__(THREADS) void all_reduce_scalar(element_t* __restrict__ x,
                                                                        element_t* __restrict__ y, int rank,
                                                                        long long n) {
    const Share share(rank, n, LANES(wide16_t));
    for (long long i = share.begin + (long long)blockIdx.x * THREADS + threadIdx.x; i < share.end;
         i += (long long)gridDim.x * THREADS) {
        const element_t x_value = x[i];
        const element_t y_value = y[i];
        const element_t sum = from_float<element_t>(to_float(x_value) + to_float(y_value));
        x[i] = sum;
        y[i] = sum;
    }
}
