// take_rows/vectorised: sixteen bytes a lane, several rows in flight a thread, an index read once a row.
//
// computes  y[i] = table[index[i]] for rows of `columns` elements, a negative index counting from the end
// mapping   LANES neighbours of 256 threads -> a row at a time, ROWS rows in all; grid y -> parts of long rows
// load index 1 sectors/request
// load table 16 sectors/request
// store y 16 sectors/request
// teaches   A thread keeps its column and takes ROWS rows, so no index is divided and ROWS vectors are on
//           their way at once. Fewer lanes for shorter rows: a warp then carries several of them.
// source    the definition of numpy.take

#include "element.cuh"

#ifndef LANES_A_ROW
#define LANES_A_ROW 32
#endif
#ifndef ROWS
#define ROWS 4
#endif
static_assert(LANES_A_ROW >= 1 && 256 % LANES_A_ROW == 0,
              "take_rows/vectorised: LANES_A_ROW must divide the 256 threads of a block");
static_assert(ROWS >= 1 && ROWS <= 16,
              "take_rows/vectorised: ROWS must be 1 to 16, their vectors live in registers");

extern "C" __global__ __launch_bounds__(256) void take_rows_vectorised(const element_t* __restrict__ table,
                                                                       const long long* __restrict__ index,
                                                                       element_t* __restrict__ y,
                                                                       long long length, long long n,
                                                                       long long columns) {
    constexpr int EACH = LANES(uint4), SLOTS = 256 / LANES_A_ROW;
    const long long first = (long long)blockIdx.x * (ROWS * SLOTS) + threadIdx.x / LANES_A_ROW;
    const long long lane = (long long)blockIdx.y * LANES_A_ROW + threadIdx.x % LANES_A_ROW;
    const long long step = (long long)gridDim.y * LANES_A_ROW;

    // Where the rows lie.
    long long at[ROWS];
#pragma unroll
    for (int k = 0; k < ROWS; ++k) {
        if (first + k * SLOTS < n) {
            at[k] = index[first + k * SLOTS];
            at[k] += at[k] < 0 ? length : 0;
        }
    }

    // All loads of a column first; rows that do not start at a multiple of 16 bytes go by elements.
    if (columns % EACH == 0) {
        const long long vectors = columns / EACH;
#pragma unroll 1
        for (long long j = lane; j < vectors; j += step) {
            uint4 kept[ROWS];
#pragma unroll
            for (int k = 0; k < ROWS; ++k) {
                if (first + k * SLOTS < n) {
                    kept[k] = reinterpret_cast<const uint4*>(table)[at[k] * vectors + j];
                }
            }
#pragma unroll
            for (int k = 0; k < ROWS; ++k) {
                if (first + k * SLOTS < n) {
                    reinterpret_cast<uint4*>(y)[(first + k * SLOTS) * vectors + j] = kept[k];
                }
            }
        }
    } else {
#pragma unroll 1
        for (long long j = lane; j < columns; j += step) {
            element_t kept[ROWS];
#pragma unroll
            for (int k = 0; k < ROWS; ++k) {
                if (first + k * SLOTS < n) {
                    kept[k] = table[at[k] * columns + j];
                }
            }
#pragma unroll
            for (int k = 0; k < ROWS; ++k) {
                if (first + k * SLOTS < n) {
                    y[(first + k * SLOTS) * columns + j] = kept[k];
                }
            }
        }
    }
}
