// The product on the CUDA cores at its best: copies into shared memory run several steps ahead, fragments one.
//
// 256 threads take a tile of TALL x BROAD, DEEP columns of `a` and rows of `b` at a time, of which RING are in
// shared memory or on their way. Copies are of one word each, so that any shape and alignment will do; what lies
// beyond an edge arrives as 0.
#ifndef KERNELLAB_PRODUCT_BUFFERED_CUH
#define KERNELLAB_PRODUCT_BUFFERED_CUH

#include "copies.cuh"
#include "product.cuh"

// One word from global to shared memory, or a 0: a macro, so that the copy is counted on the line where it stands.
#define COPY_WORD(target, source, exists)                                   \
    asm volatile(                                                           \
        "{.reg .pred missing; setp.eq.u32 missing, %2, 0;\n"                \
        "cp.async.ca.shared.global [%0], [%1], 4, missing;}" ::"r"(target), \
        "l"(source), "r"(exists)                                            \
        : "memory")
// What a thread copies of a tile of LENGTH x DEEP: words that are neighbours along k, eight of each of 32 rows; or
// that are neighbours along a row.
template <int LENGTH, int DEEP, bool is_along_k>
struct Copies {
    static constexpr int COUNT = LENGTH * DEEP / 256, TOGETHER = 256 / LENGTH;
    // Four words more a row part over the banks what goes down a column.
    static constexpr int PITCH = LENGTH + (is_along_k ? 4 : 0);
    int thread;
    __device__ __forceinline__ int place(int i) const {
        return is_along_k ? thread / 8 + 32 * (i / (DEEP / 8)) : thread % LENGTH;
    }
    __device__ __forceinline__ int depth(int i) const {
        return is_along_k ? thread % 8 + 8 * (i % (DEEP / 8)) : thread / LENGTH + TOGETHER * i;
    }
    // Which of them exist, of `length` rows or columns and `rest` steps: one bit each, 16 at most.
    static_assert(COUNT <= 16, "product: a thread must copy 16 words of a tile or fewer");
    __device__ __forceinline__ unsigned existing(long long length, long long rest) const {
        unsigned bits = 0;
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            bits |= unsigned(place(i) < length && depth(i) < rest) << i;
        }
        return bits;
    }
};

// Eight warps cover the tile, each with WARP_ROWS x 64 of it; a lane has quads of rows 16 apart and two quads of
// columns 32 apart.
template <int TALL, int BROAD, int DEEP, int RING, bool is_turned>
struct BufferedProduct {
    static constexpr int ACROSS = BROAD / 64, WARP_ROWS = TALL * ACROSS / 8;
    static_assert((BROAD == 64 || BROAD == 128 || BROAD == 256) && WARP_ROWS % 16 == 0 && DEEP % 8 == 0 &&
                      RING >= 2,
                  "product: eight warps must cover the tile");
    using LeftCopies = Copies<TALL, DEEP, true>;
    using RightCopies = Copies<BROAD, DEEP, is_turned>;
    static constexpr int LEFT = DEEP * LeftCopies::PITCH, STAGE = LEFT + DEEP * RightCopies::PITCH;
    static constexpr int DOWN_QUADS = WARP_ROWS / 16;

    // A lane's place in its warp's tile. Lanes that differ in bit 0 share their rows, in bit 1 their columns: then a
    // load of 16 bytes takes two wavefronts, not four.
    static __device__ __forceinline__ int lane_row(int thread) {
        return thread / 32 / ACROSS * WARP_ROWS + 4 * (thread / 2 % 2 + thread / 16 % 2 * 2);
    }
    static __device__ __forceinline__ int lane_column(int thread) {
        return thread / 32 % ACROSS * 64 + 4 * (thread % 2 + thread / 4 % 4 * 2);
    }

    struct Fragment {
        float left[4 * DOWN_QUADS], right[8];
    };
    static __device__ __forceinline__ void read(const float* a_tile, const float* b_tile, int q,
                                                Fragment& to) {
#pragma unroll
        for (int i = 0; i < DOWN_QUADS; ++i) {
            const float4 quad = *reinterpret_cast<const float4*>(a_tile + q * LeftCopies::PITCH + 16 * i);
            unpack<float>(quad, to.left + 4 * i);
        }
#pragma unroll
        for (int j = 0; j < 2; ++j) {
            const float4 quad = *reinterpret_cast<const float4*>(b_tile + q * RightCopies::PITCH + 32 * j);
            unpack<float>(quad, to.right + 4 * j);
        }
    }

