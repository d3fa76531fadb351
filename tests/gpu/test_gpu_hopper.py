"""What the emulator says of Hopper, on Hopper: mbarriers, bulk copies, swizzles, descriptors, clusters."""

from __future__ import annotations

import hopper_calls
import ml_dtypes
import numpy as np
import pytest

f32, i32 = np.float32, np.int32


@pytest.fixture(autouse=True)
def on_hopper(monkeypatch, cupy):
    if cupy.cuda.Device().compute_capability != "90":
        pytest.skip("wgmma and setmaxnreg as of sm_90a are Hopper's only")
    hopper_calls.install(monkeypatch, cupy)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.mark.parametrize("mode", [0, 32, 64, 128])
@pytest.mark.parametrize("turned", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_descriptors_of_every_layout(rng, mode, turned):
    from test_wgmma import test_every_layout_of_half_precision

    test_every_layout_of_half_precision(rng, mode, turned)


@pytest.mark.parametrize(
    ("kinds", "dtype"),
    [("f32.e4m3.e5m2", ml_dtypes.float8_e4m3fn), ("f32.tf32.tf32", np.float32), ("s32.s8.u8", np.int8)],
)
def test_other_types(rng, kinds, dtype):
    from test_wgmma import test_other_types

    test_other_types(rng, kinds, dtype)


def test_accumulators_of_half_precision_and_scales(rng):
    from test_wgmma import test_accumulators_of_half_precision, test_scales

    test_accumulators_of_half_precision(rng)
    test_scales(rng)


@pytest.mark.parametrize("turned", [0, 1])
def test_the_left_operand_in_registers(rng, turned):
    from test_wgmma import test_the_left_operand_in_registers

    test_the_left_operand_in_registers(rng, turned)


@pytest.mark.parametrize("swizzle", [32, 64, 128])
@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.int32, np.float64])
def test_swizzles(rng, swizzle, dtype):
    from test_tensor_map import test_swizzles

    test_swizzles(rng, swizzle, dtype)


@pytest.mark.parametrize(
    ("shape", "box", "corner", "steps"),
    [
        ((100,), (64,), (52,), None),
        ((40, 48), (16, 32), (-3, 40), None),
        ((40, 48), (17, 32), (30, -20), (2, 1)),
        ((5, 12, 20), (3, 4, 8), (3, -1, 16), None),
        ((3, 2, 4, 5, 8), (2, 2, 3, 3, 4), (-1, 1, 2, 3, 4), (1, 1, 3, 2, 1)),
    ],
)
def test_tiles(rng, shape, box, corner, steps):
    from test_tensor_map import copy_tile, expected_tile

    source = rng.standard_normal(shape).astype(f32)
    found, target, _ = copy_tile(source, box, corner, steps=steps)
    tile, stored = expected_tile(source, box, corner, steps)
    np.testing.assert_array_equal(found.reshape(tile.shape), tile)
    np.testing.assert_array_equal(target, stored)


def test_phases_of_an_mbarrier():
    from test_mbarrier import test_phases_counts_and_states

    test_phases_counts_and_states()


def test_a_ring_named_barriers_and_bulk_copies(rng):
    from test_mbarrier import doubled, test_a_ring_of_two_buffers, test_barriers_that_some_only_arrive_at

    test_a_ring_of_two_buffers(None)
    test_barriers_that_some_only_arrive_at()
    x = rng.standard_normal((5, 200)).astype(f32)
    y, _ = doubled(x)
    np.testing.assert_array_equal(y, 2 * x)


def test_clusters(rng):
    import test_clusters

    test_clusters.test_blocks_read_the_memory_of_their_cluster(rng)
    test_clusters.test_remote_stores_reductions_and_arrivals(rng)


def test_multicast(rng):
    from test_clusters import KERNELS

    from kernellab.tensor_map import TensorMap

    x = rng.standard_normal((16, 24)).astype(f32)
    y = np.zeros((6, 16, 8), f32)
    KERNELS("spread", 6, 32, TensorMap(x, (8, 8)), y, np.uint16(3))
    for block in range(6):
        np.testing.assert_array_equal(y[block], x[:, block // 2 * 8 :][:, :8])


@pytest.mark.parametrize(("m", "n", "k", "grid"), [(256, 192, 256, 2), (200, 104, 328, 3), (64, 8, 8, 1)])
def test_a_persistent_matmul(rng, m, n, k, grid):
    from test_hopper_matmul import matmul

    c, expected, _ = matmul(rng, m, n, k, grid)
    np.testing.assert_array_equal(c, expected)


def test_a_matmul_in_clusters(rng):
    from test_hopper_matmul import matmul_in_clusters

    y, expected, _ = matmul_in_clusters(rng, 256, 128, 320)
    np.testing.assert_array_equal(y, expected)


def test_wide_matrices_with_n_contiguous(rng):
    from test_wgmma import test_several_atoms_of_a_swizzle

    test_several_atoms_of_a_swizzle(rng)


def test_a_wrong_swizzle(rng):
    from test_hopper_matmul import matmul

    c, expected, _ = matmul(rng, 128, 64, 64, 1, swizzle=2)
    assert (c != expected).mean() > 0.5
