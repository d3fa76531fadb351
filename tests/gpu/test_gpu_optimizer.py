"""adamw, norms and GradScaler on a GPU: many arrays by one table, in place, without waiting."""

from __future__ import annotations

import numpy as np
import pytest

import kernellab as kl

LENGTHS = [(7 * k) % 300 for k in range(600)]
"""More arrays than a table holds, some empty."""


def lists(cupy, dtype="float16", lengths=LENGTHS):
    rng = np.random.default_rng(0)
    host = [
        [rng.standard_normal(n).astype(kind) for n in lengths]
        for kind in ("float32", dtype, "float32", "float32")
    ]
    host[3] = [np.square(each) for each in host[3]]
    return host, [[cupy.asarray(each) for each in arrays] for arrays in host]


def stepped(p, g, m, v, factor, step):
    p, g, m, v = (each.astype(np.float64) for each in (p, g, m, v))
    g = g * factor
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    below = np.sqrt(v / (1 - 0.999**step)) + 1e-8
    return p - 1e-3 * 1e-2 * p - 1e-3 * m / (1 - 0.9**step) / below


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_cycle_over_many_arrays(cupy, device, dtype):
    host, arrays = lists(cupy, dtype)
    halves = [cupy.empty(n, "float16") for n in LENGTHS]
    scaler = kl.GradScaler(init_scale=4.0, growth_interval=1)
    for step in (1, 2):  # the second by a plan that was kept
        scaler.unscale_(arrays[1])
        assert scaler.step(kl.adamw, *arrays, step=step, out=halves) is halves
        scaler.update()
        factor = 1 / 4 if step == 1 else 1 / 32  # the gradients were unscaled in place
        for k, each in enumerate(zip(*host, strict=True)):
            expected = stepped(*each, factor, step)
            np.testing.assert_allclose(arrays[0][k].get(), expected, rtol=1e-5, atol=1e-6)
            assert np.array_equal(halves[k].get(), arrays[0][k].get().astype("float16"))
        host = [[each.get() for each in row] for row in arrays]
        host[1] = lists(cupy, dtype)[0][1]
    assert scaler.get_scale() == 16


def test_a_skipped_step_changes_not_one_bit(cupy, device):
    _, arrays = lists(cupy)
    arrays[1][-1][0] = cupy.inf
    scaler = kl.GradScaler()
    scaler.unscale_(arrays[1])
    before = [[each.get().tobytes() for each in arrays[row]] for row in (0, 2, 3)]
    scaler.step(kl.adamw, *arrays, step=1)
    assert [[each.get().tobytes() for each in arrays[row]] for row in (0, 2, 3)] == before
    scaler.update()
    assert (scaler.get_scale(), scaler.skipped().get().tolist()) == (32768, [1])


def test_nothing_waits(cupy, device, spin):
    _, arrays = lists(cupy, lengths=[1000, 10])
    scaler = kl.GradScaler()

    def cycle(step):
        norm = kl.grad_norm(arrays[1])
        scaler.unscale_(arrays[1])
        scaler.step(kl.adamw, *arrays, step=step, norm=norm, max_norm=1.0)
        scaler.update()

    cycle(1)
    cupy.cuda.get_current_stream().synchronize()
    start, stop = cupy.cuda.Event(disable_timing=True), cupy.cuda.Event(disable_timing=True)
    start.record()
    spin(0.5)
    cycle(2)
    stop.record()
    assert not stop.done
    stop.synchronize()


def test_norms_are_the_same_bits_in_every_run(cupy, device):
    host, arrays = lists(cupy)
    total = np.sqrt(sum(float(np.square(each.astype(np.float64)).sum()) for each in host[1]))
    norms = {kl.grad_norm(arrays[1]).get().tobytes() for _ in range(5)}
    assert len(norms) == 1
    np.testing.assert_allclose(kl.grad_norm(arrays[1]).get(), [total], rtol=1e-5)
    kl.clip_grad_norm(arrays[1], 1.0)
    np.testing.assert_allclose(kl.grad_norm(arrays[1]).get(), [1.0], rtol=1e-3)


def test_numba_launches_for_each_array(cupy, device):
    host, arrays = lists(cupy, lengths=[1030, 5, 0])
    kl.adamw(*arrays, step=3, language="numba")
    for k, each in enumerate(zip(*host, strict=True)):
        np.testing.assert_allclose(arrays[0][k].get(), stepped(*each, 1.0, 3), rtol=1e-5, atol=1e-6)


def test_numpy_arrays_are_changed_too(device):
    param, grad = np.ones(100, "float32"), np.ones(100, "float16")
    half = np.zeros(100, "float16")
    kl.adamw(
        param,
        grad,
        np.zeros(100, "float32"),
        np.zeros(100, "float32"),
        step=1,
        lr=0.5,
        weight_decay=0,
        out=half,
    )
    np.testing.assert_allclose(param, 0.5, rtol=1e-5)
    assert (half == np.float16(0.5)).all()
