"""The references against answers worked out by hand: the one place everything else is compared with."""

from __future__ import annotations

import numpy as np
import pytest

from kernellab import catalog
from kernellab.catalog import kernel
from kernellab.plan import bind

F = np.float32


def answer(name, arrays, **parameters):
    return bind(kernel(name), arrays, **parameters).reference()["y"]


def test_copy():
    x = np.array([1, 2, 3], F)
    for rung in ("scalar", "float4", "strided", "offset"):
        assert answer(f"copy/{rung}", {"x": x}).tolist() == [1, 2, 3]
    assert answer("copy/take", {"table": x, "index": np.array([2, -3, -1, 0])}).tolist() == [3, 1, 3, 1]
    records = np.arange(8, dtype=F).reshape(2, 4)
    assert answer("copy/aos", {"records": records}).tolist() == [1, 5]
    assert answer("copy/soa", {"fields": np.ascontiguousarray(records.T)}).tolist() == [1, 5]


def test_transpose():
    x = np.array([[1, 2, 3], [4, 5, 6]], F)
    assert answer("transpose/naive", {"x": x}).tolist() == [[1, 4], [2, 5], [3, 6]]


@pytest.mark.parametrize("stride", [1, 2, 32, 33, 1024])
def test_shared_stride(stride):
    quads = np.arange(2 * 4096, dtype=F).reshape(2, 32, 128)
    y = answer("shared_stride/quads", {"quads": quads}, stride=stride)
    for tile, warp, lane in [(0, 0, 0), (0, 0, 1), (1, 31, 31), (1, 5, 7)]:
        element = (lane * stride + warp) % 1024
        first = tile * 4096 + 4 * element
        assert y[tile, warp, 4 * lane : 4 * lane + 4].tolist() == list(range(first, first + 4))


def test_shared_stride_32_is_the_transposed_tile():
    words = np.arange(1024, dtype=F).reshape(1, 32, 32)
    assert np.array_equal(answer("shared_stride/words", {"words": words})[0], words[0].T)


def test_relu():
    x = np.array([-1, 2, -np.inf, np.inf, np.nan, -0.0], F)
    y = answer("relu/branch", {"x": x})
    assert np.array_equal(y, np.array([0, 2, 0, np.inf, np.nan, 0], F), equal_nan=True)


def test_uneven_work_is_the_loop():
    x = np.array([1, 1, 1, 3, 8], F)
    trips = np.array([0, 1, 2, -5, 3], np.int32)
    expected = []
    for start, count in zip(x.tolist(), trips.tolist(), strict=True):
        value = start
        for _ in range(count):
            value = value * 0.5 + start
        expected.append(value)
    assert (
        answer("uneven_work/unsorted", {"x": x, "trips": trips}).tolist() == expected == [1, 1.5, 1.75, 3, 15]
    )


def test_masked_rows():
    x = np.array([[1, 2, np.inf], [10, 20, np.nan]], F)
    weights = np.array([2, 1], F)
    mask = np.array([True, True, False])
    assert answer("masked_rows/branch", {"x": x, "weights": weights, "mask": mask}).tolist() == [12, 24, 0]
    active = np.array([1])
    compact = bind(kernel("masked_rows/compact"), {"x": x, "weights": -weights, "active": active})
    assert compact.reference()["y"].tolist() == [0, -24, 0]
    assert compact.magnitude()["y"].tolist() == [0, 24, 0]


def test_costs():
    def cost(name, case):
        problem = catalog.problem(name.partition("/")[0])
        return bind(kernel(name), problem.inputs(problem.case(case))).cost()

    assert cost("copy/scalar", "1000 elements").nbytes == 8000
    assert cost("copy/take", "1000 elements").nbytes == 16000
    assert cost("relu/branch", "1000 elements").flops == 1000
    long = cost("uneven_work/unsorted", "one long lane")
    assert (long.bytes_read, long.bytes_written, long.flops) == (8000, 4000, 2000)
    everything = cost("masked_rows/branch", "every row active")
    assert (everything.bytes_read, everything.flops) == (4 * 16 * 1001 + 1000, 32000)
    nothing = cost("masked_rows/compact", "no row active")
    assert (nothing.bytes_read, nothing.bytes_written, nothing.flops) == (64, 4000, 0)


def test_first_cases_fill_their_warps():
    for name in catalog.PROBLEMS:
        for rung in catalog.kernels(name):
            for launch in bind(rung, rung.problem.inputs(rung.cases[0])).steps:
                assert np.prod(launch.block) % 32 == 0
    trips = catalog.problem("uneven_work").inputs(catalog.problem("uneven_work").cases[0])
    ordered = trips["trips"][trips["order"]].reshape(-1, 32)
    assert (ordered == ordered[:, :1]).all()
