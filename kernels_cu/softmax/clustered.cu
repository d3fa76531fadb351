// softmax/clustered: a cluster of blocks holds a row that is too long for one, and reads it once.
//
// computes  y[r][c] = exp(x[r][c] - top) / sum of exp(x[r][k] - top) over k, where top is the row's maximum
// mapping   CLUSTER blocks -> row after row, VECTORS times 16 bytes a thread each
// load x 16 sectors/request
// store y 16 sectors/request
// shared store scratch 1 wavefronts/request
// shared load scratch 2 wavefronts/request
// shared load staged 4 wavefronts/request
// teaches   Blocks of a cluster write to each other's shared memory, so a row of many blocks meets without a second
//           launch and without a second read. The rest is as in the rung pipelined.
// source    CUDA C++ Programming Guide, "Distributed Shared Memory"

#include "element.cuh"
#include "pipeline.cuh"
#include "softmax.cuh"

#ifndef THREADS
#define THREADS 128
#endif
#ifndef VECTORS
#define VECTORS 2
#endif
#ifndef CLUSTER
#define CLUSTER 2
#endif
static_assert(THREADS % 32 == 0 && THREADS <= 1024, "softmax/clustered: THREADS must be whole warps");
static_assert(VECTORS >= 1 && CLUSTER >= 1, "softmax/clustered: VECTORS and CLUSTER must be at least 1");

extern "C" __global__ __cluster_dims__(CLUSTER)
    __launch_bounds__(THREADS) void softmax_clustered(const element_t* __restrict__ x,
                                                      element_t* __restrict__ y, long long rows,
                                                      long long columns) {
    const Softmax<element_t> work = {x};
    extern __shared__ uint4 room[];
    __shared__ Pair scratch[2][32];
    through_pipeline<THREADS, VECTORS, CLUSTER>(work, x, x, y, room, scratch, rows, columns);
}
