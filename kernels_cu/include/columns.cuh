// Columns: sums of the columns of a matrix. `group` lanes have a tile of columns, sixteen bytes each, and walk down
// rows with their sums in registers; the groups of a warp meet by shuffles, its warps in shared memory, and of the
// blocks that share a tile, the last one adds up what all have left. The same bits in every run on one kind of device.
#ifndef KERNELLAB_COLUMNS_CUH
#define KERNELLAB_COLUMNS_CUH

#include "rows.cuh"

// A tile of columns, and which of its rows a block takes: those of part number `split` of `splits`.
template <class T, int group>
struct Tile {
    static constexpr int HELD = group * int(16 / sizeof(T));
    long long rows, columns, tiles, splits, tile, split;

    __device__ __forceinline__ Tile(long long rows, long long columns, long long splits)
        : rows(rows), columns(columns), tiles((columns + HELD - 1) / HELD), splits(splits) {
        tile = blockIdx.x % (unsigned)tiles;
        split = blockIdx.x / (unsigned)tiles;
    }
    __device__ __forceinline__ long long start() const {
        return tile * HELD;
    }
    template <class S>
    __device__ __forceinline__ S share() const {
        return {(int)threadIdx.x % group, (int)min((long long)HELD, columns - start())};
    }
};
template <class S>
using TileOf = Tile<typename S::T, S::members>;

// The rows of a group, `rows_each` at a time: body(share, offset) with a share and the place of its first column for
// each; nothing is held of a row that is not there.
template <class S, int threads, int rows_each, class Body>
__device__ __forceinline__ void down_columns(TileOf<S> tile, Body body) {
    constexpr int BESIDE = threads / S::members;
    const long long step = tile.splits * BESIDE;
    const S share = tile.template share<S>();
#pragma unroll 1
    for (long long row = tile.split * BESIDE + threadIdx.x / S::members; row < tile.rows;
         row += rows_each * step) {
        S here[rows_each];
        long long offset[rows_each];
#pragma unroll
        for (int q = 0; q < rows_each; ++q) {
            here[q] = {share.member, row + q * step < tile.rows ? share.held : 0};
            offset[q] = (row + q * step) * tile.columns + tile.start();
        }
        body(here, offset);
    }
}

// Values of the block's groups added up: in thread i that of slot i, which is value i / members of member i % members.
// Neighbouring lanes have neighbouring words, whatever the columns.
template <class S, int threads>
__device__ __forceinline__ float over_groups(float* value, float (*scratch)[S::HELD]) {
    const int thread = threadIdx.x, lane = thread % 32;
#pragma unroll
    for (int i = 0; i < S::ITEMS; ++i) {
#pragma unroll
        for (int step = S::members; step < 32; step *= 2) {
            value[i] += from_lane(value[i], step);
        }
        if (lane < S::members) {
            scratch[thread / 32][S::members * i + lane] = value[i];
        }
    }
    __syncthreads();
    float total = 0.0f;
    if (thread < S::HELD) {
#pragma unroll
        for (int w = 0; w < threads / 32; ++w) {
            const float found = scratch[w][thread];
            total += found;
        }
    }
    __syncthreads();
    return total;
}

// The sums of a tile from those of its warps: left for the last block of the tile, which answers with
// put(column, sum). atomicInc sets the counter back to 0 by itself.
template <class S, int threads, class Put>
__device__ __forceinline__ void finish_columns(TileOf<S> tile, float* sum, float (*scratch)[S::HELD],
                                               float* partials, unsigned* finished, Put put) {
    __shared__ bool is_last;
    const int thread = threadIdx.x, member = thread % S::members, slot = thread / S::members;
    float total = over_groups<S, threads>(sum, scratch);
    if (thread < S::HELD) {
        partials[(long long)blockIdx.x * S::HELD + thread] = total;
    }
    __threadfence();
    __syncthreads();
    if (thread == 0) {
        const unsigned last = (unsigned)tile.splits - 1;
        is_last = atomicInc(finished + tile.tile, last) == last;
    }
    __syncthreads();
    if (is_last) {
#pragma unroll
        for (int i = 0; i < S::ITEMS; ++i) {
            sum[i] = 0.0f;
        }
#pragma unroll 4
        for (long long k = slot; k < tile.splits; k += threads / S::members) {
#pragma unroll
            for (int i = 0; i < S::ITEMS; ++i) {
                const float partial =
                    partials[(k * tile.tiles + tile.tile) * S::HELD + S::members * i + member];
                sum[i] += partial;
            }
        }
        total = over_groups<S, threads>(sum, scratch);
        const long long column =
            tile.start() + (slot / S::PIECE * S::members + member) * S::PIECE + slot % S::PIECE;
        if (thread < S::HELD && column < tile.columns) {
            put(column, total);
        }
    }
}

// The sums of a tile's columns, all loads of `rows_each` rows first.
template <int threads, int rows_each, Layout layout, class T, int group, class Put>
__device__ __forceinline__ void sum_columns(const T* __restrict__ x, Tile<T, group> tile,
                                            float (*scratch)[Tile<T, group>::HELD], float* partials,
                                            unsigned* finished, Put put) {
    using S = Share<T, group, 1, layout>;
    float sum[S::ITEMS] = {};
    down_columns<S, threads, rows_each>(tile, [&](const S* here, const long long* offset) {
        float value[rows_each][S::ITEMS];
#pragma unroll
        for (int q = 0; q < rows_each; ++q) {
            read(x + offset[q], here[q], false, value[q]);
        }
#pragma unroll
        for (int q = 0; q < rows_each; ++q) {
#pragma unroll
            for (int i = 0; i < S::ITEMS; ++i) {
                sum[i] += value[q][i];
            }
        }
    });
    finish_columns<S, threads>(tile, sum, scratch, partials, finished, put);
}

#endif
