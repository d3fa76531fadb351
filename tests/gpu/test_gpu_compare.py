"""compare on a GPU: a kernel with itself is equal, a twin that does more is slower, launch cost is apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import kernellab as kl
from kernellab import catalog
from kernellab.instruments.clock import is_slower


def test_languages_side_by_side(device):
    found = kl.compare("transpose/padded", device="gpu")
    assert found.is_right
    assert found.has_equal_outputs
    assert found.speed
    cuda_c, numba = found.launch_seconds
    assert 0 < cuda_c < numba < 1e-3
    rows = {row.name: row for row in found.rows}
    for name in ("seconds_cold", "bytes_per_second", "registers", "ptx_instructions", "seconds_launch"):
        assert all(value > 0 for value in rows[name].values)


def test_launch_cost_hides_small_kernels_and_stands_apart(device):
    x = np.zeros(1024, np.float32)
    small = kl.compare("copy/scalar", x, device="gpu")
    large = kl.compare("copy/scalar", np.zeros(2**24, np.float32), device="gpu")
    assert min(small.launch_seconds) > small.records[0].value("seconds_cold") / 10
    assert max(large.launch_seconds) < large.records[0].value("seconds_cold") * 10
    for first, second in zip(small.launch_seconds, large.launch_seconds, strict=True):
        assert first == pytest.approx(second, rel=1.0)


def peers(cupy, seconds, slowdown):
    stopwatch = kl.device("gpu").stopwatch()
    return kl.benchmark(
        {"a": lambda: stopwatch.spin(seconds), "b": lambda: stopwatch.spin(seconds * slowdown)}
    )


def test_a_kernel_against_itself_is_equal_ten_times(cupy, device):
    equal = 0
    for _ in range(10):
        found = peers(cupy, 1e-4, 1.0)
        equal += is_slower(found["a"].samples, found["b"].samples) == 1.0
    assert equal == 10


def test_five_per_cent_are_seen_nine_times_of_ten(cupy, device):
    slower = 0
    for _ in range(10):
        found = peers(cupy, 1e-4, 1.05)
        slower += is_slower(found["a"].samples, found["b"].samples) > 1.02
    assert slower >= 9


def test_a_twin_that_does_twice_the_work_is_slower(device):
    def factory(element):
        from numba import cuda

        def copy_scalar(x, y):
            i = cuda.grid(1)
            if i < x.size:
                y[i] = x[(i + x.size // 2) % x.size]
                cuda.threadfence()
                y[i] = x[i]

        return copy_scalar

    kernel = replace(catalog.kernel("copy/scalar"), twin=factory)
    found = kl.compare(kernel, np.zeros(2**25, np.float32), device="gpu")
    assert found.is_right
    assert found.time_ratio > 1.05
    assert found.speed.startswith("Numba is slower by")
