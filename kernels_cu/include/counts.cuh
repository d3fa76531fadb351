// Counts: what kernels share whose blocks count in shared memory: clearing, bytes sixteen at a time, adding up.
#ifndef KERNELLAB_COUNTS_CUH
#define KERNELLAB_COUNTS_CUH

__device__ __forceinline__ void add_to(unsigned* counts, unsigned total) {
    atomicAdd(counts, total);
}
__device__ __forceinline__ void add_to(long long* counts, unsigned total) {
    atomicAdd(reinterpret_cast<unsigned long long*>(counts), (unsigned long long)total);
}

template <int threads>
__device__ __forceinline__ void clear_counts(unsigned* scratch, long long words) {
#pragma unroll 1
    for (int i = threadIdx.x; i < words; i += threads) {
        scratch[i] = 0;
    }
}

// Each bin's total, which one thread takes from total_of(bin), to the counts of all blocks.
template <int threads, class T, class Total>
__device__ __forceinline__ void add_counts(T* counts, long long bins, Total total_of) {
#pragma unroll 1
    for (int bin = threadIdx.x; bin < bins; bin += threads) {
        const unsigned total = total_of(bin);
        if (total > 0) {
            add_to(counts + bin, total);
        }
    }
}

// The total of a bin in copies of all bins, one after the other.
template <int copies, int bins>
__device__ __forceinline__ unsigned sum_of_copies(const unsigned* scratch, int bin) {
    unsigned total = 0;
#pragma unroll
    for (int k = 0; k < copies; ++k) {
        total += scratch[k * bins + bin];
    }
    return total;
}

// The total of a bin whose copies lie side by side: each thread starts at another one, in a bank of its own.
template <int copies>
__device__ __forceinline__ unsigned sum_of_neighbours(const unsigned* scratch, int bin) {
    unsigned total = 0;
#pragma unroll 1
    for (int k = 0; k < copies; ++k) {
        total += scratch[bin * copies + (bin + k) % copies];
    }
    return total;
}

// count(byte) for this thread's share of n bytes: sixteen bytes a load, all loads of a tile first, then what no load
// of sixteen holds.
template <int threads, int vectors, class Count>
__device__ __forceinline__ void for_bytes(const unsigned char* __restrict__ x, long long n, Count count) {
    const long long whole = n / 16, step = (long long)gridDim.x * (threads * vectors);
#pragma unroll 1
    for (long long start = (long long)blockIdx.x * (threads * vectors) + threadIdx.x; start < whole;
         start += step) {
        uint4 loaded[vectors];
#pragma unroll
        for (int v = 0; v < vectors; ++v) {
            if (start + v * threads < whole) {
                loaded[v] = reinterpret_cast<const uint4*>(x)[start + v * threads];
            }
        }
#pragma unroll
        for (int v = 0; v < vectors; ++v) {
            if (start + v * threads < whole) {
                const unsigned words[4] = {loaded[v].x, loaded[v].y, loaded[v].z, loaded[v].w};
#pragma unroll
                for (int k = 0; k < 16; ++k) {
                    count(words[k / 4] >> 8 * (k % 4) & 255u);
                }
            }
        }
    }
    const long long last = whole * 16 + (long long)blockIdx.x * threads + threadIdx.x;
    if (last < n) {
        const unsigned byte = x[last];
        count(byte);
    }
}

#endif
