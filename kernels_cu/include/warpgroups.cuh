// Warpgroups: a product by wgmma, fed by TMA: one thread loads, two warpgroups multiply, blocks stay for many tiles.
//
// A block has ROWS x COLUMNS of the answer at a time. Its first warpgroup gives its registers away and one thread of
// it keeps STAGES steps of 64 in k on their way; each other warpgroup multiplies 64 rows. CLUSTER blocks below each
// other share the columns of b: each loads its part and sends it to all. Elements have 16 bits.
#ifndef KERNELLAB_WARPGROUPS_CUH
#define KERNELLAB_WARPGROUPS_CUH

#include "element.cuh"
#include "hopper.cuh"

template <int rows, int columns, int stages, int cluster>
struct Product {
    static constexpr int GROUPS = rows / 64, DEPTH = 64, STEP = DEPTH * 2;
    static constexpr int A_BYTES = rows * STEP, B_BYTES = columns * STEP, Y_BYTES = 64 * 64 * 2;
    static constexpr int THREADS = 128 * (GROUPS + 1);

    // The tile of a cluster: `band` of them below each other, then the next column, so that clusters that run
    // together share rows and columns in L2.
    struct Place {
        int row, column;
    };
    static __device__ __forceinline__ Place place_of(int tile, int down, int across, int band) {
        const int first = tile / (band * across) * band, inside = tile % (band * across);
        const int height = down - first < band ? down - first : band;
        return {(first + inside % height) * rows * cluster, inside / height * columns};
    }

    // Where in the ring of stages a loop is; a barrier's phase changes each time round.
    struct Ring {
        int stage = 0;
        unsigned phase = 0;
        __device__ __forceinline__ void advance() {
            stage = stage + 1 < stages ? stage + 1 : 0;
            phase ^= stage == 0;
        }
    };

