// chase/global: each load needs the answer of the one before, so nothing hides how long it takes.
//
// computes  last[i] = where start[i] leads in `steps` steps of next
// mapping   thread i of the grid -> walker i
// load next 1 sectors/request
// load start 4 sectors/request
// store last 4 sectors/request
// teaches   Time over steps is the latency of whichever memory holds the table: L1, L2 or DRAM, by its size.
//           A step is a load and one instruction that makes an address of an index. (Counts: one chain.)
// source    Saavedra-Barrera, "CPU Performance Evaluation and Execution Time Prediction", 1992

extern "C" __global__ void chase_global(const unsigned* __restrict__ next, const unsigned* __restrict__ start,
                                        unsigned* __restrict__ last, int steps, long long walkers) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < walkers) {
        // Streamed: a load of the same kind as the loop's would be drawn into it, on one line.
        unsigned place = __ldcs(start + i);
#pragma unroll 16
        for (int step = 0; step < steps; ++step) {
            place = next[place];
        }
        last[i] = place;
    }
}
