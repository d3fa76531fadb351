// Ranks: two of them, each with an array of n elements and half of the sums to form.
#ifndef KERNELLAB_RANKS_CUH
#define KERNELLAB_RANKS_CUH

// In place of a rank, where both arrays lie in one memory: blocks in the grid's second row stand for the second.
constexpr int BOTH = 2;

// The elements [begin, end) that a rank adds up: half of the vectors of `each` elements, the first rank the odd one.
struct Share {
    long long begin, end;
    __device__ __forceinline__ Share(int rank, long long n, int each) {
        const long long half = (n + 2 * each - 1) / (2 * each) * each, middle = half < n ? half : n;
        const int owner = rank == BOTH ? (int)blockIdx.y : rank;
        begin = owner == 0 ? 0 : middle;
        end = owner == 0 ? middle : n;
    }
};

#endif
