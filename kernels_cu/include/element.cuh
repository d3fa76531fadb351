// Elements of 4 or 2 bytes: `element_t` is float, __half or __nv_bfloat16 as ELEMENT is 0, 1 or 2. Kernels that
// only move bits also take those of 1 and 8 bytes: unsigned char and double for 3 and 4.
//
// Kernels load and store vectors of 16 or 8 bytes as wide16_t or wide8_t, and compute in float: `unpack` gives
// the floats that a vector holds, `pack` rounds floats to elements (to nearest, ties to even). Loads stay in the
// kernel's own text, where the line table and the reader look for them:
//
//     const wide16_t loaded = reinterpret_cast<const wide16_t*>(x)[i];
//     float value[LANES(wide16_t)];
//     unpack<element_t>(loaded, value);
//     ...
//     reinterpret_cast<wide16_t*>(y)[i] = pack<wide16_t, element_t>(value);
#ifndef KERNELLAB_ELEMENT_CUH
#define KERNELLAB_ELEMENT_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <int CHOICE>
struct ElementOf;
template <>
struct ElementOf<0> {
    using type = float;
    using wide8 = float2;
    using wide16 = float4;
};
template <>
struct ElementOf<1> {
    using type = __half;
    using wide8 = uint2;
    using wide16 = uint4;
};
template <>
struct ElementOf<2> {
    using type = __nv_bfloat16;
    using wide8 = uint2;
    using wide16 = uint4;
};
template <>
struct ElementOf<3> {
    using type = unsigned char;
};
template <>
struct ElementOf<4> {
    using type = double;
};

// Macros, so that each file of a compile that joins several sees its own ELEMENT.
#ifndef ELEMENT
#define ELEMENT 0
#endif
#define element_t ElementOf<ELEMENT>::type
#define wide8_t ElementOf<ELEMENT>::wide8
#define wide16_t ElementOf<ELEMENT>::wide16
#define LANES(vector) int(sizeof(vector) / sizeof(element_t))

__device__ __forceinline__ float to_float(float value) {
    return value;
}
__device__ __forceinline__ float to_float(__half value) {
    return __half2float(value);
}
__device__ __forceinline__ float to_float(__nv_bfloat16 value) {
    return __bfloat162float(value);
}

template <class T>
__device__ __forceinline__ T from_float(float value);
template <>
__device__ __forceinline__ float from_float<float>(float value) {
    return value;
}
template <>
__device__ __forceinline__ __half from_float<__half>(float value) {
    return __float2half_rn(value);
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
    return __float2bfloat16_rn(value);
}

// A 32-bit word as the two elements that it holds, the lower half first, and back.
__device__ __forceinline__ void unpack_word(unsigned word, float* value, const __half*) {
    value[0] = __half2float(__ushort_as_half((unsigned short)(word & 0xffffu)));
    value[1] = __half2float(__ushort_as_half((unsigned short)(word >> 16)));
}
__device__ __forceinline__ void unpack_word(unsigned word, float* value, const __nv_bfloat16*) {
    value[0] = __uint_as_float(word << 16);
    value[1] = __uint_as_float(word & 0xffff0000u);
}
__device__ __forceinline__ unsigned pack_word(const float* value, const __half*) {
    const __half2 pair = __floats2half2_rn(value[0], value[1]);
    return *reinterpret_cast<const unsigned*>(&pair);
}
__device__ __forceinline__ unsigned pack_word(const float* value, const __nv_bfloat16*) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(value[0], value[1]);
    return *reinterpret_cast<const unsigned*>(&pair);
}

template <class T>
__device__ __forceinline__ void unpack(float2 loaded, float* value) {
    value[0] = loaded.x, value[1] = loaded.y;
}
template <class T>
__device__ __forceinline__ void unpack(float4 loaded, float* value) {
    value[0] = loaded.x, value[1] = loaded.y, value[2] = loaded.z, value[3] = loaded.w;
}
template <class T>
__device__ __forceinline__ void unpack(uint2 loaded, float* value) {
    unpack_word(loaded.x, value, static_cast<const T*>(nullptr));
    unpack_word(loaded.y, value + 2, static_cast<const T*>(nullptr));
}
template <class T>
__device__ __forceinline__ void unpack(uint4 loaded, float* value) {
    unpack_word(loaded.x, value, static_cast<const T*>(nullptr));
    unpack_word(loaded.y, value + 2, static_cast<const T*>(nullptr));
    unpack_word(loaded.z, value + 4, static_cast<const T*>(nullptr));
    unpack_word(loaded.w, value + 6, static_cast<const T*>(nullptr));
}

template <class V, class T>
__device__ __forceinline__ V pack(const float* value) {
    constexpr bool IS_FLOAT = sizeof(T) == 4, IS_16 = sizeof(V) == 16;
    const T* const kind = nullptr;
    if constexpr (IS_FLOAT && IS_16) {
        return make_float4(value[0], value[1], value[2], value[3]);
    } else if constexpr (IS_FLOAT) {
        return make_float2(value[0], value[1]);
    } else if constexpr (IS_16) {
        return make_uint4(pack_word(value, kind), pack_word(value + 2, kind), pack_word(value + 4, kind),
                          pack_word(value + 6, kind));
    } else {
        return make_uint2(pack_word(value, kind), pack_word(value + 2, kind));
    }
}

#endif