    // `finish(prepare(column), value)` gives what is written for a sum.
    template <class Prepare, class Finish>
    static __device__ __forceinline__ void run(const float* __restrict__ a, const float* __restrict__ b,
                                               float* __restrict__ to, long long m, long long n, long long k,
                                               float* tiles, Prepare prepare, Finish finish) {
        constexpr int HIGH = 4 * DOWN_QUADS;
        const int thread = threadIdx.x;
        const Tile tile = tile_of(m, n, TALL, BROAD);

        // Where this thread's words come from and go to. The first step is the short one: all others are whole.
        const LeftCopies left = {thread};
        const RightCopies right = {thread};
        const float* a_from = a + (tile.row * (long long)TALL + left.place(0)) * k + left.depth(0);
        const float* b_from = is_turned
                                  ? b + (tile.column * (long long)BROAD + right.place(0)) * k + right.depth(0)
                                  : b + right.depth(0) * n + tile.column * (long long)BROAD + right.place(0);
        const long long a_lower = 32 * k, b_lower = is_turned ? 32 * k : right.TOGETHER * n;
        const unsigned shared = (unsigned)__cvta_generic_to_shared(tiles);
        const unsigned a_to = shared + 4 * (left.depth(0) * left.PITCH + left.place(0));
        const unsigned b_to = shared + 4 * (LEFT + right.depth(0) * right.PITCH + right.place(0));
        const int steps = (int)((k + DEEP - 1) / DEEP), first = (int)(k - (steps - 1) * (long long)DEEP);

        const auto fetch = [&](unsigned stage, unsigned exists, int count) {
#pragma unroll
            for (int i = 0; i < left.COUNT; ++i) {
                const int deeper = i % (DEEP / 8) * 8, lower = i / (DEEP / 8);
                const unsigned target = a_to + stage + 4 * (deeper * left.PITCH + 32 * lower);
                COPY_WORD(target, a_from + lower * a_lower + deeper, exists & 1u << i);
            }
#pragma unroll
            for (int i = 0; i < right.COUNT; ++i) {
                const int deeper = is_turned ? i % (DEEP / 8) * 8 : right.TOGETHER * i;
                const int lower = is_turned ? i / (DEEP / 8) : i;
                const unsigned target =
                    b_to + stage + 4 * (deeper * right.PITCH + (is_turned ? 32 * lower : 0));
                COPY_WORD(target, b_from + lower * b_lower + (is_turned ? deeper : 0),
                          exists & 1u << (16 + i));
            }
            a_from += count, b_from += is_turned ? count : count * n;
        };
        const auto existing = [&](int count) {
            return left.existing(m - tile.row * (long long)TALL, count) |
                   right.existing(n - tile.column * (long long)BROAD, count) << 16;
        };

        // Fill all stages but one.
        if (steps > 0) {
            fetch(0, existing(first), first);
        }
        close_copies();
        unsigned exists = existing(DEEP);
#pragma unroll
        for (int stage = 1; stage < RING - 1; ++stage) {
            if (stage < steps) {
                fetch(4 * stage * STAGE, exists, DEEP);
            }
            close_copies();
        }
        wait_for_copies<RING - 2>();
        __syncthreads();

        float sum[HIGH][8] = {};
        Fragment fragment[2];
        const float* a_tile = tiles + lane_row(thread);
        const float* b_tile = tiles + LEFT + lane_column(thread);
        read(a_tile, b_tile, 0, fragment[0]);
        int reading = 0;

#pragma unroll 1
        for (int rest = steps; rest > 0; --rest) {
#pragma unroll
            for (int q = 0; q < DEEP; ++q) {
                // The last values of this stage are in registers: the next stage is due, and this one is free.
                if (q == DEEP - 1) {
                    wait_for_copies<RING - 2>();
                    __syncthreads();
                    if (rest > 1) {
                        reading = reading == (RING - 1) * STAGE ? 0 : reading + STAGE;
                    }
                }
                read(a_tile + reading, b_tile + reading, (q + 1) % DEEP, fragment[(q + 1) % 2]);
                if (q == 0) {
                    if (rest > RING - 1) {
                        asm volatile("" : "+r"(exists));  // or a register for each bit would be kept
                        const int writing = reading == 0 ? (RING - 1) * STAGE : reading - STAGE;
                        fetch(4 * writing, exists, DEEP);
                    }
                    close_copies();
                }
#pragma unroll
                for (int i = 0; i < HIGH; ++i) {
#pragma unroll
                    for (int j = 0; j < 8; ++j) {
                        sum[i][j] = fmaf(fragment[q % 2].left[i], fragment[q % 2].right[j], sum[i][j]);
                    }
                }
            }
        }

        // Write quads where rows start at multiples of 16 bytes.
        const long long first_row = tile.row * (long long)TALL + lane_row(thread);
        const long long first_column = tile.column * (long long)BROAD + lane_column(thread);
        float prepared[8];
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const long long column = first_column + j / 4 * 32 + j % 4;
            prepared[j] = column < n ? prepare(column) : 0.0f;
        }
        if (n % 4 == 0 && (size_t)to % 16 == 0) {
#pragma unroll
            for (int i = 0; i < HIGH; ++i) {
                const long long row = first_row + i / 4 * 16 + i % 4;
                float4* const y = reinterpret_cast<float4*>(to + row * n) + first_column / 4;
#pragma unroll
                for (int j = 0; j < 8; j += 4) {
                    if (row < m && first_column + 8 * j < n) {
                        y[2 * j] = make_float4(
                            finish(prepared[j], sum[i][j]), finish(prepared[j + 1], sum[i][j + 1]),
                            finish(prepared[j + 2], sum[i][j + 2]), finish(prepared[j + 3], sum[i][j + 3]));
                    }
                }
            }
        } else {
#pragma unroll
            for (int i = 0; i < HIGH; ++i) {
                const long long row = first_row + i / 4 * 16 + i % 4;
                float* const y = to + row * n + first_column;
#pragma unroll
                for (int j = 0; j < 8; ++j) {
                    const int offset = j / 4 * 32 + j % 4;
                    if (row < m && first_column + offset < n) {
                        y[offset] = finish(prepared[j], sum[i][j]);
                    }
                }
            }
        }
    }
};

#endif
