// Words of a tile on their way from columns to rows: the elements of one column, out of words that each hold
// one row's elements of one, two or four columns.
#ifndef KERNELLAB_TURN_CUH
#define KERNELLAB_TURN_CUH

// What is read from the tile at once, and the 16 bytes that are stored, for elements of so many bytes.
template <int BYTES>
struct TurnOf {
    using word = unsigned;
    using wide = uint4;
};
template <>
struct TurnOf<8> {
    using word = unsigned long long;
    using wide = ulonglong2;
};

// Word k holds row k; the answer holds column `e` of them, row after row.
template <int BYTES>
__device__ __forceinline__ unsigned column_word(const unsigned* words, int e, int k) {
    if constexpr (BYTES == 4) {
        return words[k];
    } else if constexpr (BYTES == 2) {
        return __byte_perm(words[2 * k], words[2 * k + 1], e ? 0x7632 : 0x5410);
    } else {
        const int pick = e | (e + 4) << 4;
        const unsigned low = __byte_perm(words[4 * k], words[4 * k + 1], pick);
        return __byte_perm(low, __byte_perm(words[4 * k + 2], words[4 * k + 3], pick), 0x5410);
    }
}
template <int BYTES>
__device__ __forceinline__ uint4 column_of(const unsigned* words, int e) {
    return make_uint4(column_word<BYTES>(words, e, 0), column_word<BYTES>(words, e, 1),
                      column_word<BYTES>(words, e, 2), column_word<BYTES>(words, e, 3));
}
template <int BYTES>
__device__ __forceinline__ ulonglong2 column_of(const unsigned long long* words, int) {
    return make_ulonglong2(words[0], words[1]);
}

#endif
