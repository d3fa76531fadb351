"""Block sizes and strides: one parameter of a kernel at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernellab.experiments import load
from kernellab.experiments.experiment import Point
from kernellab.kernel import Kernel
from kernellab.suites.bench import scaled
from kernellab.suites.blocks import THREADS, free_kernels

POINTS = [point for point in load("coalescing").points if point.case.parameters and point.arrays is None]


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("free", list(free_kernels()), ids=lambda kernel: kernel.id)
def test_block(cuda_benchmark, cuda_device, free: Kernel, threads: int) -> None:
    changed = replace(free, geometry=replace(free.geometry, block=(threads,)))
    case = scaled(free.problem, 2**28 if cuda_device.name == "gpu" else 2**20)
    cuda_benchmark(changed, case=case)
    assert cuda_benchmark.extra_info["block"] == [threads, 1, 1]


@pytest.mark.parametrize("point", POINTS, ids=lambda point: point.label)
def test_stride(cuda_benchmark, cuda_device, point: Point) -> None:
    sizes = scaled(point.kernel.problem, 2**27).sizes if cuda_device.name == "gpu" else point.case.sizes
    cuda_benchmark(point.kernel, case=replace(point.case, sizes=sizes))
