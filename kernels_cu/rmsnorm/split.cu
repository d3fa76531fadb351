// rmsnorm/split: a row over several blocks, in two launches: partial sums of squares, then the answer.
//
// computes  y[r][c] = x[r][c] / sqrt(mean of x[r][k] * x[r][k] over k + eps) * weight[c]
// mapping   block -> VECTORS times 16 bytes a thread of one row; `parts` blocks a row
// load x 16 sectors/request
// load weight 16 sectors/request
// store y 16 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// teaches   Blocks meet between launches, at the price of a second read; the second launch begins where the
//           first ended, which may still be in L2. Partial sums are added in one order, so every run gives
//           the same bits.
// source    Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019)

#include "element.cuh"
#include "norm.cuh"

#ifndef THREADS
#define THREADS 128
#endif
#ifndef VECTORS
#define VECTORS 2
#endif
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "rmsnorm/split: THREADS must be whole warps");
static_assert(VECTORS >= 1, "rmsnorm/split: VECTORS must be at least 1");

extern "C" __global__ __launch_bounds__(THREADS) void rmsnorm_split_partial(const element_t* __restrict__ x,
                                                                            float* __restrict__ squares,
                                                                            long long columns,
                                                                            long long parts) {
    using Work = Rmsnorm<element_t>;
    __shared__ float scratch[32];
    const long long r = blockIdx.x / parts, part = blockIdx.x % parts;
    in_part<THREADS, VECTORS>(x, x, columns, true, part, [&](auto share, long long start, float* value) {
        read(x + r * columns + start, share, false, value);
        const float sum = Work::meet(Work::take(share, kept(share, value)), share, scratch);
        if (threadIdx.x == 0) {
            squares[blockIdx.x] = sum;
        }
    });
}

extern "C" __global__ __launch_bounds__(THREADS) void rmsnorm_split_write(
    const element_t* __restrict__ x, const element_t* __restrict__ weight, const float* __restrict__ squares,
    element_t* __restrict__ y, long long columns, long long parts, float eps) {
    __shared__ float scratch[32];
    const long long block = gridDim.x - 1 - (long long)blockIdx.x;  // the last parts are still in L2
    const long long r = block / parts, part = block % parts;
    const Rmsnorm<element_t> work = {x, weight, columns, eps};
    in_part<THREADS, VECTORS>(x, y, columns, work.is_aligned(), part,
                              [&](auto share, long long start, float* value) {
                                  read(x + r * columns + start, share, false, value);

                                  // Merge the parts of the row.
                                  float sum = 0.0f;
#pragma unroll 1
                                  for (long long k = threadIdx.x; k < parts; k += THREADS) {
                                      sum += squares[r * parts + k];
                                  }
                                  sum = group_sum<THREADS>(sum, scratch);
                                  work.finish(work.settle(sum, sum), share, r * columns, start, value);
                                  write(y + r * columns + start, share, value);
                              });
}