    // Four values that stmatrix takes: rows of 128 bytes, 16-byte pieces swizzled, so that no bank is asked twice.
    static __device__ __forceinline__ void store_matrices(unsigned tile, int row, int piece,
                                                          const unsigned* word) {
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                         tile + row * 128 + (piece ^ row % 8) * 16),
                     "r"(word[0]), "r"(word[1]), "r"(word[2]), "r"(word[3])
                     : "memory");
    }
    static __device__ __forceinline__ void group_sync(int group) {
        if (group == 1) {
            asm volatile("bar.sync 1, 128;" ::: "memory");
        } else {
            asm volatile("bar.sync 2, 128;" ::: "memory");
        }
    }

    // `prepare(column)` gives what `finish(prepared, j, value)` needs to change 32 sums: value[4 i + q] belongs to
    // column 8 (j + i) + q % 2 after the lane's first, in one of two rows.
    template <bool is_b_by_k, class T, class Prepare, class Finish>
    static __device__ __forceinline__ void run(const TileMap& a_map, const TileMap& b_map,
                                               const TileMap& y_map, int m, int n, int k, int band,
                                               Prepare prepare, Finish finish) {
        extern __shared__ unsigned char memory[];
        __shared__ unsigned long long full[stages], empty[stages];
        const unsigned a_tiles = (shared_address(memory) + 1023) / 1024 * 1024;
        const unsigned b_tiles = a_tiles + stages * A_BYTES, y_tiles = b_tiles + stages * B_BYTES;
        const int group = threadIdx.x / 128, rank = blockIdx.x % cluster;
        const int down = (m + rows * cluster - 1) / (rows * cluster), across = (n + columns - 1) / columns;
        const int steps = (k + DEPTH - 1) / DEPTH, tiles = down * across, clusters = gridDim.x / cluster;

        if (threadIdx.x == 0) {
            for (int s = 0; s < stages; ++s) {
                barrier_init(shared_address(full + s), 1);
                barrier_init(shared_address(empty + s), GROUPS * cluster);
            }
            asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        }
        cluster_sync<cluster>();

        Ring ring;
        if (group == 0) {
            // Load.
            asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
            if (threadIdx.x == 0) {
                for (int tile = blockIdx.x / cluster; tile < tiles; tile += clusters) {
                    const Place place = place_of(tile, down, across, band);
                    for (int step = 0; step < steps; ++step) {
                        const unsigned barrier = shared_address(full + ring.stage);
                        barrier_wait(shared_address(empty + ring.stage), ring.phase ^ 1);
                        barrier_expect(barrier, A_BYTES + B_BYTES);
                        load_tile<1>(a_tiles + ring.stage * A_BYTES, &a_map, step * DEPTH,
                                     place.row + rank * rows, barrier);
                        constexpr int PART = columns / cluster;
                        const unsigned b_tile = b_tiles + ring.stage * B_BYTES + rank * (PART * STEP);
                        if constexpr (is_b_by_k) {
                            for (int c = 0; c < PART; c += 64) {
                                load_tile<cluster>(b_tile + c * STEP, &b_map, place.column + rank * PART + c,
                                                   step * DEPTH, barrier);
                            }
                        } else {
                            load_tile<cluster>(b_tile, &b_map, step * DEPTH, place.column + rank * PART,
                                               barrier);
                        }
                        ring.advance();
                    }
                }
            }
        } else {
            // Multiply.
            asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(GROUPS == 2 ? 232 : 240));
            const int member = threadIdx.x % 128, lane = member % 32;
            const int y_row = member / 32 * 16 + lane % 16, y_piece = lane / 16;
            const unsigned y_tile = y_tiles + (group - 1) * (2 * Y_BYTES);
            const T* const kind = nullptr;
            float sum[columns / 2];
            for (int tile = blockIdx.x / cluster; tile < tiles; tile += clusters) {
                const Place place = place_of(tile, down, across, band);
                const int row = place.row + rank * rows + (group - 1) * 64;
                const auto prepared = prepare(place.column + lane % 4 * 2);
                int before = 0;
                for (int step = 0; step < steps; ++step) {
                    barrier_wait(shared_address(full + ring.stage), ring.phase);
                    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
                    const unsigned a_tile = a_tiles + ring.stage * A_BYTES + (group - 1) * (64 * STEP);
                    const unsigned b_tile = b_tiles + ring.stage * B_BYTES;
#pragma unroll
                    for (int q = 0; q < DEPTH; q += 16) {
                        const unsigned long long b =
                            is_b_by_k ? operand(b_tile + q * 128, 64 * STEP) : operand(b_tile + q * 2, 16);
                        multiply<is_b_by_k>(sum, operand(a_tile + q * 2, 16), b, step > 0 || q > 0, kind);
                    }
                    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 1;" ::
                                     : "memory");
                    // The step before is done with its stage, here and wherever this block's part of b came from.
                    if (step > 0 && member < cluster) {
                        barrier_arrive(shared_address(empty + before), member);
                    }
                    before = ring.stage;
                    ring.advance();
                }
                asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
                if (member < cluster) {
                    barrier_arrive(shared_address(empty + before), member);
                }

                // Finish 64 columns at a time, through one of two tiles in shared memory, while the next loads come.
#pragma unroll
                for (int c = 0; c < columns; c += 64) {
                    const unsigned to = y_tile + c / 64 % 2 * Y_BYTES;
                    if (member == 0) {
                        asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
                    }
                    group_sync(group);
                    float* const value = sum + c / 2;
                    finish(prepared, c / 8, value);
#pragma unroll
                    for (int j = 0; j < 8; j += 2) {
                        unsigned word[4];
#pragma unroll
                        for (int q = 0; q < 4; ++q) {
                            word[q] = pack_word(value + 4 * j + 2 * q, kind);
                        }
                        store_matrices(to, y_row, j + y_piece, word);
                    }
                    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                    group_sync(group);
                    if (member == 0) {
                        if (row < m && place.column + c < n) {
                            store_tile(&y_map, place.column + c, row, to);
                        }
                        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
                    }
                }
            }
            if (member == 0) {
                asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
            }
        }
        // A block stays while others of its cluster may still write into it.
        cluster_sync<cluster>();
    }
};

#endif
