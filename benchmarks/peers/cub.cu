// CUB's device-wide algorithms as C functions, for ctypes: nvcc -DWITH_SUM builds only what is asked for.
//
// Each returns a cudaError_t; with no temporary storage it only says how much it needs.
#include <cub/cub.cuh>

#include <cstdint>

#ifdef WITH_SUM
extern "C" int cub_sum(void* storage, size_t* nbytes, const float* x, float* y, int64_t n, cudaStream_t stream) {
    return cub::DeviceReduce::Sum(storage, *nbytes, x, y, n, stream);
}
#endif

#ifdef WITH_MAX
extern "C" int cub_max(void* storage, size_t* nbytes, const float* x, float* y, int64_t n, cudaStream_t stream) {
    return cub::DeviceReduce::Max(storage, *nbytes, x, y, n, stream);
}
#endif

#ifdef WITH_CUMSUM
extern "C" int cub_cumsum(void* storage, size_t* nbytes, const float* x, float* y, int64_t n, cudaStream_t stream) {
    return cub::DeviceScan::InclusiveSum(storage, *nbytes, x, y, n, stream);
}
#endif

#ifdef WITH_HISTOGRAM
extern "C" int cub_histogram(void* storage, size_t* nbytes, const uint8_t* x, int* counts, int64_t n,
                             cudaStream_t stream) {
    return cub::DeviceHistogram::HistogramEven(storage, *nbytes, x, counts, 257, 0, 256, n, stream);
}
#endif
