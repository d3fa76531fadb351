"""What experiments say of time, at sizes that take moments."""

from __future__ import annotations

import pytest

from kernellab.catalog import kernel
from kernellab.experiments.clocked import GpuClock
from kernellab.experiments.experiment import Point
from kernellab.problem import Case


def points(case, *names):
    return [Point(name, kernel(name), case) for name in names]


@pytest.mark.parametrize("language", ["cuda-c", "numba"])
def test_padding_makes_a_conflicted_transpose_faster(device, language):
    case = Case("4096 x 4096", {"rows": 4096, "columns": 4096})
    found = GpuClock(device, language).ratio(*points(case, "transpose/tiled", "transpose/padded"))
    assert 1.05 < found.low <= found.value <= found.high
    assert found.fast < found.slow < 1e-2


def test_wide_access_comes_near_the_copy(device):
    case = Case("2**26 elements", {"n": 2**26})
    (wide,) = GpuClock(device, "cuda-c").fractions_of_copy(*points(case, "copy/float4"))
    assert 0.95 < wide < 1.05
