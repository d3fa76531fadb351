// The product by warps: mma.sync, fed by ldmatrix from a ring of steps that cp.async fills. Elements have 16 bits.
//
// A block has TALL x BROAD of the answer, a warp 64 x 64 of them, and RING steps of DEEP in k are in shared
// memory or on their way. Rows of a, b and y start at multiples of 16 bytes; what lies beyond an edge arrives as 0.
#ifndef KERNELLAB_WARPS_CUH
#define KERNELLAB_WARPS_CUH

#include "copies.cuh"
#include "mma.cuh"
#include "product.cuh"

// How a block copies a tile of HEIGHT rows of WIDTH elements: a thread takes the same 16 bytes of every EACH-th row.
template <int HEIGHT, int WIDTH, int THREADS>
struct TileCopy {
    static constexpr int PITCH = WIDTH * 2, PIECES = WIDTH / 8, EACH = THREADS / PIECES,
                         COUNT = HEIGHT / EACH;
    static constexpr int NBYTES = HEIGHT * PITCH;
    static_assert(THREADS % PIECES == 0 && HEIGHT % EACH == 0 && EACH % 8 == 0,
                  "product: the threads must copy whole rows, eight or more at a time");

    static __device__ __forceinline__ int row() {
        return threadIdx.x / PIECES;
    }
    static __device__ __forceinline__ int column() {
        return threadIdx.x % PIECES * 8;
    }
    // One of so many parts of a tile, of whose rows `rows` exist; `is_there` is about this thread's columns.
    template <class T>
    static __device__ __forceinline__ void run(unsigned tile, const T* from, long long pitch, int rows,
                                               bool is_there, int part, int parts) {
        const unsigned to = tile + swizzled<PITCH>(row(), threadIdx.x % PIECES);
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            if (i >= COUNT * part / parts && i < COUNT * (part + 1) / parts) {
                copy_vector(to + i * EACH * PITCH, from + i * EACH * pitch,
                            is_there && row() + i * EACH < rows);
            }
        }
    }
};

template <int TALL, int BROAD, int DEEP, int RING, bool is_turned>
struct WarpProduct {
    static constexpr int ACROSS = BROAD / 64, THREADS = TALL / 64 * ACROSS * 32, SUBSTEPS = DEEP / 16;
    using Left = TileCopy<TALL, DEEP, THREADS>;
    using Right = TileCopy<is_turned ? BROAD : DEEP, is_turned ? DEEP : BROAD, THREADS>;
    static constexpr int STAGE = Left::NBYTES + Right::NBYTES, PATCH = 64 * 128;
    static_assert(TALL % 64 == 0 && BROAD % 64 == 0, "product: warps take 64 x 64");
    static_assert(RING >= 2 && RING * STAGE <= 232448 && RING * STAGE >= THREADS / 32 * PATCH,
                  "product: the stages must fit into shared memory, and the answer into them");

    // What a warp multiplies in one substep: 64 rows of a, 64 columns of b, 16 of k.
    struct Fragment {
        unsigned left[4][4], right[4][4];
    };

    // Where the lane's rows of the matrices lie in a stage, as bytes. A substep is a bit of the swizzled piece, or so
    // many rows further; so are 16 columns of a b that comes by rows of k.
    struct Reader {
        unsigned left, right;

