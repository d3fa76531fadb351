// chase/constant: the same walk through constant memory, where the table is part of the program.
//
// computes  last[i] = seed[i] after `steps` steps of place -> fixed[place & mask], with fixed[k] = A k + C
// mapping   thread i of the grid -> walker i
// load seed 4 sectors/request
// store last 4 sectors/request
// teaches   The constant caches answer one address at a time: soon while a warp agrees on it and the table is
//           small, in turn for each address where lanes differ. The mask says how much of the table is walked.
// source    Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking", 2018

#ifndef NODES
#define NODES 16384
#endif
static_assert(NODES == 16384, "chase/constant: NODES must be 16384, all of the 64 KiB of constants");

// An odd C and A % 4 == 1 make one cycle of the nodes up to any mask of ones.
struct Table {
    unsigned next[NODES];
    constexpr Table() : next() {
        for (unsigned k = 0; k < NODES; ++k) {
            next[k] = 1664525u * k + 1013904223u;
        }
    }
};
__constant__ const Table fixed = Table();

extern "C" __global__ void chase_constant(const unsigned* __restrict__ seed, unsigned* __restrict__ last,
                                          int steps, int mask, long long walkers) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < walkers) {
        unsigned place = seed[i];
#pragma unroll 16
        for (int step = 0; step < steps; ++step) {
            place = fixed.next[place & mask];
        }
        last[i] = place;
    }
}
