// Cross entropy of rows of logits: the loss of a row from its maximum and its sum of exponentials, and the frame of
// the rung that keeps rows in registers.
#ifndef KERNELLAB_CROSS_ENTROPY_CUH
#define KERNELLAB_CROSS_ENTROPY_CUH

#include "backward.cuh"
#include "gelu.cuh"
#include "softmax.cuh"

#define NOT_A_NUMBER __int_as_float(0x7fc00000)
#define LN_2 0.6931471805599453f

// The difference first: where one class has nearly all, both are large and near each other.
__device__ __forceinline__ float loss_of(float top, float sum, float picked) {
    return logf(sum) + (top - picked);
}

// One logit of the row at x.
template <class T>
__device__ __forceinline__ float logit(const T* __restrict__ x, const T* __restrict__ bias, long long biases,
                                       long long c) {
    float value = to_float(x[c]);
    if (biases) {
        value += to_float(bias[c]);
    }
    return value;
}

// What a kernel takes. A bias of no elements is none; a label that is no class gives a loss of NaN.
template <class T>
struct Entropy {
    const T *x, *bias;
    const long long* labels;
    T* dx;
    float* loss;
    long long rows, columns, biases;
    float scale;

    template <class S>
    __device__ __forceinline__ void gather(long long row, long long start, S share, float* value) const {
        read(x + row * columns + start, share, true, value);
        if (biases) {
            float added[S::ITEMS];
            read_bias(bias + start, share, added);
#pragma unroll
            for (int i = 0; i < S::ITEMS; ++i) {
                value[i] += added[i];
            }
        }
    }

    // A share's exponentials, relative to what the lanes of a warp have in common, to gradients.
    template <class S>
    __device__ __forceinline__ void leave(long long row, long long start, S share, Pair own, Pair all,
                                          long long label, float* value) const {
        const float factor = Softmax<T>::settle(own, all);
        const long long near = label - start;
#pragma unroll
        for (int i = 0; i < S::ITEMS; ++i) {
            const int column = share.at(i / S::PIECE) * S::PIECE + i % S::PIECE;
            value[i] = (value[i] * factor - (column == near ? 1.0f : 0.0f)) * scale;
        }
        write_dx(dx + row * columns + start, share, value);
    }

    // The maximum of 16-bit elements comes in the unit of powers of two.
    __device__ __forceinline__ float loss_at(long long row, Pair all, long long label) const {
        float lost = NOT_A_NUMBER;
        if (label >= 0 && label < columns) {
            const float picked = logit(x + row * columns, bias, biases, label);
            lost = loss_of(sizeof(T) == 4 ? all.first : all.first * LN_2, all.second, picked);
        }
        return lost;
    }

    // Every thread of a block takes part, those without a row too: warps meet at barriers.
    template <class S>
    __device__ __forceinline__ void one_row(long long row, int member, Pair* scratch) const {
        const bool is_row = row < rows;
        const long long end = is_row ? columns : 0, label = is_row ? labels[row] : -1;
        float value[S::ITEMS];
        Pair all = Softmax<T>::nothing(), own = all;
        S share = {member, 0};
        const bool is_held = columns <= S::HELD;
#pragma unroll 1
        for (long long start = 0; start < columns; start += S::HELD) {
            share.held = (int)max(0ll, min(end - start, (long long)S::HELD));
            gather(row, start, share, value);
            own = Softmax<T>::take(share, kept(share, value));
            all = Softmax<T>::merge(all, Softmax<T>::meet(own, share, scratch));
            if (!is_held) {
                __syncthreads();
            }
        }
        if (is_row && member == 0) {
            loss[row] = loss_at(row, all, label);
        }
        if (is_held) {
            leave(row, 0, share, own, all, label, value);
        } else {
#pragma unroll 1
            for (long long start = 0; start < columns; start += S::HELD) {
                share.held = (int)max(0ll, min(end - start, (long long)S::HELD));
                gather(row, start, share, value);
                own = Softmax<T>::take(share, kept(share, value));
                leave(row, start, share, own, all, label, value);
            }
        }
    }
};

#endif
