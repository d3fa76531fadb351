// One warp multiplies with mma.sync; fragments are filled and emptied element by element as the PTX ISA says.
// GROUP and PLACE are the ISA's groupID and threadID_in_group; i numbers the elements of a fragment.
#define GROUP (threadIdx.x >> 2)
#define PLACE (threadIdx.x & 3)
#ifndef SWAP
#define SWAP(i) (i)
#endif

// 16-bit A of 16 x 16 and 16 x 8, B of 16 x 8 and 8 x 8
#define A16_ROW(i) (((i) >> 1 & 1) ? GROUP + 8 : GROUP)
#define A16_COLUMN(i) (PLACE * 2 + ((i) & 1) + ((i) >= 4 ? 8 : 0))
#define B16_ROW(i) (PLACE * 2 + ((i) & 1) + ((i) >= 2 ? 8 : 0))
// 32-bit A of 16 x 8 and 16 x 4, B of 8 x 8 and 4 x 8; 64-bit ones also
#define A32_ROW(i) (((i) & 1) ? GROUP + 8 : GROUP)
#define A32_COLUMN(i) (PLACE + ((i) >= 2 ? 4 : 0))
#define B32_ROW(i) (PLACE + ((i) >= 1 ? 4 : 0))
// 8-bit A of 16 x 32 and 16 x 16 (and 8 x 16), B of 32 x 8 and 16 x 8
#define A8_ROW(i) (((i) >> 2 & 1) ? GROUP + 8 : GROUP)
#define A8_COLUMN(i) (PLACE * 4 + ((i) & 3) + ((i) >= 8 ? 16 : 0))
#define B8_ROW(i) (PLACE * 4 + ((i) & 3) + ((i) >= 4 ? 16 : 0))
// accumulators
#define C_ROW(i) ((i) >= 2 ? GROUP + 8 : GROUP)
#define C_COLUMN(i) (PLACE * 2 + ((i) & 1))

#define PRODUCT(name, opcode, T, U, WORD, K, NA, NB, NC, AROW, ACOLUMN, BROW, CALL) \
    extern "C" __global__ void name(const T* a, const T* b, const U* c, U* d) { \
        union { T x[NA]; WORD r[(NA * sizeof(T) + sizeof(WORD) - 1) / sizeof(WORD)]; } fa; \
        union { T x[NB]; WORD r[(NB * sizeof(T) + sizeof(WORD) - 1) / sizeof(WORD)]; } fb; \
        union { U x[NC]; unsigned r[NC]; double d[NC / 2]; } fc; \
        for (int i = 0; i < NA; ++i) fa.x[SWAP(i)] = a[AROW(i) * K + ACOLUMN(i)]; \
        for (int i = 0; i < NB; ++i) fb.x[i] = b[BROW(i) * 8 + GROUP]; \
        for (int i = 0; i < NC; ++i) fc.x[i] = c[C_ROW(i) * 8 + C_COLUMN(i)]; \
        CALL(opcode); \
        for (int i = 0; i < NC; ++i) d[C_ROW(i) * 8 + C_COLUMN(i)] = fc.x[i]; \
    }

