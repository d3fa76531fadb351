"""References of the memory-bound problems against answers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from kernellab.catalog import kernel, problem
from kernellab.errors import SpecError
from kernellab.plan import bind
from kernellab.problem import Cost

F = np.float32


def answer(name, arrays, **parameters):
    (value,) = bind(kernel(name), arrays, **parameters).reference().values()
    return value.tolist()


def test_streams():
    x, y = np.array([1, 2], F), np.array([10, 20], F)
    assert answer("scale/scalar", {"x": x}, alpha=-3.0) == [-3, -6]
    assert answer("axpy/scalar", {"x": x, "y": y}, alpha=3.0) == [13, 26]
    assert answer("triad/scalar", {"a": x, "b": y, "c": y}) == [20, 60]


def test_reductions():
    x = np.array([[1, 5, 5], [np.nan, 7, np.nan]], F)
    assert answer("sum/shuffle", {"x": x[0]}) == [11]
    assert answer("max/shuffle", {"x": x[0]}) == [5]
    assert answer("argmax/shuffle", {"x": x[0]}) == [1]
    assert answer("row_argmax/warp", {"x": x}) == [1, 0]
    assert np.array_equal(answer("row_max/warp", {"x": x}), [5, np.nan], equal_nan=True)
    assert answer("row_sum/warp", {"x": x[:1]}) == [11]


def test_sums_are_not_counted_in_float32():
    assert answer("sum/shuffle", {"x": np.ones(2**24 + 2, F)}) == [2**24 + 2]


def test_running_sums():
    x = np.array([1, 2, 3], F)
    assert answer("cumsum/lookback", {"x": x}) == [1, 3, 6]
    assert answer("cumsum/lookback", {"x": x}, exclusive=1) == [0, 1, 3]
    two = problem("cumsum").case("exclusive, two ones")
    y = bind(kernel("cumsum/grouped"), problem("cumsum").inputs(two), exclusive=1).reference()["y"]
    assert y[[510, 511, 512, 599, 600]].tolist() == [0, 0, 1, 1, 2]


def test_histograms():
    assert answer("histogram/global", {"x": np.array([3, 3, 255], np.uint8)}) == [
        *(0, 0, 0, 2),
        *([0] * 251),
        1,
    ]
    x = np.array([0, 1, 2, 3, 4, 4, -1, 5, np.nan], F)
    edges = np.array([0, 1, 2, 3], F)
    assert answer("float_histogram/global", {"x": x, "edges": edges}, top=4.0) == [1, 1, 1, 3]


@pytest.mark.parametrize("name", ["max/shuffle", "argmax/vectorised"])
def test_the_largest_of_nothing_is_refused(name):
    with pytest.raises(SpecError, match=rf"^{name}: x holds no element along the axis"):
        bind(kernel(name), {"x": np.zeros(0, F)})
    assert bind(kernel("sum/shuffle"), {"x": np.zeros(0, F)}).steps


def test_costs():
    x = np.zeros(1000, np.float16)
    assert bind(kernel("scale/scalar"), {"x": x}).cost() == Cost(2000, 2000, 1000)
    assert bind(kernel("sum/shuffle"), {"x": x}).cost() == Cost(2000, 2, 1000)
    assert bind(kernel("cumsum/lookback"), {"x": x}).cost().nbytes == 4000
    assert bind(kernel("triad/scalar"), dict.fromkeys("abc", x.astype(F))).cost().nbytes == 16000
    assert bind(kernel("histogram/lanes"), {"x": np.zeros(99, np.uint8)}).cost() == Cost(99, 2048)
