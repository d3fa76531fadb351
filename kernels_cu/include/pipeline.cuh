// Pipeline: blocks that stay and take one row after another, the next one on its way while one is computed.
//
// A thread copies exactly the vectors that it consumes itself, so waiting for its own copies is enough, without a
// barrier. It reads them into registers, asks for the same places of the next row, and then computes. A cluster of
// blocks takes rows that one block cannot hold.
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

template <bool is_sum, class S>
__device__ __forceinline__ void stage_row(const typename S::T* x, const typename S::T* residual, S share,
                                          long long first, unsigned to) {
    stage(x + first, share, to);
    if constexpr (is_sum) {
        stage(residual + first, share, to + 16 * S::STEPS * S::members);
    }
    close_copies();
}

__device__ __forceinline__ void meet_cluster() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// What the blocks of a cluster have found in their parts of a row, merged in the order of their ranks, the same in
// all of them. Places take turns, so that one barrier of the cluster a row is enough.
template <int blocks, class Work, class State>
__device__ __forceinline__ State of_cluster(const Work& work, State own, State (*found)[blocks], int turn) {
    if constexpr (blocks > 1) {
        constexpr int WORDS = sizeof(State) / 4;
        if (threadIdx.x < blocks * WORDS) {
            const unsigned rank = blockIdx.x % blocks, word = threadIdx.x % WORDS;
            const float* const number = reinterpret_cast<const float*>(&own);
            float told = number[0];
#pragma unroll
            for (int i = 1; i < WORDS; ++i) {
                told = word == i ? number[i] : told;
            }
            const unsigned here = shared_place(&found[turn][rank]) + 4 * word;
            asm volatile(
                "{\n.reg .b32 there;\n"
                "mapa.shared::cluster.u32 there, %0, %1;\n"
                "st.shared::cluster.f32 [there], %2;\n}\n" ::"r"(here),
                "r"(threadIdx.x / WORDS), "f"(told)
                : "memory");
        }
        meet_cluster();
        own = found[turn][0];
#pragma unroll
        for (int i = 1; i < blocks; ++i) {
            own = work.merge(own, found[turn][i]);
        }
    }
    return own;
}

template <class S, int blocks, class Work>
__device__ __forceinline__ void rows_in_turn(const Work& work, const typename S::T* x,
                                             const typename S::T* residual, typename S::T* y,
                                             typename S::Held* staged, typename Work::Scratch (*scratch)[32],
                                             long long rows, long long columns) {
    __shared__ typename Work::State found[2][blocks];
    const long long start = (long long)(blockIdx.x % blocks) * S::HELD, left = columns - start;
    const long long step = gridDim.x / blocks;
    const S share = {(int)threadIdx.x, (int)(left < 0 ? 0 : left < S::HELD ? left : S::HELD)};
    const unsigned to = shared_place(staged);
    int turn = 0;
    stage_row<Work::IS_SUM>(x, residual, share, blockIdx.x / blocks * columns + start, to);
    if constexpr (blocks > 1) {
        meet_cluster();  // nobody writes to a block that has not begun
    }
#pragma unroll 1
    for (long long row = blockIdx.x / blocks; row < rows; row += step) {
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
        if (row + step < rows) {
            stage_row<Work::IS_SUM>(x, residual, share, (row + step) * columns + start, to);
        }
        const auto own = work.take(share, value);
        const auto met = work.meet(own, share, scratch[turn]);
        const auto all = of_cluster<blocks>(work, met, found, turn);
        work.finish(own, all, share, row * columns, start, value);
        write(y + row * columns + start, share, value);
        turn ^= 1;
    }
}

template <int threads, int vectors, int blocks, class T, class Work>
__device__ __forceinline__ void through_pipeline(const Work& work, const T* x, const T* residual, T* y,
                                                 uint4* room, typename Work::Scratch (*scratch)[32],
                                                 long long rows, long long columns) {
    const auto staged = reinterpret_cast<typename Piece<T, false>::type*>(room);
    if (columns == blocks * threads * vectors * (long long)(16 / sizeof(T))) {
        using S = Share<T, threads, vectors, FULL>;
        rows_in_turn<S, blocks>(work, x, residual, y, staged, scratch, rows, columns);
    } else {
        using S = Share<T, threads, vectors, WIDE>;
        rows_in_turn<S, blocks>(work, x, residual, y, staged, scratch, rows, columns);
    }
}

#endif
