"""wgmma: products of warpgroups against NumPy, every layout and type; what is touched too early is found."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hopper import kernels, product

from kernellab.errors import ExecutionError

ONE_TILE = """
extern "C" __global__ void one_tile(const uint4* raw, KIND* y, int nbytes, int b_at, u64 da, u64 db, int keeps) {
    extern __shared__ __align__(1024) uint4 memory[];
    for (int i = threadIdx.x; i < nbytes / 16; i += blockDim.x) memory[i] = raw[i];
    fence_async();
    __syncthreads();
    KIND d[REGISTERS];
    for (int i = 0; i < REGISTERS; ++i) d[i] = y[i * 128 + threadIdx.x];
    u64 start = at(memory) >> 4;
    fence_registers();
    multiply(d, start + da, start + (b_at >> 4) + db, keeps);
    commit_products();
    wait_products<0>();
    for (int i = 0; i < REGISTERS; ++i) y[i * 128 + threadIdx.x] = d[i];
}
"""
MODES = {0: 0, 128: 1, 64: 2, 32: 3}


def swizzle(address, mode):
    """The hardware's permutation, bit by bit."""
    for bit in range({0: 0, 32: 1, 64: 2, 128: 3}[mode]):
        address ^= (address >> (7 + bit) & 1) << (4 + bit)
    return address


def k_major(x, mode, leading, stride):
    """Lay a matrix (rows, K) out in shared memory, element by element."""
    raw = np.zeros(1 << 16, np.uint8)
    width = max(mode, 16)
    for i, row in enumerate(x):
        for c, piece in enumerate(row.view(np.uint8).reshape(-1, 16)):
            address = i % 8 * width + i // 8 * stride + c * (16 if mode else leading)
            raw[swizzle(address, mode) :][:16] = piece
    return raw


def mn_major(x, mode, leading, stride):
    """The same with rows (M or N) contiguous."""
    raw = np.zeros(1 << 16, np.uint8)
    per = max(mode, 16) // 16
    for k, column in enumerate(x.T):
        for m, piece in enumerate(np.ascontiguousarray(column).view(np.uint8).reshape(-1, 16)):
            if mode:
                address = m % per * 16 + m // per * leading + k % 8 * mode + k // 8 * stride
            else:
                address = m * stride + k % 8 * 16 + k // 8 * leading
            raw[swizzle(address, mode) :][:16] = piece
    return raw


