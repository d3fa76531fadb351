// Cross entropy of rows of logits: the loss of a row from its maximum and its sum of exponentials, and the frame of
// the rung that keeps rows in registers.
#ifndef KERNELLAB_CROSS_ENTROPY_CUH
#define KERNELLAB_CROSS_ENTROPY_CUH

#include "backward.cuh"
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

// The same columns of a bias, added: a reader of its own, so that its loads are counted as such.
template <class S>
__device__ __forceinline__ void add_bias(const typename S::T* __restrict__ bias, S share, float* value) {
#pragma unroll
    for (int s = 0; s < S::STEPS; ++s) {
        if (share.has(s)) {
            const typename S::Held loaded = reinterpret_cast<const typename S::Held*>(bias)[share.at(s)];
            float added[S::PIECE];
            unpack<typename S::T>(loaded, added);
#pragma unroll
            for (int i = 0; i < S::PIECE; ++i) {
                value[s * S::PIECE + i] += added[i];
            }
        }
    }
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

    // Exponentials of columns `start` on, and what a warp finds in them.
    template <class S>
    __device__ __forceinline__ Pair take(long long row, long long start, S share, float* value) const {
        read(x + row * columns + start, share, true, value);
        if (biases) {
            add_bias(bias + start, share, value);
        }
        return Softmax<T>::take(share, kept(share, value));
    }

    // A share's exponentials to probabilities times the scale: gradients but for the label's.
    template <class S>
    __device__ __forceinline__ void leave(T* dx, S share, Pair own, Pair all, float* value) const {
        const float factor = Softmax<T>::settle(own, all) * scale;
#pragma unroll
        for (int i = 0; i < S::ITEMS; ++i) {
            value[i] *= factor;
        }
        write_dx(dx, share, value);
    }

    // The loss, and the label's gradient, by the thread that has written its probability: to compare each column with
    // the label would keep many registers. Its logit is read again, which is at hand. The maximum of 16-bit elements
    // comes in the unit of powers of two.
    template <class S>
    __device__ __forceinline__ void leave_label(long long row, int member, Pair all) const {
        const long long label = labels[row];
        const bool is_class = label >= 0 && label < columns;
        if (member == (is_class ? (int)(label / S::PIECE % S::members) : 0)) {
            float lost = NOT_A_NUMBER;
            if (is_class) {
                const float picked = logit(x + row * columns, bias, biases, label);
                const float share = raised<T>(picked, Softmax<T>::shift_of(all.first)) / all.second;
                dx[row * columns + label] = from_float<T>((share - 1.0f) * scale);
                lost = loss_of(sizeof(T) == 4 ? all.first : all.first * LN_2, all.second, picked);
            }
            loss[row] = lost;
        }
    }

    // Every thread of a block takes part, those without a row too: warps meet at barriers.
    template <class S>
    __device__ __forceinline__ void short_row(long long row, int member, Pair* scratch) const {
        const S share = {member, row < rows ? (int)columns : 0};
        float value[S::ITEMS];
        const Pair own = take(row, 0, share, value);
        const Pair all = Softmax<T>::meet(own, share, scratch);
        leave(dx + row * columns, share, own, all, value);
        if (row < rows) {
            leave_label<S>(row, member, all);
        }
    }

    // A row longer than the group's registers: read once for what is found in it, and again for the gradient. A row
    // takes as many whole rounds of the group's pieces, so the label's thread is the same as of a short one.
    template <class S>
    __device__ __forceinline__ void long_row(long long row, int member, Pair* scratch) const {
        const long long end = row < rows ? columns : 0;
        float value[S::ITEMS];
        Pair all = Softmax<T>::nothing();
#pragma unroll 1
        for (long long start = 0; start < columns; start += S::HELD) {
            const S share = {member, (int)max(0ll, min(end - start, (long long)S::HELD))};
            const Pair own = take(row, start, share, value);
            all = Softmax<T>::merge(all, Softmax<T>::meet(own, share, scratch));
            __syncthreads();
        }
#pragma unroll 1
        for (long long start = 0; start < columns; start += S::HELD) {
            const S share = {member, (int)max(0ll, min(end - start, (long long)S::HELD))};
            const Pair own = take(row, start, share, value);
            leave(dx + row * columns + start, share, own, all, value);
        }
        if (row < rows) {
            leave_label<S>(row, member, all);
        }
    }

    template <Layout layout, int members, int vectors>
    __device__ __forceinline__ void one_row(long long row, int member, Pair* scratch) const {
        using S = Share<T, members, vectors, layout>;
        if (columns <= S::HELD) {
            short_row<S>(row, member, scratch);
        } else {
            long_row<S>(row, member, scratch);
        }
    }
};

#endif
