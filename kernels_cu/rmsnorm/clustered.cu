// rmsnorm/clustered: a cluster of blocks holds a row that is too long for one, and reads it once.
//
// computes  y[r][c] = x[r][c] / sqrt(mean of x[r][k] * x[r][k] over k + eps) * weight[c]
// mapping   CLUSTER blocks -> row after row, VECTORS times 16 bytes a thread each
// load x 16 sectors/request
// load weight 16 sectors/request
// store y 16 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 1 wavefronts/request
// shared load staged 4 wavefronts/request
// teaches   Blocks of a cluster write to each other's shared memory, so a row of many blocks meets without a second
//           launch and without a second read. The rest is as in the rung pipelined.
// source    CUDA C++ Programming Guide, "Distributed Shared Memory"

#include "element.cuh"
#include "norm.cuh"
#include "pipeline.cuh"

#ifndef THREADS
#define THREADS 128
#endif
#ifndef VECTORS
#define VECTORS 2
#endif
#ifndef CLUSTER
#define CLUSTER 2
#endif
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "rmsnorm/clustered: THREADS must be whole warps");
static_assert(VECTORS >= 1 && CLUSTER >= 1, "rmsnorm/clustered: VECTORS and CLUSTER must be at least 1");

extern "C" __global__ __cluster_dims__(CLUSTER)
    __launch_bounds__(THREADS) void rmsnorm_clustered(const element_t* __restrict__ x,
                                                      const element_t* __restrict__ weight,
                                                      element_t* __restrict__ y, long long rows,
                                                      long long columns, float eps) {
    const Rmsnorm<element_t> work = {x, weight, columns, eps};
    extern __shared__ uint4 room[];
    __shared__ float scratch[2][32];
    through_pipeline<THREADS, VECTORS, CLUSTER>(work, x, x, y, room, scratch, rows, columns);
}
