"""The clock against spin kernels of known length, cold against hot, and what it does with work that waits."""

from __future__ import annotations

import time

import numpy as np
import pytest

import kernellab as kl
from kernellab.instruments.clock import UNGATED, Rule


@pytest.mark.parametrize("seconds", [20e-6, 100e-6, 1e-3, 5e-3])
@pytest.mark.parametrize("mode", ["cold", "hot"])
def test_a_spin_of_known_length(spin, seconds, mode):
    found = kl.benchmark(lambda: spin(seconds), mode=mode)
    # The global timer moves in steps of 32 ns at best and 1 us at worst.
    assert found.seconds == pytest.approx(seconds, rel=0.02, abs=2e-6)


def test_a_spin_in_a_graph(spin):
    assert kl.benchmark(lambda: spin(1e-4), mode="graph").seconds == pytest.approx(1e-4, rel=0.05)


def test_launch_latency_is_outside(cupy):
    kernel = cupy.RawKernel('extern "C" __global__ void nothing() {}', "nothing")
    found = kl.benchmark(lambda: kernel((1,), (1,), ()))
    assert found.seconds < 4e-6
    assert 1e-6 < found.host_seconds < 1e-3


def test_a_copy_is_not_faster_than_memory(cupy, device):
    x = cupy.zeros(2**27, np.float32)
    y = cupy.empty_like(x)
    found = kl.benchmark(lambda a, b: cupy.copyto(b, a), x, y, nbytes=2 * x.nbytes)
    assert 0.9 < found.fraction_of_copy < 1.05
    assert found.bytes_per_second < 1e13


def test_a_false_number_of_bytes_is_an_error(cupy, spin):
    with pytest.raises(kl.ExecutionError, match="which memory cannot"):
        kl.benchmark(lambda: spin(1e-5), nbytes=2**31)


def test_hot_is_at_least_as_fast_as_cold(cupy):
    x = cupy.zeros(2**20, np.float32)  # 4 MiB read, 4 MiB written: the L2 holds both
    y = cupy.empty_like(x)
    cold, hot = (
        kl.benchmark(lambda a, b: cupy.copyto(b, a), x, y, nbytes=2 * x.nbytes, mode=mode)
        for mode in ("cold", "hot")
    )
    assert hot.seconds <= 1.02 * cold.seconds
    assert (cold.mode, hot.mode) == ("cold", "hot")


def test_work_that_waits_is_timed_and_labelled(cupy, spin):
    def waiting():
        spin(1e-3)
        cupy.cuda.get_current_stream().synchronize()

    start = time.perf_counter()
    found = kl.benchmark(waiting, rule=Rule(budget=0.2))
    assert time.perf_counter() - start < 10
    assert any(UNGATED in note for note in found.notes)
    assert found.seconds >= 0.98e-3


def test_first_use_of_a_kernel_in_the_timed_path_does_not_hang(cupy):
    name = f"fresh_{time.time_ns()}"
    kernel = cupy.RawKernel(f'extern "C" __global__ void {name}(float* y) {{ y[threadIdx.x] = 1; }}', name)
    y = cupy.empty(32, np.float32)
    start = time.perf_counter()
    kl.benchmark(lambda: kernel((1,), (32,), (y,)), rule=Rule(budget=0.1))
    assert time.perf_counter() - start < 10


def test_noise_ends_within_the_budget(spin):
    generator = np.random.default_rng(0)
    start = time.perf_counter()
    kl.benchmark(lambda: spin(float(generator.uniform(1e-5, 1e-3))), rule=Rule(budget=0.5))
    assert time.perf_counter() - start < 10


def test_the_clock_of_the_multiprocessors_is_recorded(spin):
    timing = kl.benchmark(lambda: spin(1e-3)).timing
    if timing.clock_hz:  # where NVML is
        assert all(1e8 < clock < 5e9 for clock in timing.clock_hz)


def test_a_non_default_stream(cupy, spin):
    with cupy.cuda.Stream(non_blocking=True):
        assert kl.benchmark(lambda: spin(1e-4)).seconds == pytest.approx(1e-4, rel=0.03, abs=2e-6)


@pytest.mark.gpu(count=2)
def test_on_the_second_device(cupy):
    with cupy.cuda.Device(1):
        device = kl.device("gpu")
        assert kl.benchmark(lambda: device.stopwatch().spin(1e-4)).seconds == pytest.approx(
            1e-4, rel=0.03, abs=2e-6
        )
