"""Blocks that cooperate, as people write them, against NumPy; and what a launch refuses."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from launching import Kernels, integers

from kernellab.emulator import program
from kernellab.emulator.launch import Launch
from kernellab.errors import ExecutionError, SpecError, UnsupportedPTXError

BLOCKS = Kernels.of("blocks.cu")
GROUPS = Kernels.of("groups.cu")
f32, i32, u32 = np.float32, np.int32, np.uint32


def test_tiled_matrix_product(rng):
    a, b = rng.standard_normal((40, 50)).astype(f32), rng.standard_normal((50, 35)).astype(f32)
    c = np.zeros((40, 35), f32)
    BLOCKS("matmul", (3, 3), (16, 16), a, b, c, 40, 35, 50)
    np.testing.assert_allclose(c, a @ b, atol=1e-4)


def test_sum_in_shared_memory(rng):
    x, y = integers(rng, -100, 100, 5000), np.zeros(1, i32)
    BLOCKS("sum_shared", 4, 128, x, y, 5000, shared_mem=512)
    assert y[0] == x.sum()


def test_sum_by_shuffles_with_a_partial_block(rng):
    x, y = integers(rng, -100, 100, 5000, f32), np.zeros(4, f32)
    BLOCKS("sum_shuffle", 4, 96, x, y, 5000)
    assert y.sum() == x.sum()


def test_last_warp_of_a_sum_with_volatile(rng):
    x, y = integers(rng, -100, 100, 1024), np.zeros(4, i32)
    BLOCKS("sum_volatile", 4, 128, x, y)
    np.testing.assert_array_equal(y, x.reshape(4, 256).sum(1))


def test_cooperative_groups(rng):
    x, y, parts = integers(rng, 0, 100, 1000), np.zeros(4, i32), np.zeros(250, i32)
    GROUPS("sum_groups", 4, 256, x, y, parts, 1000)
    assert y.sum() == x.sum()
    np.testing.assert_array_equal(parts, x.reshape(-1, 4).max(1))


def test_layernorm_on_tiles(rng):
    x, gamma = rng.standard_normal((3, 256)).astype(f32), rng.standard_normal(256).astype(f32)
    y = np.zeros_like(x)
    GROUPS("layernorm", 3, 32, x, y, gamma, 64, 1e-5)
    expected = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * gamma
    np.testing.assert_allclose(y, expected, atol=1e-5)


def test_compaction_with_coalesced_threads(rng):
    x, y, count = integers(rng, -100, 100, 1000), np.zeros(1000, i32), np.zeros(1, i32)
    GROUPS("compact", 4, 256, x, y, count, 1000)
    np.testing.assert_array_equal(np.sort(y[: count[0]]), np.sort(x[x > 0]))


def test_compaction_by_ballot(rng):
    x, y, count = integers(rng, -100, 100, 1000), np.zeros(1000, i32), np.zeros(1, i32)
    BLOCKS("compact_by_hand", 4, 256, x, y, count, 1000)
    np.testing.assert_array_equal(np.sort(y[: count[0]]), np.sort(x[x % 3 == 0]))


def test_scans_of_a_block(rng):
    x, y = integers(rng, -100, 100, 200), np.zeros(200, i32)
    BLOCKS("scan_hillis", 1, 256, x, y, 200, shared_mem=2048)
    np.testing.assert_array_equal(y, x.cumsum())
    x, y = integers(rng, -100, 100, 256), np.zeros(256, i32)
    BLOCKS("scan_blelloch", 1, 128, x, y, 256, shared_mem=1024)
    np.testing.assert_array_equal(y, x.cumsum() - x)


def test_scan_by_looking_back_at_earlier_blocks(rng):
    n = 128 * 150 - 5  # several batches
    x, y = integers(rng, -100, 100, n), np.zeros(n, i32)
    BLOCKS("scan_lookback", 150, 128, x, y, np.zeros(150, np.uint64), np.zeros(1, u32), n)
    np.testing.assert_array_equal(y, x.cumsum())


def test_histogram(rng):
    x, bins = integers(rng, 0, 256, 5000, np.uint8), np.zeros(256, i32)
    BLOCKS("histogram", 5, 128, x, bins, 5000)
    np.testing.assert_array_equal(bins, np.bincount(x, minlength=256))


def test_bitonic_sort(rng):
    x = integers(rng, -1000, 1000, 512)
    expected = np.sort(x.reshape(2, 256), 1).ravel()
    BLOCKS("bitonic", 2, 256, x, shared_mem=1024)
    np.testing.assert_array_equal(x, expected)


def test_radix_passes_are_stable(rng):
    x = integers(rng, 0, 2**32, 256, u32)
    a, b = x.copy(), x.copy()
    for shift in range(4):
        BLOCKS("radix_pass", 1, 256, a, b, shift)
        a, b = b, a
    np.testing.assert_array_equal(a, x[np.argsort(x & 15, kind="stable")])


def test_convolution_with_constant_weights(rng):
    x, weights, y = (
        rng.standard_normal(500).astype(f32),
        rng.standard_normal(5).astype(f32),
        np.zeros(500, f32),
    )
    BLOCKS("convolve", 4, 128, x, y, 500, variables={"weights": weights})
    np.testing.assert_allclose(y, np.convolve(x, weights[::-1], "same"), atol=1e-5)


def test_softmax(rng):
    x = rng.standard_normal((3, 300)).astype(f32)
    y = np.zeros_like(x)
    BLOCKS("softmax", 3, 128, x, y, 300)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5)


def test_barriers_that_vote():
    x, y = np.ones(70, i32), np.zeros(70, i32)
    x[5] = 0
    BLOCKS("votes", 1, 70, x, y)
    assert set(y) == {69 * 4 + 1}


def test_threads_that_return_before_a_barrier_are_not_waited_for():
    x, y = np.ones(100, i32), np.zeros(100, i32)
    trace = BLOCKS("early_return", 2, 64, x, y, 100)
    assert set(y[:64]) == {64}
    assert set(y[64:]) == {36}
    assert trace.diagnostics == ()


def test_producers_and_consumers(rng):
    x, y = integers(rng, 0, 100, 640), np.zeros(64, i32)
    BLOCKS("producer_consumer", 1, 128, x, y, 10)
    np.testing.assert_array_equal(y, 2 * x.reshape(10, 64).sum(0)[::-1])


def test_named_barriers_of_pairs_of_warps():
    y = np.zeros(256, i32)
    BLOCKS("named_pairs", 1, 256, y)
    np.testing.assert_array_equal(y, np.arange(256).reshape(4, 64)[:, ::-1].ravel())


def test_dynamic_shared_memory_carved_by_hand():
    n = 64
    y = np.zeros(n, f32)
    BLOCKS("several_arrays", 1, n, y, n, shared_mem=n * 14)
    other = np.arange(n)[::-1]
    np.testing.assert_array_equal(y, other + 0.5 + 2 * other - other)


def test_bodies_that_attract_each_other(rng):
    body = rng.standard_normal((128, 4)).astype(f32)
    force = np.zeros_like(body)
    BLOCKS("nbody", 2, 64, body, force, 128)
    apart = (body[None, :, :3] - body[:, None, :3]).astype(float)
    weight = body[None, :, 3] / ((apart**2).sum(-1) + 0.01) ** 1.5
    np.testing.assert_allclose(force[:, :3], (apart * weight[..., None]).sum(1), rtol=2e-3, atol=1e-3)


def test_the_last_block_adds_up(rng):
    x, y = integers(rng, 0, 9, 1000, f32), np.zeros(1, f32)
    BLOCKS("last_block", 16, 64, x, np.zeros(16, f32), y, np.zeros(1, u32), 1000)
    assert y[0] == x.sum()


@pytest.mark.parametrize("blocks", [4, 300])  # in one batch, and in several
def test_a_barrier_of_the_grid(blocks):
    n = blocks * 64
    x = np.zeros(2 * n, i32)
    x[:n] = np.arange(n)
    BLOCKS("grid_barrier", blocks, 64, x, np.zeros(1, i32))
    np.testing.assert_array_equal(x[n:], (np.arange(n) + 3) % n + 3)


def test_more_blocks_than_a_gpu_holds_cannot_wait_for_each_other():
    n = 4500 * 64
    with pytest.raises(ExecutionError, match="loop in which nothing changes"):
        BLOCKS("grid_barrier", 4500, 64, np.zeros(2 * n, i32), np.zeros(1, i32))


# -- what a launch refuses
def test_too_much_shared_memory():
    with pytest.raises(SpecError, match=r"a block has 300000 bytes of shared memory, the limit is 232448"):
        BLOCKS("bitonic", 1, 32, np.zeros(32, i32), shared_mem=300000)


def test_an_instruction_that_is_not_known_is_named_with_its_line():
    text = """extern "C" __global__ void f(unsigned* y) {
        asm volatile("multimem.red.relaxed.sys.global.add.u32 [%0], 1;" :: "l"(y));
    }"""
    with pytest.raises(UnsupportedPTXError, match=r"cannot execute `multimem\.red.*source\.cu:2"):
        Kernels(text)("f", 1, 1, np.zeros(1, u32))


def test_the_grid_of_cooperative_groups():
    n = 150 * 64
    x = np.zeros(2 * n, i32)
    x[:n] = np.arange(n)
    GROUPS("rounds", 150, 64, x, n)
    np.testing.assert_array_equal(x[n:], (np.arange(n) + 3) % n + 3)


def test_a_warning_does_not_hide_an_error_of_its_kind():
    place = SimpleNamespace(file=0, line=1, source_line=1)
    launch = SimpleNamespace(
        seen={},
        diagnostics=[],
        name="k",
        where=str,
        module=SimpleNamespace(files={}),
        _positions=[(None, place)],
    )
    for is_error in (False, True, True):
        Launch.complain(launch, 0, "in flight", "what", (0, 0, 0), (0, 0, 0), 1, is_error)
    assert [(each.is_error, each.count) for each in launch.diagnostics] == [(False, 1), (True, 2)]


def test_a_launch_that_is_repeated_is_bound_once_and_another_anew(rng, monkeypatch):
    bound = []
    bind = program.bind_program
    monkeypatch.setattr(program, "bind_program", lambda *given: bound.append(1) or bind(*given))
    monkeypatch.setattr(program, "_bound", {})
    for n in (5000, 5000, 3000, 5000):
        x, y = integers(rng, -100, 100, 5000), np.zeros(1, i32)
        BLOCKS("sum_shared", 4, 128, x, y, n, shared_mem=512)
        assert y[0] == x[:n].sum()
    assert len(bound) == 2
