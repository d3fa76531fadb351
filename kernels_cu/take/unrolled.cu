// take/unrolled: several independent gathers in flight a thread, indices read two at a time.
//
// computes  y[i] = table[index[i]], a negative index counting from the end as in NumPy
// mapping   a block -> PAIRS times as many pairs of indices as threads, a block's width apart for each
//           thread; the first thread of the grid also the index left over
// load index 16 sectors/request
// load table 32 sectors/request
// store y 8 sectors/request
// teaches   All indices first, then all elements, then all stores: each wait is paid once for 2 * PAIRS
//           elements. The gathers themselves still fetch a sector each: only the data can change that.
// source    the definition of numpy.take

#include "element.cuh"

#ifndef PAIRS
#define PAIRS 4
#endif
static_assert(PAIRS >= 1 && PAIRS <= 16, "take/unrolled: PAIRS must be 1 to 16, they live in registers");

extern "C" __global__ void take_unrolled(const element_t* __restrict__ table,
                                         const long long* __restrict__ index, element_t* __restrict__ y,
                                         long long length, long long n) {
    struct __align__(2 * sizeof(element_t)) pair_t {
        element_t low, high;
    };
    const long long pairs = n / 2;
    const long long first = (long long)blockIdx.x * blockDim.x * PAIRS + threadIdx.x;

    // Indices, then elements.
    longlong2 at[PAIRS];
    element_t low[PAIRS], high[PAIRS];
#pragma unroll
    for (int v = 0; v < PAIRS; ++v) {
        const long long i = first + v * (int)blockDim.x;
        if (i < pairs) {
            at[v] = reinterpret_cast<const longlong2*>(index)[i];
        }
    }
#pragma unroll
    for (int v = 0; v < PAIRS; ++v) {
        if (first + v * (int)blockDim.x < pairs) {
            low[v] = table[at[v].x < 0 ? at[v].x + length : at[v].x];
            high[v] = table[at[v].y < 0 ? at[v].y + length : at[v].y];
        }
    }
#pragma unroll
    for (int v = 0; v < PAIRS; ++v) {
        const long long i = first + v * (int)blockDim.x;
        if (i < pairs) {
            reinterpret_cast<pair_t*>(y)[i] = pair_t{low[v], high[v]};
        }
    }

    // An odd number leaves one.
    const long long last = 2 * pairs + (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (last < n) {
        const long long where = index[last];
        const element_t value = table[where < 0 ? where + length : where];
        y[last] = value;
    }
}
