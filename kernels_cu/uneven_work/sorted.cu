// uneven_work/sorted: the same work in order of trip count, so that the lanes of a warp end together.
//
// computes  y[i] = x[i] * (2 - 2^-trips[i]), by trips[i] steps of v = v / 2 + x[i] from v = x[i]
// mapping   thread t of the grid -> element order[t], where order sorts the trip counts
// load order 8 sectors/request
// load x 32 sectors/request
// load trips 32 sectors/request
// store y 32 sectors/request
// teaches   Nearly every lane is busy in every pass. It is paid for with an index to load and with scattered
//           accesses, and the sort itself: worth it where the loop is long, or where one order serves many
//           launches.
// source    CUDA C++ Best Practices Guide, "Branching and Divergence"

extern "C" __global__ void uneven_work_sorted(const float* __restrict__ x, const int* __restrict__ trips,
                                              const long long* __restrict__ order, float* __restrict__ y,
                                              long long n) {
    const long long thread = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (thread < n) {
        const long long i = order[thread];
        const float start = x[i];
        const int count = trips[i];
        float value = start;
        // Not unrolled, so that one pass of the loop is one step and the counts can be read.
#pragma unroll 1
        for (int step = 0; step < count; ++step) {
            value = fmaf(value, 0.5f, start);
        }
        y[i] = value;
    }
}
