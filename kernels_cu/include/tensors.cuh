// Tensor tables: pointers and lengths of many arrays, by value in a launch's arguments, and which of them a block
// works on. `tensors4_t` holds up to TENSORS times four arrays that belong together.
//
//     const unsigned k = tensor_of(tensors, blockIdx.x);
//     const element_t* x = static_cast<const element_t*>(tensors.address[0][k]);
//     const long long block = blockIdx.x - tensors.first_block[k];  // of those that work on x
#ifndef KERNELLAB_TENSORS_CUH
#define KERNELLAB_TENSORS_CUH

template <int LISTS, int CAPACITY>
struct TensorTable {
    void* address[LISTS][CAPACITY];
    long long length[CAPACITY];
    unsigned first_block[CAPACITY];
    unsigned tensors, blocks_before;
};

// Macros, so that each file of a compile that joins several sees its own TENSORS.
#define tensors1_t TensorTable<1, TENSORS>
#define tensors4_t TensorTable<4, TENSORS>
#define tensors5_t TensorTable<5, TENSORS>

// The last tensor that begins at this block or before: a binary search through constant memory, the same for all
// threads; no step at all where there is one tensor.
template <class Table>
__device__ __forceinline__ unsigned tensor_of(const Table& tensors, unsigned block) {
    unsigned low = 0, high = tensors.tensors;
    while (high - low > 1) {
        const unsigned middle = (low + high) / 2;
        if (tensors.first_block[middle] <= block) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

// Whether all arrays of number k start at a multiple of 16 bytes.
template <int LISTS, int CAPACITY>
__device__ __forceinline__ bool are_wide(const TensorTable<LISTS, CAPACITY>& tensors, unsigned k) {
    unsigned long long bits = 0;
#pragma unroll
    for (int list = 0; list < LISTS; ++list) {
        bits |= reinterpret_cast<unsigned long long>(tensors.address[list][k]);
    }
    return bits % 16 == 0;
}

#endif
