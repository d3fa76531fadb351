// Pipeline: blocks that stay and take one row after another, the next one on its way while one is computed.
//
// A thread copies exactly the vectors that it consumes itself, so waiting for its own copies is enough, without a
// barrier. It reads them into registers, asks for the same places of the next row, and then computes.
#ifndef KERNELLAB_PIPELINE_CUH
#define KERNELLAB_PIPELINE_CUH

#include "copies.cuh"
#include "rows.cuh"

// A thread's share of a row on its way to shared memory.
template <class S>
__device__ __forceinline__ void stage(const typename S::T* row, S share, unsigned to) {
#pragma unroll
    for (int s = 0; s < S::STEPS; ++s) {
        if (share.has(s)) {
            const typename S::T* const x = row + share.at(s) * S::EACH;
            const unsigned slot = to + 16 * share.at(s);
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(slot), "l"(x) : "memory");
        }
    }
}

// The same share from shared memory into registers.
template <class S>
__device__ __forceinline__ void read_staged(const typename S::Held* staged, S share, bool is_lowest,
                                            float* value) {
    using T = typename S::T;
#pragma unroll
    for (int s = 0; s < S::STEPS; ++s) {
        typename S::Held loaded = filled<typename S::Held, T>(is_lowest);
        if (share.has(s)) {
            loaded = staged[share.at(s)];
        }
        unpack<T>(loaded, value + s * S::EACH);
    }
}

template <class S, class Work>
__device__ __forceinline__ void stage_row(const Work& work, S share, long long first, unsigned to) {
    stage(work.x + first, share, to);
    if constexpr (Work::IS_SUM) {
        stage(work.residual + first, share, to + 16 * S::STEPS * S::members);
    }
    close_copies();
}

template <class S, class Work>
__device__ __forceinline__ void rows_in_turn(const Work& work, typename S::T* y, long long rows,
                                             long long columns, typename S::Held* staged,
                                             typename Work::Scratch (*scratch)[32]) {
    const S share = {(int)threadIdx.x, (int)columns};
    const unsigned to = shared_place(staged);
    int turn = 0;
    stage_row(work, share, blockIdx.x * columns, to);
#pragma unroll 1
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        float value[S::ITEMS];
        wait_for_copies<0>();
        read_staged(staged, share, Work::LOWEST_BEYOND, value);
        if constexpr (Work::IS_SUM) {
            float added[S::ITEMS];
            read_staged(staged + S::STEPS * S::members, share, false, added);
#pragma unroll
            for (int i = 0; i < S::ITEMS; ++i) {
                value[i] += added[i];
            }
        }
        if (row + gridDim.x < rows) {
            stage_row(work, share, (row + gridDim.x) * columns, to);
        }
        const auto own = work.take(share, value);
        const auto all = work.meet(own, share, scratch[turn]);
        work.finish(own, all, share, row * columns, 0, value);
        write(y + row * columns, share, value);
        turn ^= 1;
    }
}

template <int threads, int vectors, class T, class Work>
__device__ __forceinline__ void through_pipeline(const Work& work, T* y, long long rows, long long columns) {
    static_assert(threads % 32 == 0 && threads <= 1024, "pipeline: THREADS must be whole warps");
    extern __shared__ uint4 room[];
    __shared__ typename Work::Scratch scratch[2][32];
    using Held = typename Piece<T, false>::type;
    Held* staged = reinterpret_cast<Held*>(room);
    if (columns == threads * vectors * int(16 / sizeof(T))) {
        rows_in_turn<Share<T, threads, vectors, FULL>>(work, y, rows, columns, staged, scratch);
    } else {
        rows_in_turn<Share<T, threads, vectors, WIDE>>(work, y, rows, columns, staged, scratch);
    }
}

#endif
