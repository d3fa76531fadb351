// histogram/lanes: a copy of the counts for each lane, every copy in a bank of its own.
//
// computes  counts[b] = how many x[i] equal b
// mapping   block b -> tiles b, b + blocks, ... of THREADS * VECTORS vectors of 16 bytes; lane l of every
//           warp -> counts in bank l
// load x 16 sectors/request
// atomic counts 8 sectors/request
// shared atomic own 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   Word 32 * bin + lane lies in bank `lane` whatever the byte: a request is one wavefront for
//           random and for equal bytes alike, so the speed does not depend on the data. The price is 32 KiB
//           a block, cleared once and added up once. The sum turns each thread to another bank, or 32
//           threads would queue for one. 1 byte an element at the speed of reading is the floor.
// source    CUDA samples, "histogram64", with one word a lane

#include "counts.cuh"

#ifndef BINS
#define BINS 256
#endif
#ifndef THREADS
#define THREADS 512
#endif
#ifndef BLOCKS
#define BLOCKS 4
#endif
#ifndef VECTORS
#define VECTORS 2
#endif
static_assert(VECTORS >= 1 && VECTORS <= 8,
              "histogram/lanes: VECTORS must be 1 to 8, they live in registers");
static_assert(BINS == 256, "histogram/lanes: a byte has 256 values, so BINS must be 256");
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "histogram/lanes: THREADS must be whole warps");
static_assert(BLOCKS >= 1, "histogram/lanes: BLOCKS counts the blocks of a multiprocessor");

extern "C" __global__ __launch_bounds__(THREADS) void histogram_lanes(const unsigned char* __restrict__ x,
                                                                      long long* __restrict__ counts,
                                                                      long long n) {
    __shared__ unsigned scratch[BINS * 32];
    clear_counts<THREADS>(scratch, BINS * 32);
    __syncthreads();
    unsigned* const own = scratch + threadIdx.x % 32;

    // Sixteen bytes a load, all loads of a tile first.
    for_bytes<THREADS, VECTORS>(x, n, [=](unsigned bin) { atomicAdd(own + 32 * bin, 1u); });
    __syncthreads();

    // One thread a bin adds up the copies.
    add_counts<THREADS>(counts, BINS, [=](int bin) { return sum_of_neighbours<32>(scratch, bin); });
}
