// copy/take: a gather; each thread reads where an index array sends it.
//
// computes  y[i] = table[index[i]], a negative index counting from the end as in NumPy
// mapping   thread i of the grid -> index i
// load index 8 sectors/request
// load table 32 sectors/request
// store y 4 sectors/request
// teaches   The data decides whether a gather coalesces: a sorted index behaves like a copy, a shuffled one
//           fetches a sector a lane. The 8-byte indices themselves are twice the traffic of the values.
// source    the definition of numpy.take

extern "C" __global__ void copy_take(const float* __restrict__ table, const long long* __restrict__ index,
                                     float* __restrict__ y, long long length, long long n) {
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        const long long at = index[i];
        const float value = table[at < 0 ? at + length : at];
        y[i] = value;
    }
}
