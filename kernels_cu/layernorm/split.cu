// layernorm/split: a row over several blocks, in two launches: partial moments, then the answer.
//
// computes  y[r][c] = (x[r][c] - mean) / sqrt(variance + eps) * weight[c] + bias[c], of each row r
// mapping   block -> VECTORS times 16 bytes a thread of one row; `parts` blocks a row
// load x 16 sectors/request
// load weight 16 sectors/request
// load bias 16 sectors/request
// store y 16 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
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
    constexpr int ITEMS = VECTORS * LANES(wide16_t), HELD = THREADS * ITEMS;
    __shared__ Pair scratch[32];
    const long long r = blockIdx.x / parts, start = blockIdx.x % parts * HELD;
    const int held = columns - start < HELD ? columns - start : HELD;
    const bool is_aligned = starts_at_vectors(x, x, columns);

    float value[ITEMS];
    read_row<THREADS, VECTORS>(x + r * columns + start, held, threadIdx.x, is_aligned, ZEROS, value);
    const float sum = sum_of<THREADS, VECTORS, element_t>(value);
    const float mean = group_sum<THREADS>(sum, reinterpret_cast<float*>(scratch)) / (float)held;
    Pair sums = deviations_of<THREADS, VECTORS, element_t>(value, held, threadIdx.x, is_aligned, mean);
    sums = group_sums<THREADS>(sums, scratch);
    if (threadIdx.x == 0) {
        const float offset = sums.first / (float)held;
        means[blockIdx.x] = mean + offset;
        squares[blockIdx.x] = fmaf(-offset, sums.first, sums.second);
    }
}

extern "C" __global__ __launch_bounds__(THREADS) void layernorm_split_write(
    const element_t* __restrict__ x, const element_t* __restrict__ weight, const element_t* __restrict__ bias,
    const float* __restrict__ means, const float* __restrict__ squares, element_t* __restrict__ y,
    long long columns, long long parts, float eps) {
    constexpr int ITEMS = VECTORS * LANES(wide16_t), HELD = THREADS * ITEMS;
    __shared__ Pair scratch[32];
    const long long block = gridDim.x - 1 - (long long)blockIdx.x;  // the last parts are still in L2
    const long long r = block / parts, start = block % parts * HELD;
    const int held = columns - start < HELD ? columns - start : HELD;
    const bool is_aligned =
        starts_at_vectors(x, y, columns) && starts_at_vector(weight) && starts_at_vector(bias);

    float value[ITEMS];
    read_row<THREADS, VECTORS>(x + r * columns + start, held, threadIdx.x, is_aligned, ZEROS, value);

    // Merge the parts of the row: their means, then how far each lies from the common one.
    float sum = 0.0f;
#pragma unroll 1
    for (long long part = threadIdx.x; part < parts; part += THREADS) {
        sum += means[r * parts + part] * (float)(part + 1 < parts ? HELD : columns - part * HELD);
    }
    const float mean = group_sum<THREADS>(sum, reinterpret_cast<float*>(scratch)) / (float)columns;
    Pair sums = {0.0f, 0.0f};
#pragma unroll 1
    for (long long part = threadIdx.x; part < parts; part += THREADS) {
        const float count = (float)(part + 1 < parts ? HELD : columns - part * HELD);
        const float deviation = means[r * parts + part] - mean;
        sums.first = fmaf(count, deviation, sums.first);
        sums.second += fmaf(count * deviation, deviation, squares[r * parts + part]);
    }
    const Norm norm = norm_from(mean, group_sums<THREADS>(sums, scratch), columns, eps);

#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        value[i] = norm(value[i]);
    }
    weigh_row<THREADS, VECTORS>(weight + start, bias + start, held, threadIdx.x, is_aligned, value);
    write_row<THREADS, VECTORS>(y + r * columns + start, held, threadIdx.x, is_aligned, value);
}
