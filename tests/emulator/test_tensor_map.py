"""Tensor maps and copies of their tiles: coordinates, borders, strides and swizzles against NumPy."""

from __future__ import annotations

from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from hopper import kernels

import kernellab as kl
from kernellab.emulator.bulk_copies import bind_bulk
from kernellab.emulator.syntax import Instruction
from kernellab.errors import ArgumentError, ExecutionError, SpecError, UnsupportedPTXError
from kernellab.tensor_map import NBYTES, TensorMap, decode

f32 = np.float32


def copier(rank: int) -> str:
    """Write a kernel that loads a tile, shows its bytes in shared memory and stores it elsewhere."""
    coordinates = ", ".join(f"%{3 + i}" for i in range(rank))
    inputs = ", ".join(f'"r"(c[{i}])' for i in range(rank))
    outputs = ", ".join(f'"r"(max(c[{i}], 0))' for i in range(rank))  # a store takes no place below 0
    return f"""
extern "C" __global__ void copy_tile(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to,
    unsigned* bytes, const int* c, int nbytes) {{
    __shared__ __align__(1024) unsigned tile[4096];
    __shared__ u64 bar;
    if (threadIdx.x == 0) {{
        asm volatile("prefetch.tensormap [%0];" :: "l"(&from) : "memory");
        init(&bar, 1);
        fence_init();
        expect(&bar, nbytes);
        asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes "
            "[%0], [%1, {{{coordinates}}}], [%2];" :: "r"(at(tile)), "l"(&from), "r"(at(&bar)), {inputs} : "memory");
    }}
    __syncthreads();
    wait(&bar, 0);
    for (int i = threadIdx.x; i < nbytes / 4; i += blockDim.x) bytes[i] = tile[i];
    if (threadIdx.x == 0) {{
        asm volatile("cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group "
            "[%1, {{{coordinates}}}], [%0];" :: "r"(at(tile)), "l"(&to), "r"(0), {outputs} : "memory");
        commit_stores();
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }}
}}
"""


