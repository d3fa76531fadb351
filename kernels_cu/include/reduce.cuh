// Reductions: what is merged, and how a lane asks another one.
//
// Every merge gives the same answer whichever operand comes first, except that sums of floats depend on the
// order of their terms: kernels keep that order fixed, so that two runs give the same bits.
#ifndef KERNELLAB_REDUCE_CUH
#define KERNELLAB_REDUCE_CUH

#include "element.cuh"

#define ALL_LANES 0xffffffffu

__device__ __forceinline__ float lowest() {
    return __int_as_float(0xff800000);  // -inf: NVRTC has no INFINITY
}

__device__ __forceinline__ float add(float a, float b) {
    return a + b;
}

// NaN wins, as in NumPy; fmaxf would drop it.
__device__ __forceinline__ float larger(float a, float b) {
    return a > b || a != a ? a : b;
}

// A value and where it stands: of equal ones the first, of NaN the first.
struct Best {
    float value;
    long long place;
};

__device__ __forceinline__ Best no_best() {
    return {lowest(), 0x7fffffffffffffffll};
}
__device__ __forceinline__ Best better(Best a, Best b) {
    const bool is_tie = a.value == b.value || (a.value != a.value && b.value != b.value);
    const bool is_first = a.value > b.value || (a.value != a.value && b.value == b.value);
    return is_first || (is_tie && a.place < b.place) ? a : b;
}

__device__ __forceinline__ float from_lane_below(float value, int step) {
    return __shfl_down_sync(ALL_LANES, value, step);
}
__device__ __forceinline__ Best from_lane_below(Best best, int step) {
    return {from_lane_below(best.value, step), __shfl_down_sync(ALL_LANES, best.place, step)};
}

// The merge over a warp, in lane 0.
__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        value = add(value, from_lane_below(value, step));
    }
    return value;
}
__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        value = larger(value, from_lane_below(value, step));
    }
    return value;
}
__device__ __forceinline__ Best warp_best(Best best) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        best = better(best, from_lane_below(best, step));
    }
    return best;
}

// The merge over a block of `threads` threads, in thread 0: warps by shuffle, then one value a warp through
// shared memory. The barrier at the end lets the same scratch be used again.
template <int threads>
__device__ __forceinline__ float block_sum(float value, float* scratch) {
    value = warp_sum(value);
    if (threadIdx.x % 32 == 0) {
        scratch[threadIdx.x / 32] = value;
    }
    __syncthreads();
    float of_warp = 0.0f;
    if (threadIdx.x < threads / 32) {
        of_warp = scratch[threadIdx.x];
    }
    __syncthreads();
    return warp_sum(of_warp);
}
template <int threads>
__device__ __forceinline__ float block_max(float value, float* scratch) {
    value = warp_max(value);
    if (threadIdx.x % 32 == 0) {
        scratch[threadIdx.x / 32] = value;
    }
    __syncthreads();
    float of_warp = lowest();
    if (threadIdx.x < threads / 32) {
        of_warp = scratch[threadIdx.x];
    }
    __syncthreads();
    return warp_max(of_warp);
}
template <int threads>
__device__ __forceinline__ Best block_best(Best best, float* scratch, long long* scratch_places) {
    best = warp_best(best);
    if (threadIdx.x % 32 == 0) {
        scratch[threadIdx.x / 32] = best.value;
        scratch_places[threadIdx.x / 32] = best.place;
    }
    __syncthreads();
    Best of_warp = no_best();
    if (threadIdx.x < threads / 32) {
        of_warp.value = scratch[threadIdx.x];
        of_warp.place = scratch_places[threadIdx.x];
    }
    __syncthreads();
    return warp_best(of_warp);
}

#endif
