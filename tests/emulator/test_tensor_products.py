"""``mma.sync`` of every shape against NumPy; fragments as the PTX ISA numbers their elements."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from launching import Kernels

from kernellab.emulator.fragments import fragment
from kernellab.emulator.tensor_arithmetic import multiply
from kernellab.emulator.tensor_operations import product_shape
from kernellab.errors import UnsupportedPTXError

PRODUCTS = Kernels.of("tensor.cu")
BF16 = ml_dtypes.bfloat16
E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
f16, f32, f64, i32 = np.float16, np.float32, np.float64, np.int32
SHAPES = [
    ("m16n8k16_f16", f16, f32),
    ("m16n8k16_bf16", BF16, f32),
    ("m16n8k8_f16", f16, f32),
    ("m16n8k8_bf16", BF16, f32),
    ("m16n8k16_f16_f16", f16, f16),
    ("m16n8k8_f16_f16", f16, f16),
    ("m16n8k4_tf32", f32, f32),
    ("m16n8k8_tf32", f32, f32),
    ("m8n8k4_f64", f64, f64),
    ("m16n8k4_f64", f64, f64),
    ("m16n8k8_f64", f64, f64),
    ("m16n8k32_s8", np.int8, i32),
    ("m16n8k32_u8", np.uint8, i32),
    ("m16n8k16_s8", np.int8, i32),
    ("m8n8k16_s8", np.int8, i32),
    ("m16n8k32_e4m3", E4M3, f32),
    ("m16n8k32_e5m2", E5M2, f32),
]


def size_of(name):
    m, k = name[1:].split("n8k")
    return int(m), 8, int(k.split("_")[0])


def asymmetric(m, n, dtype):
    """A[i, j] = 100 i + j where the dtype holds that exactly, else small numbers; no symmetry either way."""
    i, j = np.arange(m)[:, None], np.arange(n)[None, :]
    if dtype in (f16, f32, f64):
        return (100 * i + j).astype(dtype)
    return ((7 * i + 3 * j + i * j) % 13 - (0 if dtype == np.uint8 else 6)).astype(dtype)


def bits(x):
    kind = {2: np.uint16, 1: np.uint8}.get(x.itemsize)
    if x.dtype == f32:
        return x.view(np.uint32)
    return x if kind is None or x.dtype in (np.int8,) else x.view(kind)


def run(kernels, name, a, b, c, wide):
    d = np.zeros_like(c)
    stored = d.view(np.uint16) if wide == f16 else d
    given = c.view(np.uint16) if wide == f16 else c
    trace = kernels(name, 1, 32, bits(a), bits(b), given, stored)
    return d, trace


@pytest.mark.parametrize(("name", "narrow", "wide"), SHAPES)
def test_a_product_of_asymmetric_matrices_is_exact(name, narrow, wide):
    m, n, k = size_of(name)
    a, b = asymmetric(m, k, narrow), asymmetric(n, k, np.int8).T.astype(narrow)
    c = asymmetric(m, n, np.int8).astype(wide)
    d, trace = run(PRODUCTS, name, a, np.ascontiguousarray(b), c, wide)
    expected = a.astype(f64) @ b.astype(f64) + c.astype(f64)
    np.testing.assert_array_equal(d, expected.astype(wide))
    assert trace.totals["tensor_flops"] == 2 * m * n * k
    assert trace.totals["tensor_instructions"] == 1
    assert trace.diagnostics == ()


@pytest.mark.parametrize(("name", "narrow", "wide"), [case for case in SHAPES if "m8n8k4" not in case[0]])
def test_two_elements_of_a_fragment_exchanged_give_another_product(name, narrow, wide):
    swapped = Kernels(PRODUCTS.text, options=("-DSWAP(i)=((i) < 2 ? 1 - (i) : (i))",))
    m, n, k = size_of(name)
    a, b = asymmetric(m, k, narrow), asymmetric(n, k, np.int8).T.astype(narrow)
    c = np.zeros((m, n), wide)
    d, _ = run(swapped, name, a, np.ascontiguousarray(b), c, wide)
    assert (d != (a.astype(f64) @ b.astype(f64)).astype(wide)).any()


@pytest.mark.parametrize(("name", "narrow", "wide"), SHAPES[:8])
def test_random_floats_are_rounded_once(rng, name, narrow, wide):
    m, n, k = size_of(name)
    a, b = rng.standard_normal((m, k)).astype(narrow), rng.standard_normal((k, n)).astype(narrow)
    c = rng.standard_normal((m, n)).astype(wide)
    d, _ = run(PRODUCTS, name, a, b, c, wide)
    if "tf32" in name:
        a, b = ((x.view(np.uint32) & 0xFFFFE000).view(f32) for x in (a, b))
    np.testing.assert_array_equal(d, (a.astype(f64) @ b.astype(f64) + c.astype(f64)).astype(wide))


def test_integers_wrap_or_saturate():
    a, b = np.full((16, 32), 127, np.int8), np.full((32, 8), 127, np.int8)
    c = np.full((16, 8), 2**31 - 5, i32)
    d, _ = run(PRODUCTS, "m16n8k32_s8", a, b, c, i32)
    np.testing.assert_array_equal(d, 2**31 - 5 + 32 * 127 * 127 - 2**32)
    d, _ = run(PRODUCTS, "m16n8k32_s8_saturated", a, b, c, i32)
    np.testing.assert_array_equal(d, 2**31 - 1)


def test_infinities_and_nans_pass_through():
    a, b, c = np.ones((16, 16), f16), np.ones((16, 8), f16), np.zeros((16, 8), f32)
    a[3, 2], a[5, 4], b[7, 6] = np.inf, np.nan, -np.inf
    d, _ = run(PRODUCTS, "m16n8k16_f16", a, b, c, f32)
    with np.errstate(invalid="ignore"):
        expected = a.astype(f64) @ b.astype(f64)
    np.testing.assert_array_equal(d, expected.astype(f32))


def test_the_order_of_a_sum_does_not_show():
    """2**24 + 1 - 2**24 is 1: products are not rounded before they are added."""
    a, b = np.zeros((1, 1, 16), f16), np.ones((1, 16, 1), f16)
    a[0, 0, :3] = 4096, 1, -4096
    b[0, (0, 2), 0] = 4096
    found = multiply(
        a.view(np.uint16), b.view(np.uint16), np.zeros((1, 1, 1), np.uint32), ("f32", "f16", "f16", "f32")
    )
    assert found.view(f32)[0, 0, 0] == 1


def test_every_fragment_covers_its_matrix_and_turns_back(rng):
    for role in "abc":
        for m, n, k, kind in [
            (16, 8, 16, "f16"),
            (16, 16, 8, "tf32"),
            (8, 32, 16, "s8"),
            (32, 8, 16, "bf16"),
        ]:
            held = fragment(role, m, n, k, "f32" if role == "c" else kind)
            assert set(zip(held.rows.flat, held.columns.flat, strict=True)) == set(np.ndindex(held.shape))
            words = rng.integers(0, 2**32, (3, held.registers, 32), dtype=np.uint32)
            np.testing.assert_array_equal(held.words(held.matrix(words)), words)


@pytest.mark.parametrize(
    "opcode",
    [
        "mma.sync.aligned.m16n8k16.col.col.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc",
        "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e4m3.f32",
    ],
)
def test_a_form_that_is_not_known_is_refused(opcode):
    with pytest.raises(UnsupportedPTXError, match="the emulator"):
        product_shape(opcode)


def test_a_shape_of_other_tiles_is_refused():
    with pytest.raises(UnsupportedPTXError, match="does not know this shape"):
        fragment("a", 8, 8, 4, "f16")


@pytest.mark.parametrize(
    ("opcode", "instructions", "flops"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 1, 2 * 16 * 8 * 16),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16", 2, 2 * 16**3),
        ("wmma.mma.sync.aligned.row.row.m16n16k8.f32.tf32.tf32.f32", 4, 2 * 16 * 16 * 8),
        ("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16", 1, 2 * 16 * 256 * 16),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16", None, None),
        ("wgmma.fence.sync.aligned", None, None),
    ],
)
def test_what_a_warp_multiplies(opcode, instructions, flops):
    found = product_shape(opcode)
    assert (found and found.instructions, found and found.flops) == (instructions, flops)
