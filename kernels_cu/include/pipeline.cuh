// Pipeline: blocks that stay and take one row after another, the next one on its way while one is computed.
//
// A row lies in shared memory only: each pass reads it again, and the last one asks for the same place of the next
// row as soon as it has read one. A thread copies exactly the vectors that it consumes itself, so waiting for its
// own copies is enough, without a barrier.
#ifndef KERNELLAB_PIPELINE_CUH
#define KERNELLAB_PIPELINE_CUH

#include "copies.cuh"
#include "rows.cuh"

// A thread's share of a row in shared memory, beyond it that of a second array, which is added to it.
template <class Share, class Work>
struct Staged {
    using S = Share;
    using T = typename S::T;
    static constexpr bool IS_KEPT = false;
    S share;
    const typename S::Held* staged;

    __device__ __forceinline__ void read(int step, float* value) const {
        typename S::Held loaded = filled<typename S::Held, T>(Work::LOWEST_BEYOND);
        if (share.has(step)) {
            loaded = staged[share.at(step)];
        }
        unpack<T>(loaded, value);
        if constexpr (Work::IS_SUM) {
            loaded = filled<typename S::Held, T>(false);
            if (share.has(step)) {
                loaded = staged[S::STEPS * S::members + share.at(step)];
            }
            float added[S::PIECE];
            unpack<T>(loaded, added);
#pragma unroll
            for (int i = 0; i < S::PIECE; ++i) {
                value[i] += added[i];
            }
        }
    }
    __device__ __forceinline__ float first() const {
        float value[S::PIECE];
        read(0, value);
        return value[0];
    }
    // What `change` does to the values is lost. The barrier keeps the compiler from keeping them for the next pass.
    template <class Change>
    __device__ __forceinline__ void each(Change change) const {
        __syncwarp();
#pragma unroll
        for (int s = 0; s < S::STEPS; ++s) {
            float value[S::PIECE];
            read(s, value);
            change(s, value);
        }
    }
    // One piece on its way from the rows at x and residual.
    __device__ __forceinline__ void ask(const T* x, const T* residual, int step) const {
        if (share.has(step)) {
            copy_from(x, share.at(step), 0);
            if constexpr (Work::IS_SUM) {
                copy_from(residual, share.at(step), S::STEPS * S::members);
            }
        }
    }
    __device__ __forceinline__ void copy_from(const T* row, int at, int beyond) const {
        const T* const x = row + at * S::EACH;
        const unsigned to = shared_place(staged + beyond + at);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(x) : "memory");
    }
};

// Step number `step` of a share as one of its own, so many columns from the row's start.
template <class S>
struct Step {
    using Part = Share<typename S::T, S::members, 1, S::LAYOUT>;
    Part part;
    int start;
    __device__ __forceinline__ Step(S share, int step) : start(step * Part::HELD) {
        part = {share.member, max(0, min(share.held - start, Part::HELD))};
    }
};

template <class S, class Work>
__device__ __forceinline__ void rows_in_turn(const Work& work, const typename S::T* x,
                                             const typename S::T* residual, typename S::T* y,
                                             const typename S::Held* staged,
                                             typename Work::Scratch (*scratch)[32], long long rows,
                                             long long columns) {
    const S share = {(int)threadIdx.x, (int)columns};
    const Staged<S, Work> here = {share, staged};
    int turn = 0;
#pragma unroll
    for (int s = 0; s < S::STEPS; ++s) {
        here.ask(x + blockIdx.x * columns, residual + blockIdx.x * columns, s);
    }
    close_copies();
#pragma unroll 1
    for (long long row = blockIdx.x; row < rows; row += gridDim.x) {
        const long long next = row + gridDim.x;
        wait_for_copies<0>();
        const auto own = work.take(share, here);
        const auto settled = work.settle(own, work.meet(own, share, scratch[turn]));
#pragma unroll
        for (int s = 0; s < S::STEPS; ++s) {
            const Step<S> step(share, s);
            float value[S::PIECE];
            here.read(s, value);
            if (next < rows) {
                here.ask(x + next * columns, residual + next * columns, s);
            }
#pragma unroll
            for (int i = 0; i < S::PIECE; ++i) {
                value[i] = work.again(own, value[i]);
            }
            work.finish(settled, step.part, row * columns, step.start, value);
            write(y + row * columns + step.start, step.part, value);
        }
        close_copies();
        turn ^= 1;
    }
}

template <int threads, int vectors, class T, class Work>
__device__ __forceinline__ void through_pipeline(const Work& work, const T* x, const T* residual, T* y,
                                                 uint4* room, typename Work::Scratch (*scratch)[32],
                                                 long long rows, long long columns) {
    const auto staged = reinterpret_cast<const typename Piece<T, false>::type*>(room);
    if (columns == threads * vectors * (long long)(16 / sizeof(T))) {
        using S = Share<T, threads, vectors, FULL>;
        rows_in_turn<S>(work, x, residual, y, staged, scratch, rows, columns);
    } else {
        using S = Share<T, threads, vectors, WIDE>;
        rows_in_turn<S>(work, x, residual, y, staged, scratch, rows, columns);
    }
}

#endif
