// layernorm/split: a row over several blocks, in two launches: partial moments, then the answer.
//
// computes  y[r][c] = (x[r][c] - mean) / sqrt(variance + eps) * weight[c] + bias[c], of each row r
// mapping   block -> VECTORS times 16 bytes a thread of one row; `parts` blocks a row
// load x 16 sectors/request
// load weight 16 sectors/request
// load bias 16 sectors/request
// store y 16 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1.2 wavefronts/request
// teaches   Blocks meet between launches, at the price of a second read. Parts differ in size and mean: their
//           squared deviations are brought to the common mean when they are merged. The second launch begins
//           where the first ended, which may still be in L2.
// source    Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
//           variances" (1979)

#include "element.cuh"
#include "norm.cuh"

#ifndef THREADS
#define THREADS 128
#endif
#ifndef VECTORS
#define VECTORS 2
#endif
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "layernorm/split: THREADS must be whole warps");
static_assert(VECTORS >= 1, "layernorm/split: VECTORS must be at least 1");

extern "C" __global__ __launch_bounds__(THREADS) void layernorm_split_partial(const element_t* __restrict__ x,
                                                                              float* __restrict__ means,
                                                                              float* __restrict__ squares,
                                                                              long long columns,
                                                                              long long parts) {
    using Work = Deviating<element_t>;
    __shared__ Deviations scratch[32];
    const long long r = blockIdx.x / parts, part = blockIdx.x % parts;
    in_part<THREADS, VECTORS>(x, x, columns, true, part, [&](auto share, long long start, float* value) {
        read(x + r * columns + start, share, false, value);
        const Work::State all = Work::meet(Work::take(share, kept(share, value)), share, scratch);
        if (threadIdx.x == 0) {
            const float offset = all.found.first / all.count;
            means[blockIdx.x] = all.found.mean + offset;
            squares[blockIdx.x] = fmaf(-offset, all.found.first, all.found.second);
        }
    });
}

extern "C" __global__ __launch_bounds__(THREADS) void layernorm_split_write(
    const element_t* __restrict__ x, const element_t* __restrict__ weight, const element_t* __restrict__ bias,
    const float* __restrict__ means, const float* __restrict__ squares, element_t* __restrict__ y,
    long long columns, long long parts, float eps) {
    __shared__ Pair scratch[32];
    const long long block = gridDim.x - 1 - (long long)blockIdx.x;  // the last parts are still in L2
    const long long r = block / parts, part = block % parts;
    const Layernorm<element_t, false> work(x, nullptr, weight, bias, columns, eps);
    in_part<THREADS, VECTORS>(
        x, y, columns, work.is_aligned(), part, [&](auto share, long long start, float* value) {
            read(x + r * columns + start, share, false, value);

            // Merge the parts of the row: their means, then how far each lies from the common one.
            const auto size = [=](long long k) {
                return (float)(k + 1 < parts ? (long long)share.HELD : columns - k * share.HELD);
            };
            float sum = 0.0f;
#pragma unroll 1
            for (long long k = threadIdx.x; k < parts; k += THREADS) {
                sum += means[r * parts + k] * size(k);
            }
            const float mean = group_sum<THREADS>(sum, reinterpret_cast<float*>(scratch)) / (float)columns;
            Pair sums = {0.0f, 0.0f};
#pragma unroll 1
            for (long long k = threadIdx.x; k < parts; k += THREADS) {
                const Deviations moved =
                    about(mean, {means[r * parts + k], 0.0f, squares[r * parts + k]}, size(k));
                sums = {sums.first + moved.first, sums.second + moved.second};
            }
            sums = group_sums<THREADS>(sums, scratch);
            work.finish(norm_from(mean, sums, columns, eps), share, r * columns, start, value);
            write(y + r * columns + start, share, value);
        });
}
