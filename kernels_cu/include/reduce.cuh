// Reductions: sum, max and argmax as types, and their merge over a warp and over a block.
//
// A fold names `value_t`, what threads and blocks merge: `none()` before the first one, `merge(a, b)`, which gives
// the same answer whichever comes first. A thread that visits vectors one after the other may carry less:
// `carried_t`, from `start()` on by `next(carried, of(vector), visit)`; `found(carried, place_of)` makes it a value.
// Sums of floats depend on the order of their terms: kernels keep it fixed, so two runs give the same bits.
//
// A value is one float, or for argmax a float and a place, which lie in arrays of their own: functions take one
// or two arrays as `Parts*... scratch`, and `value_t{scratch[i]...}` loads from each.
#ifndef KERNELLAB_REDUCE_CUH
#define KERNELLAB_REDUCE_CUH

#include "element.cuh"

#define ALL_LANES 0xffffffffu
#define NOWHERE 0x7fffffffffffffffll

__device__ __forceinline__ float lowest() {
    return __int_as_float(0xff800000);  // -inf: NVRTC has no INFINITY
}

// NaN wins, as in NumPy; fmaxf would drop it.
__device__ __forceinline__ float larger(float a, float b) {
    return a > b || a != a ? a : b;
}
// The same over a vector: fmaxf is one instruction, and one more looks at two elements for NaN.
template <int each>
__device__ __forceinline__ float largest(const float (&vector)[each]) {
    float top = vector[0];
    bool has_nan = vector[0] != vector[0] || vector[each - 1] != vector[each - 1];
#pragma unroll
    for (int k = 1; k < each; ++k) {
        top = fmaxf(top, vector[k]);
    }
#pragma unroll
    for (int k = 1; k < each - 1; k += 2) {
        has_nan |= vector[k] != vector[k] || vector[k + 1] != vector[k + 1];
    }
    return has_nan ? __int_as_float(0x7fffffff) : top;
}

struct Sum {
    using value_t = float;
    using carried_t = float;
    static __device__ __forceinline__ float none() {
        return 0.0f;
    }
    static __device__ __forceinline__ float start() {
        return 0.0f;
    }
    static __device__ __forceinline__ float merge(float a, float b) {
        return a + b;
    }
    template <int each>
    static __device__ __forceinline__ float of(const float (&vector)[each]) {
        float total = vector[0];
#pragma unroll
        for (int k = 1; k < each; ++k) {
            total += vector[k];
        }
        return total;
    }
    static __device__ __forceinline__ float next(float carried, float value, unsigned) {
        return carried + value;
    }
    template <class PlaceOf>
    static __device__ __forceinline__ float found(float carried, PlaceOf) {
        return carried;
    }
};

struct Max {
    using value_t = float;
    using carried_t = float;
    static __device__ __forceinline__ float none() {
        return lowest();
    }
    static __device__ __forceinline__ float start() {
        return lowest();
    }
    static __device__ __forceinline__ float merge(float a, float b) {
        return larger(a, b);
    }
    template <int each>
    static __device__ __forceinline__ float of(const float (&vector)[each]) {
        return largest(vector);
    }
    static __device__ __forceinline__ float next(float carried, float value, unsigned) {
        return larger(carried, value);
    }
    template <class PlaceOf>
    static __device__ __forceinline__ float found(float carried, PlaceOf) {
        return carried;
    }
};

// A value and where it stands: of equal ones the first, of NaN the first.
struct Best {
    float value;
    long long place;
    __device__ __forceinline__ explicit operator float() const {
        return value;
    }
    __device__ __forceinline__ explicit operator long long() const {
        return place;
    }
};

// A thread carries its best value and at which visit it saw it, 32 bits; as it visits in the order of places, only
// a larger value, or the first NaN, takes over. So each element costs what max asks of it, and each vector a
// comparison more. The place is that of the vector's first element until `exact_place` looks into it.
struct ArgMax {
    using value_t = Best;
    struct carried_t {
        float value;
        unsigned visit;
    };
    static __device__ __forceinline__ Best none() {
        return {lowest(), NOWHERE};
    }
    static __device__ __forceinline__ carried_t start() {
        return {lowest(), 0};
    }
    static __device__ __forceinline__ Best merge(Best a, Best b) {
        // With || and && these were branches, which lanes would take apart.
        const bool is_tie = (a.value == b.value) | ((a.value != a.value) & (b.value != b.value));
        const bool is_first = (a.value > b.value) | ((a.value != a.value) & (b.value == b.value));
        return is_first | (is_tie & (a.place < b.place)) ? a : b;
    }
    template <int each>
    static __device__ __forceinline__ float of(const float (&vector)[each]) {
        return largest(vector);
    }
    static __device__ __forceinline__ carried_t next(carried_t carried, float value, unsigned visit) {
        const bool is_better = !(value <= carried.value) && carried.value == carried.value;
        return is_better ? carried_t{value, visit} : carried;
    }
    template <class PlaceOf>
    static __device__ __forceinline__ Best found(carried_t carried, PlaceOf place_of) {
        return {carried.value, place_of(carried.visit)};
    }
};

__device__ __forceinline__ float from_lane_below(float value, int step) {
    return __shfl_down_sync(ALL_LANES, value, step);
}
__device__ __forceinline__ Best from_lane_below(Best best, int step) {
    return {from_lane_below(best.value, step), __shfl_down_sync(ALL_LANES, best.place, step)};
}

// The merge over a warp, in lane 0.
template <class Fold>
__device__ __forceinline__ typename Fold::value_t warp_fold(typename Fold::value_t value) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        value = Fold::merge(value, from_lane_below(value, step));
    }
    return value;
}

// The merge over a block of `threads` threads, in thread 0: warps by shuffle, then one value a warp through
// shared memory. The barrier at the end lets the same scratch be used again.
template <class Fold, int threads, class... Parts>
__device__ __forceinline__ typename Fold::value_t block_fold(typename Fold::value_t value,
                                                             Parts*... scratch) {
    value = warp_fold<Fold>(value);
    if (threadIdx.x % 32 == 0) {
        ((scratch[threadIdx.x / 32] = Parts(value)), ...);
    }
    __syncthreads();
    typename Fold::value_t of_warp = Fold::none();
    if (threadIdx.x < threads / 32) {
        of_warp = typename Fold::value_t{scratch[threadIdx.x]...};
    }
    __syncthreads();
    return warp_fold<Fold>(of_warp);
}

#endif