def copy_tile(source, box, corner, *, steps=None, swizzle=0, out_swizzle=None, seed=None):
    """Copy a tile whose first element is `corner`; return the tile as it lay in shared memory, and the target."""
    target = np.full(source.shape, 77, source.dtype)
    first = TensorMap(source, box, swizzle, steps)
    second = TensorMap(target, box, swizzle if out_swizzle is None else out_swizzle, steps)
    words = np.zeros(first.tile_nbytes // 4, np.uint32)
    corner = np.array(corner[::-1], np.int32)
    trace = kernels(copier(len(box)))(
        "copy_tile", 1, 64, first, second, words, corner, words.nbytes, seed=seed
    )
    assert trace.diagnostics == ()
    return words.view(source.dtype), target, trace


def expected_tile(source, box, corner, steps=None):
    """Take a tile element by element, and store it at the same place, or at 0 along axes where that is below."""
    steps = steps or (1,) * len(box)
    counts = [-(-b // s) for b, s in zip(box, steps, strict=True)]
    tile, stored = np.zeros(counts, source.dtype), np.full(source.shape, 77, source.dtype)
    for place in np.ndindex(*counts):
        where = tuple(c + i * s for c, i, s in zip(corner, place, steps, strict=True))
        if all(0 <= w < n for w, n in zip(where, source.shape, strict=True)):
            tile[place] = source[where]
        to = tuple(max(c, 0) + i * s for c, i, s in zip(corner, place, steps, strict=True))
        if all(w < n for w, n in zip(to, source.shape, strict=True)):
            stored[to] = tile[place]
    return tile, stored


@pytest.mark.parametrize(
    ("shape", "box", "corner", "steps"),
    [
        ((100,), (64,), (52,), None),
        ((40, 48), (16, 32), (8, 4), None),
        ((40, 48), (16, 32), (-3, 40), None),
        ((40, 48), (17, 32), (30, -20), (2, 1)),
        ((5, 12, 20), (3, 4, 8), (3, -1, 16), None),
        ((3, 4, 5, 8), (2, 3, 4, 8), (2, 2, -2, -4), None),
        ((3, 2, 4, 5, 8), (2, 2, 3, 3, 4), (-1, 1, 2, 3, 4), (1, 1, 3, 2, 1)),
        ((40, 48), (16, 32), (100, 0), None),
    ],
)
@pytest.mark.parametrize("seed", [None, 1])
def test_tiles_of_one_to_five_axes(rng, shape, box, corner, steps, seed):
    source = rng.standard_normal(shape).astype(f32)
    found, target, trace = copy_tile(source, box, corner, steps=steps, seed=seed)
    tile, stored = expected_tile(source, box, corner, steps)
    np.testing.assert_array_equal(found.reshape(tile.shape), tile)
    np.testing.assert_array_equal(target, stored)
    assert trace.totals["tma_load_bytes"] == int((tile != 0).sum()) * 4
    assert trace.totals["tma_store_bytes"] == int((stored != 77).sum()) * 4


def test_a_store_below_zero_is_an_illegal_instruction(rng):
    """As an H200 has it; a load may begin there."""
    text = copier(2).replace("max(c[0], 0)", "c[0]").replace("max(c[1], 0)", "c[1]")
    maps = [TensorMap(np.zeros((40, 48), f32), (8, 8)) for _ in range(2)]
    for corner in ((0, -3), (-4, 0)):
        with pytest.raises(ExecutionError, match=r"a tile is stored at -[34], below 0"):
            kernels(text)("copy_tile", 1, 64, *maps, np.zeros(64, np.uint32), np.array(corner, np.int32), 256)


@pytest.mark.parametrize(
    ("dtype", "first", "multiple"), [(f32, 5, 4), (np.uint8, -8, 16), (np.float64, 1, 2)]
)
@pytest.mark.parametrize("is_stored", [False, True])
def test_a_row_of_a_tile_begins_at_16_bytes_or_is_an_illegal_instruction(dtype, first, multiple, is_stored):
    """As an H200 has it, of loads and stores."""
    text = copier(2)
    if is_stored:  # loaded at 0
        start, stop = text.index('"l"(&from), "r"(at(&bar)), "r"(c[0])'), text.index("__syncthreads")
        text = text[:start] + text[start:stop].replace('"r"(c[0])', '"r"(0)') + text[stop:]
        text = text.replace("max(c[0], 0)", "c[0]")
    maps = [TensorMap(np.zeros((40, 64), dtype), (8, 16)) for _ in range(2)]
    words = np.zeros(8 * 16 * np.dtype(dtype).itemsize // 4, np.uint32)
    message = rf"begins at element {first} of .* multiple of 16 bytes; take a multiple of {multiple}"
    with pytest.raises(ExecutionError, match=message):
        kernels(text)("copy_tile", 1, 64, *maps, words, np.array((first, 2), np.int32), words.nbytes)


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, ml_dtypes.bfloat16, np.int32, np.float64])
@pytest.mark.parametrize("swizzle", [32, 64, 128])
def test_swizzles(rng, swizzle, dtype):
    width = swizzle // np.dtype(dtype).itemsize
    source = rng.integers(0, 100, (40, 2 * width)).astype(dtype)
    found, target, _ = copy_tile(source, (32, width), (12, width), swizzle=swizzle)
    tile, stored = expected_tile(source, (32, width), (12, width))
    np.testing.assert_array_equal(target, stored)
    raw, bytes_found = tile.view(np.uint8).reshape(-1, 16), found.view(np.uint8).reshape(-1, 16)
    for i, piece in enumerate(raw):  # piece i of the tile lies where bits of its row are added to it
        row = i * 16 // 128
        np.testing.assert_array_equal(bytes_found[i ^ (row % (swizzle // 16))], piece)


def test_another_swizzle_on_the_way_out_is_seen(rng):
    source = rng.standard_normal((40, 32)).astype(f32)
    _, target, _ = copy_tile(source, (32, 32), (0, 0), swizzle=128, out_swizzle=128)
    assert (target[:32] == source[:32]).all()
    _, target, _ = copy_tile(source, (32, 32), (0, 0), swizzle=128, out_swizzle=0)
    assert (target[:32] != source[:32]).any()


def test_rows_may_be_padded(rng):
    whole = rng.standard_normal((20, 64)).astype(f32)
    source = whole[:, :40]
    words = np.zeros(16 * 16, np.uint32)
    first, second = (TensorMap(each, (16, 16)) for each in (source, np.zeros((20, 48), f32)))
    kernels(copier(2))("copy_tile", 1, 64, first, second, words, np.array([32, 4], np.int32), 1024)
    np.testing.assert_array_equal(words.view(f32).reshape(16, 16)[:, :8], source[4:, 32:])
    assert not words.view(f32).reshape(16, 16)[:, 8:].any()


def test_sectors_are_counted_by_rows(rng):
    source = np.zeros((64, 64), f32)
    _, _, trace = copy_tile(source, (8, 8), (0, 4))  # 32 bytes of each row, over the border of two sectors
    assert trace.totals["tma_load_sectors"] == trace.totals["tma_store_sectors"] == 16


@pytest.mark.parametrize(
    ("array", "box", "settings", "message"),
    [
        (np.zeros((8, 8), f32), (8,), {}, "box has 1 entries, the array has 2 axes"),
        (np.zeros((8, 8), f32), (8, 257), {}, "its entries are 1 to 256"),
        (np.zeros((8, 8), f32), (8, 2), {}, "a row of the box has 8 bytes, it must be a multiple of 16"),
        (np.zeros((8, 8), f32), (8, 8), {"swizzle": 64}, "with swizzle=64 it must have 64"),
        (np.zeros((8, 8), f32), (8, 8), {"swizzle": 16}, "swizzle is 16, it must be one of"),
        (np.zeros((8, 3), f32), (8, 4), {}, r"strides are \(12,\) bytes, each must be a multiple of 16"),
        (np.zeros((8, 8), f32).T, (8, 8), {}, "the last axis has a stride of 32 bytes"),
        (np.zeros((8, 8), f32), (8, 8), {"element_strides": (1, 2)}, "the last entry must be 1"),
        (np.zeros((1,) * 6, f32), (1,) * 6, {}, "the array has 6 axes, a map has 1 to 5"),
        (np.zeros((8, 8), bool), (8, 8), {}, "elements are bool"),
        (np.zeros((0, 8), f32), (8, 8), {}, "a map needs elements"),
    ],
)
def test_what_the_hardware_does_not_take(array, box, settings, message):
    with pytest.raises(SpecError, match=f"TensorMap: .*{message}"):
        TensorMap(array, box, **settings)


def test_what_is_no_array():
    with pytest.raises(ArgumentError, match="TensorMap: array is a list; pass a NumPy or CuPy array"):
        TensorMap([1, 2], (1,))


def test_the_encoding_fills_the_parameter():
    tensor_map = TensorMap(np.zeros((3, 4, 5, 6, 8), f32), (1, 2, 3, 4, 8), 32, (1, 2, 1, 2, 1))
    raw = tensor_map.encode(1 << 33)
    assert len(raw) == NBYTES
    assert decode(raw) == tensor_map.tiling(1 << 33)
    assert decode(bytes(NBYTES)) is None
    with pytest.raises(SpecError, match="begins at address 0x8, which is no multiple of 16"):
        tensor_map.encode(8)


SCALAR = 'extern "C" __global__ void scalar(int n) {}'


def test_a_map_for_another_parameter():
    with pytest.raises(
        ArgumentError, match=r"scalar: n is `int`, got a TensorMap; declare it as `const __grid_c"
    ):
        kl.trace(SCALAR, "scalar", 1, 1, (TensorMap(np.zeros((8, 8), f32), (8, 8)),))


def test_bytes_that_are_no_map(rng):
    raw = np.zeros(1, np.dtype([("x", "u8", 16)]))[0]
    with pytest.raises(ExecutionError, match="these 128 bytes are no tensor map"):
        kernels(copier(2))("copy_tile", 1, 64, raw, raw, np.zeros(4, np.uint32), np.zeros(2, np.int32), 16)  # fmt: skip


def test_a_map_of_another_rank(rng):
    tensor_map = TensorMap(np.zeros((8, 8), f32), (8, 8))
    with pytest.raises(ExecutionError, match="the tensor map has 2 axes, the instruction 3"):
        kernels(copier(3))("copy_tile", 1, 64, tensor_map, tensor_map, np.zeros(64, np.uint32),
                           np.zeros(3, np.int32), 256)  # fmt: skip


def test_a_read_only_target(rng):
    target = np.zeros((8, 8), f32)
    target.flags.writeable = False
    maps = TensorMap(np.ones((8, 8), f32), (8, 8)), TensorMap(target, (8, 8))
    with pytest.raises(ExecutionError, match=r"read-only global store: to .* is read-only"):
        kernels(copier(2))("copy_tile", 1, 64, *maps, np.zeros(64, np.uint32), np.zeros(2, np.int32), 256)  # fmt: skip


@pytest.mark.parametrize(
    "opcode",
    [
        "cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes",
        "cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes",
        "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group",
        "cp.async.bulk.global.shared::cta.bulk_group.cp_mask",
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2",
    ],
)
def test_other_forms_are_not_taken_for_plain_copies(opcode):
    binder = SimpleNamespace(code=SimpleNamespace(first=0))
    with pytest.raises(UnsupportedPTXError, match=f"{opcode} is not known to the emulator"):
        bind_bulk(binder, Instruction(0, 1, opcode, (), None, 0, 0))