#define CALL_421(opcode, L, D) \
    asm volatile(opcode " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : D(fc.x[0]), D(fc.x[1]), D(fc.x[2]), D(fc.x[3]) \
                 : L(fa.r[0]), L(fa.r[1]), L(fa.r[2]), L(fa.r[3]), L(fb.r[0]), L(fb.r[1]))
#define CALL_211(opcode, L, D) \
    asm volatile(opcode " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};" \
                 : D(fc.x[0]), D(fc.x[1]), D(fc.x[2]), D(fc.x[3]) \
                 : L(fa.r[0]), L(fa.r[1]), L(fb.r[0]))
#define CALL_111(opcode, L, D) \
    asm volatile(opcode " {%0, %1}, {%2}, {%3}, {%0, %1};" \
                 : D(fc.x[0]), D(fc.x[1]) : L(fa.r[0]), L(fb.r[0]))
#define F421(opcode) CALL_421(opcode, "r", "+f")
#define F211(opcode) CALL_211(opcode, "r", "+f")
#define I421(opcode) CALL_421(opcode, "r", "+r")
#define I211(opcode) CALL_211(opcode, "r", "+r")
#define I111(opcode) CALL_111(opcode, "r", "+r")
#define D421(opcode) CALL_421(opcode, "d", "+d")
#define D211(opcode) CALL_211(opcode, "d", "+d")
#define D111(opcode) CALL_111(opcode, "d", "+d")
#define H421(opcode) \
    asm volatile(opcode " {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};" \
                 : "+r"(fc.r[0]), "+r"(fc.r[1]) \
                 : "r"(fa.r[0]), "r"(fa.r[1]), "r"(fa.r[2]), "r"(fa.r[3]), "r"(fb.r[0]), "r"(fb.r[1]))
#define H211(opcode) \
    asm volatile(opcode " {%0, %1}, {%2, %3}, {%4}, {%0, %1};" \
                 : "+r"(fc.r[0]), "+r"(fc.r[1]) : "r"(fa.r[0]), "r"(fa.r[1]), "r"(fb.r[0]))

#define HALF(name, shape, types, U, K, N, CALL) \
    PRODUCT(name, "mma.sync.aligned." shape ".row.col." types, unsigned short, U, unsigned, K, 2 * N, N, 4, \
            A16_ROW, A16_COLUMN, B16_ROW, CALL)
HALF(m16n8k16_f16, "m16n8k16", "f32.f16.f16.f32", float, 16, 4, F421)
HALF(m16n8k16_bf16, "m16n8k16", "f32.bf16.bf16.f32", float, 16, 4, F421)
HALF(m16n8k8_f16, "m16n8k8", "f32.f16.f16.f32", float, 8, 2, F211)
HALF(m16n8k8_bf16, "m16n8k8", "f32.bf16.bf16.f32", float, 8, 2, F211)
HALF(m16n8k16_f16_f16, "m16n8k16", "f16.f16.f16.f16", unsigned short, 16, 4, H421)
HALF(m16n8k8_f16_f16, "m16n8k8", "f16.f16.f16.f16", unsigned short, 8, 2, H211)

#define WORDS(name, opcode, T, U, K, NA, NB, NC, CALL) \
    PRODUCT(name, "mma.sync.aligned." opcode, T, U, T, K, NA, NB, NC, A32_ROW, A32_COLUMN, B32_ROW, CALL)
WORDS(m16n8k4_tf32, "m16n8k4.row.col.f32.tf32.tf32.f32", unsigned, float, 4, 2, 1, 4, F211)
WORDS(m16n8k8_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32", unsigned, float, 8, 4, 2, 4, F421)
WORDS(m8n8k4_f64, "m8n8k4.row.col.f64.f64.f64.f64", double, double, 4, 1, 1, 2, D111)
WORDS(m16n8k4_f64, "m16n8k4.row.col.f64.f64.f64.f64", double, double, 4, 2, 1, 4, D211)
WORDS(m16n8k8_f64, "m16n8k8.row.col.f64.f64.f64.f64", double, double, 8, 4, 2, 4, D421)

#define BYTES(name, opcode, T, U, K, NA, NB, NC, CALL) \
    PRODUCT(name, "mma.sync.aligned." opcode, T, U, unsigned, K, NA, NB, NC, A8_ROW, A8_COLUMN, B8_ROW, CALL)
BYTES(m16n8k32_s8, "m16n8k32.row.col.s32.s8.s8.s32", signed char, int, 32, 16, 8, 4, I421)
BYTES(m16n8k32_u8, "m16n8k32.row.col.s32.u8.u8.s32", unsigned char, int, 32, 16, 8, 4, I421)
BYTES(m16n8k32_s8_saturated, "m16n8k32.row.col.satfinite.s32.s8.s8.s32", signed char, int, 32, 16, 8, 4, I421)
BYTES(m16n8k16_s8, "m16n8k16.row.col.s32.s8.s8.s32", signed char, int, 16, 8, 4, 4, I211)
BYTES(m8n8k16_s8, "m8n8k16.row.col.s32.s8.s8.s32", signed char, int, 16, 4, 4, 2, I111)
BYTES(m16n8k32_e4m3, "m16n8k32.row.col.f32.e4m3.e4m3.f32", unsigned char, float, 32, 16, 8, 4, F421)
BYTES(m16n8k32_e5m2, "m16n8k32.row.col.f32.e5m2.e5m2.f32", unsigned char, float, 32, 16, 8, 4, F421)