def lane_layout(d):
    """Spread a 64 x n matrix over registers and threads: shape (registers, 128)."""
    n = d.shape[1]
    t = np.arange(128)
    rows, columns = t // 32 * 16 + t % 32 // 4, t % 4 * 2
    found = [d[rows + 8 * h, columns + 8 * j + e] for j in range(n // 8) for h in range(2) for e in range(2)]
    return np.array(found)


def run(a, b, kinds, *, n, mode=0, turned=(0, 0), keeps=0, before=None, tail=None, use_mode=None):
    """Multiply through shared memory; return D as lanes hold it."""
    itemsize = a.dtype.itemsize
    k = 32 // itemsize
    size = {"f32": 4, "f16": 2, "s32": 4}[kinds.split(".")[0]]
    registers = n // 2 * size // 4
    if tail is None:
        tail = f", 1, 1, {turned[0]}, {turned[1]}" if itemsize == 2 else ", 1, 1"
    images, descriptors = [], []
    for x, is_turned in ((a, turned[0]), (b, turned[1])):
        if is_turned:
            leading, stride = (16 * mode, 8 * mode) if mode else (17 * 128, 128)
            images.append(mn_major(x, mode, leading, stride))
        else:
            leading, stride = 128, 8 * max(mode, 32)
            images.append(k_major(x, mode, leading, stride))
        used = MODES[mode if use_mode is None else use_mode]
        descriptors.append(leading >> 4 << 16 | stride >> 4 << 32 | used << 62)
    raw = np.concatenate(images).view(np.uint32)
    kind = "float" if kinds.startswith("f32") else "unsigned"
    y = np.zeros((registers, 128), np.float32 if kind == "float" else np.uint32)
    if before is not None:
        y[...] = lane_layout(before)
    text = product(n, kinds, registers, k=k, tail=tail) + ONE_TILE.replace("KIND", kind).replace(
        "REGISTERS", str(registers)
    )
    da, db = (np.uint64(each) for each in descriptors)
    kernels(text)("one_tile", 1, 128, raw, y, raw.nbytes, 1 << 16, da, db, keeps, shared_mem=raw.nbytes)
    return y


def matrices(rng, m, n, k, dtype):
    a, b = rng.integers(-8, 8, (m, k)) / 4, rng.integers(-8, 8, (n, k)) / 4
    return a.astype(dtype), b.astype(dtype)


@pytest.mark.parametrize("mode", [0, 32, 64, 128])
@pytest.mark.parametrize("turned", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_every_layout_of_half_precision(rng, mode, turned):
    a, b = matrices(rng, 64, 64, 16, np.float16)
    y = run(a, b, "f32.f16.f16", n=64, mode=mode, turned=turned)
    np.testing.assert_array_equal(y, lane_layout(a.astype(np.float32) @ b.astype(np.float32).T))


def test_several_atoms_of_a_swizzle(rng):
    a, b = matrices(rng, 64, 256, 16, np.float16)
    y = run(a, b, "f32.f16.f16", n=256, mode=128, turned=(0, 1))
    np.testing.assert_array_equal(y, lane_layout(a.astype(np.float32) @ b.astype(np.float32).T))


@pytest.mark.parametrize("n", [8, 24, 256])
def test_widths(rng, n):
    a, b = matrices(rng, 64, n, 16, ml_dtypes.bfloat16)
    y = run(a, b, "f32.bf16.bf16", n=n)
    np.testing.assert_array_equal(y, lane_layout(a.astype(np.float32) @ b.astype(np.float32).T))


@pytest.mark.parametrize(
    ("kinds", "dtype"),
    [("f32.e4m3.e5m2", ml_dtypes.float8_e4m3fn), ("f32.tf32.tf32", np.float32), ("s32.s8.u8", np.int8)],
)
def test_other_types(rng, kinds, dtype):
    k = 32 // np.dtype(dtype).itemsize
    a, b = matrices(rng, 64, 16, k, dtype) if dtype is not np.int8 else (
        rng.integers(-128, 128, (64, k)).astype(np.int8), rng.integers(0, 256, (16, k)).astype(np.uint8)
    )  # fmt: skip
    if "e5m2" in kinds:
        b = b.astype(ml_dtypes.float8_e5m2)
    y = run(a, b, kinds, n=16, mode=64, tail="" if dtype is np.int8 else None)
    exact = np.int32 if dtype is np.int8 else np.float32
    expected = lane_layout(a.astype(exact) @ b.astype(exact).T)
    np.testing.assert_array_equal(y.view(exact), expected)


def test_accumulators_of_half_precision(rng):
    a, b = matrices(rng, 64, 16, 16, np.float16)
    y = run(a, b, "f16.f16.f16", n=16)
    expected = lane_layout((a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16))
    np.testing.assert_array_equal(y[:, :, None].view(np.float16)[:, :, 1], expected[1::2])
    np.testing.assert_array_equal(y[:, :, None].view(np.float16)[:, :, 0], expected[0::2])


def test_scales(rng):
    a, b = matrices(rng, 64, 8, 16, np.float16)
    before = (rng.integers(-8, 8, (64, 8)) / 4).astype(np.float32)
    exact = a.astype(np.float32) @ b.astype(np.float32).T
    y = run(a, b, "f32.f16.f16", n=8, keeps=1, before=before, tail=", -1, 1, 0, 0")
    np.testing.assert_array_equal(y, lane_layout((before.astype(np.float64) - exact).astype(np.float32)))
    y = run(a, b, "f32.f16.f16", n=8, keeps=0, before=before, tail=", -1, -1, 0, 0")
    np.testing.assert_array_equal(y, lane_layout(exact))


def test_a_wrong_swizzle_gives_wrong_values(rng):
    a, b = matrices(rng, 64, 64, 16, np.float16)
    y = run(a, b, "f32.f16.f16", n=64, mode=128, use_mode=64)
    assert (y != lane_layout(a.astype(np.float32) @ b.astype(np.float32).T)).any()


FROM_REGISTERS = """
extern "C" __global__ void from_registers(const unsigned* fragments, const uint4* raw, float* y, u64 db) {
    __shared__ __align__(1024) uint4 memory[128];
    memory[threadIdx.x] = raw[threadIdx.x];
    fence_async();
    __syncthreads();
    unsigned a[4];
    for (int i = 0; i < 4; ++i) a[i] = fragments[i * 128 + threadIdx.x];
    float d[8] = {};
    fence_registers();
    multiply(d, a, (u64)(at(memory) >> 4) + db, 0);
    commit_products();
    wait_products<0>();
    for (int i = 0; i < 8; ++i) y[i * 128 + threadIdx.x] = d[i];
}
"""


@pytest.mark.parametrize("turned", [0, 1])
def test_the_left_operand_in_registers(rng, turned):
    a, b = matrices(rng, 64, 16, 16, np.float16)
    fragments = np.zeros((4, 128, 2), np.float16)
    for t in range(128):
        row, column = t // 32 * 16 + t % 32 // 4, t % 4 * 2
        for i in range(4):
            fragments[i, t] = a[row + 8 * (i % 2), column + 8 * (i // 2) :][:2]
    image = mn_major(b, 0, 512, 128) if turned else k_major(b, 32, 128, 256)
    db = np.uint64(512 >> 4 << 16 | 128 >> 4 << 32 if turned else 256 >> 4 << 32 | 3 << 62)
    y = np.zeros((8, 128), np.float32)
    text = product(16, "f32.f16.f16", 8, k=16, tail=f", 1, 1, {turned}", a_registers=4) + FROM_REGISTERS
    words = fragments.view(np.uint32).reshape(4, 128)
    kernels(text)("from_registers", 1, 128, words, image[:2048].view(np.uint32), y, db)
    np.testing.assert_array_equal(y, lane_layout(a.astype(np.float32) @ b.astype(np.float32).T))


CARELESS = """
extern "C" __global__ void careless(float* y, u64 bits, int what) {
    __shared__ __align__(1024) unsigned memory[768];
    for (int i = threadIdx.x; i < 768; i += blockDim.x) memory[i] = 0;
    fence_async();
    __syncthreads();
    float d[4] = {}, e[4] = {};
    u64 a = describe(memory, 128, 256, 0) | bits;
    if (what == 1) a += threadIdx.x % 2;
    if (what == 2) a += threadIdx.x / 32;
    if (what != 3) fence_registers();
    if (what != 4 || threadIdx.x % 32) multiply(d, a, describe(memory, 128, 256, 0), 1);
    commit_products();
    if (what == 5) wait_products<1>();
    if (what == 6) {
        multiply(e, a, describe(memory, 128, 256, 0), 1);
        commit_products();
        wait_products<1>();
        y[threadIdx.x] = d[0] + d[1];
    }
    if (what == 7) memory[threadIdx.x] = 1;
    if (what == 8) {
        multiply(e, a, describe(memory, 128, 256, 0), 1);
        commit_products();
        wait_products<1>();
        y[threadIdx.x] = d[0] + e[1];
    }
    if (what == 9 && threadIdx.x < 32) while (true) __nanosleep(20);
    if (what == 10 && threadIdx.x < 32) return;
    if (what == 13 && threadIdx.x % 2) fewer_registers<24>();
    if (what == 11) y[threadIdx.x] = __shfl_xor_sync(~0u, d[0], 1);
    if (what == 12)
        asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};"
                     :: "r"(at(memory + 512 + threadIdx.x % 32 * 4)), "r"(__float_as_uint(d[1])) : "memory");
    if (what != 5) wait_products<0>();
    y[threadIdx.x] += d[2] + e[2];
}
"""


def careless(what, bits=0, threads=128):
    text = product(8, "f32.f16.f16", 4, k=16, tail=", 1, 1, 0, 0") + CARELESS
    return kernels(text)("careless", 1, threads, np.zeros(128, np.float32), np.uint64(bits), what)


@pytest.mark.parametrize("what", [0, 6, 10])
def test_a_product_may_be_read_while_a_later_one_is_on_its_way(what):
    assert careless(what).diagnostics == ()


@pytest.mark.parametrize(
    ("what", "bits", "message"),
    [
        (0, 1 << 50 | 1 << 15, "matrix descriptor 0x4.* has bits set that must be 0"),
        (0, 0x3000 >> 4, "starts at byte 12288 reaches byte 14336 of shared memory, which has 3072"),
        (1, 0, "the lanes of a warp have different matrix descriptors"),
        (2, 0, "the warps of a warpgroup have different matrix descriptors"),
        (3, 0, "missing fence: this is the warp's first wgmma"),
        (4, 0, "only a part of a warp is at a wgmma instruction"),
        (5, 0, "an accumulator of the wgmma at source.cu:.* is read before it is waited for"),
        (7, 0, "this store touches byte 0 of shared memory, .* may still be reading; wait for it first"),
        (9, 0, "96 threads wait for the other warps of their warpgroup at source.cu"),
        (8, 0, "an accumulator of the wgmma at source.cu:.* is read before it is waited for"),
        (11, 0, "an accumulator of the wgmma at source.cu:.* is read before it is waited for"),
        (13, 0, "only a part of a warp is at a setmaxnreg instruction"),
        (12, 0, "an accumulator of the wgmma at source.cu:.* is read before it is waited for"),
    ],
)
def test_careless_products(what, bits, message):
    with pytest.raises(ExecutionError, match=message):
        careless(what, bits)


def test_a_part_of_a_warpgroup_is_no_warpgroup():
    with pytest.raises(ExecutionError, match="needs the four warps of a warpgroup; the block has 2 warps"):
        careless(0, threads=64)
