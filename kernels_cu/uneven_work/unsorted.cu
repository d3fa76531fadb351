// uneven_work/unsorted: each lane loops as often as its element asks; the warp waits for its slowest lane.
//
// computes  y[i] = x[i] * (2 - 2^-trips[i]), by trips[i] steps of v = v / 2 + x[i] from v = x[i]
// mapping   thread i of the grid -> element i
// load x 4 sectors/request
// load trips 4 sectors/request
// store y 4 sectors/request
// teaches   A warp runs as long as its longest lane; lanes that are done sit idle. With trip counts spread
//           evenly up to T the mean is T/2, so half of the lanes' time is lost, however few branches the
//           source has.
// source    CUDA C++ Best Practices Guide, "Branching and Divergence"

extern "C" __global__ void uneven_work_unsorted(const float* __restrict__ x, const int* __restrict__ trips,
                                                float* __restrict__ y, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
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
