// chase/shared: the same walk through a table that the block has brought into shared memory.
//
// computes  last[i] = where start[i] leads in `steps` steps of next
// mapping   thread i of the grid -> walker i; every block holds the whole table
// load next 4 sectors/request
// load start 4 sectors/request
// store last 4 sectors/request
// shared store table 1 wavefronts/request
// shared load table 1 wavefronts/request
// teaches   Shared memory answers a little sooner than the L1 in the same array of memory: there is no tag to
//           compare. The fill is paid once and not a step: time two numbers of steps and take the difference.
// source    CUDA C++ Programming Guide, "Shared Memory"

extern "C" __global__ void chase_shared(const unsigned* __restrict__ next, const unsigned* __restrict__ start,
                                        unsigned* __restrict__ last, int steps, long long n,
                                        long long walkers) {
    extern __shared__ unsigned table[];

    // Fill the table.
#pragma unroll 1
    for (int k = threadIdx.x; k < n; k += blockDim.x) {
        const unsigned filled = next[k];
        table[k] = filled;
    }
    __syncthreads();

    // Walk.
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < walkers) {
        unsigned place = start[i];
#pragma unroll 16
        for (int step = 0; step < steps; ++step) {
            place = table[place];
        }
        last[i] = place;
    }
}