        __device__ __forceinline__ Reader(int warp, int lane) {
            const int row = warp / ACROSS * 64 + lane % 16, column = warp % ACROSS * 64;
            left = swizzled<Left::PITCH>(row, lane / 16);
            right = Left::NBYTES +
                    (is_turned ? swizzled<Right::PITCH>(column + lane / 16 * 8 + lane % 8, lane / 8 % 2)
                               : swizzled<Right::PITCH>(lane % 16, column / 8 + lane / 16));
        }
        __device__ __forceinline__ void read(unsigned stage, int substep, Fragment& to) const {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                load_matrices(to.left[i], (stage + left ^ substep * 32) + i * 16 * Left::PITCH);
            }
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                if constexpr (is_turned) {
                    load_matrices(to.right[j], (stage + right ^ substep * 32) + j * 16 * Right::PITCH);
                } else {
                    load_matrices_turned(to.right[j], (stage + right ^ j * 32) + substep * 16 * Right::PITCH);
                }
            }
        }
    };

    // `prepare(column)` gives what `finish(prepared, 0, value)` needs to change 32 sums: value[4 j + q] belongs to the
    // lane's column 8 j + q % 2, in one row or, from q = 2, in the eighth below.
    template <class T, class Prepare, class Finish>
    static __device__ __forceinline__ void run(const T* __restrict__ a, const T* __restrict__ b,
                                               T* __restrict__ y, long long m, long long n, long long k,
                                               unsigned char* memory, Prepare prepare, Finish finish) {
        const Place place = tile_place(blockIdx.x, m, n, TALL, BROAD);
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
        const unsigned tiles = shared_place(memory);
        const int rows = place.row + TALL < m ? TALL : m - place.row;
        const int columns = place.column + BROAD < n ? BROAD : n - place.column;

        // A stage's copies, one of so many parts of them.
        const T* from_a = a + (place.row + Left::row()) * k + Left::column();
        const T* from_b = is_turned ? b + (place.column + Right::row()) * k + Right::column()
                                    : b + Right::row() * n + place.column + Right::column();
        long long rest = k;
        const auto copy = [&](unsigned stage, int part, int parts) {
            const int depth = rest < DEEP ? rest : DEEP;
            const bool has_b = Right::column() < (is_turned ? depth : columns);
            Left::run(stage, from_a, k, rows, Left::column() < depth, part, parts);
            Right::run(stage + Left::NBYTES, from_b, is_turned ? k : n, is_turned ? columns : depth, has_b,
                       part, parts);
            if (part + 1 == parts) {
                close_copies();
                from_a += DEEP, from_b += is_turned ? DEEP : DEEP * n, rest -= DEEP;
            }
        };
#pragma unroll
        for (int s = 0; s < RING - 1; ++s) {
            copy(tiles + s * STAGE, 0, 1);
        }
        wait_for_copies<RING - 2>();
        __syncthreads();

        // Fragments are read one substep ahead of the products, across stages too.
        const Reader reader(warp, lane);
        Fragment fragment[2];
        float sum[4][8][4] = {};
        unsigned reading = tiles, writing = tiles + (RING - 1) * STAGE;
        reader.read(reading, 0, fragment[0]);
#pragma unroll 1
        for (long long start = 0; start < k; start += DEEP) {
#pragma unroll
            for (int q = 0; q < SUBSTEPS; ++q) {
                if (q + 1 < SUBSTEPS) {
                    reader.read(reading, q + 1, fragment[(q + 1) % 2]);
                    copy(writing, q, SUBSTEPS - 1);
                } else {
                    // The last of this stage is in registers: it is free, and the next one is due.
                    wait_for_copies<RING - 2>();
                    __syncthreads();
                    writing = reading;
                    reading = reading == tiles + (RING - 1) * STAGE ? tiles : reading + STAGE;
                    reader.read(reading, 0, fragment[(q + 1) % 2]);
                }
                multiply(sum, fragment[q % 2], static_cast<const T*>(nullptr));
            }
        }

        // The answer leaves through shared memory, each warp's through a patch of its own, to be stored by rows.
        const auto prepared = prepare(place.column + warp % ACROSS * 64 + lane % 4 * 2);
        wait_for_copies<0>();
        __syncthreads();
        unsigned char* const patch = memory + warp * PATCH;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            finish(prepared, 0, sum[i][0]);
#pragma unroll
            for (int j = 0; j < 16; ++j) {
                const float* const value = sum[i][j / 2] + j % 2 * 2;
                const int at = swizzled<128>(i * 16 + j % 2 * 8 + lane / 4, j / 2) + lane % 4 * 4;
                *reinterpret_cast<unsigned*>(patch + at) = pack_word(value, static_cast<const T*>(nullptr));
            }
        }
        __syncwarp();
        const long long column = place.column + warp % ACROSS * 64 + lane % 8 * 8;
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const int r = i * 4 + lane / 8;
            const long long row = place.row + warp / ACROSS * 64 + r;
            const uint4* const piece = reinterpret_cast<const uint4*>(patch + swizzled<128>(r, lane % 8));
            if (row < m && column < n) {
                *reinterpret_cast<uint4*>(y + row * n + column) = *piece;
            }
        }
    }

    template <class T>
    static __device__ __forceinline__ void multiply(float (&sum)[4][8][4], const Fragment& from,
                                                    const T* kind) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                multiply_add(sum[i][j], from.left[i], from.right[j / 2] + j % 2 * 2, kind);
            }
        }
    }
};

#endif
