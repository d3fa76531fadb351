"""More elements than an index of 32 bits counts: bytes copied and transposed, in both languages."""

from __future__ import annotations

import numpy as np
import pytest

from kernellab import catalog
from kernellab.plan import bind

ROWS, COLUMNS = 2**16, 2**15 + 8
STEP = 2**12


def numbered(cupy):
    """Return bytes that tell their places, far and near."""
    x = cupy.empty((ROWS, COLUMNS), np.uint8)
    for i in range(0, ROWS, STEP):
        place = cupy.arange(i * COLUMNS, (i + STEP) * COLUMNS, dtype=np.uint64)
        x[i : i + STEP] = (
            (place * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(56)).astype(np.uint8).reshape(STEP, COLUMNS)
        )
    return x


@pytest.fixture(scope="module")
def x():
    cupy = pytest.importorskip("cupy")
    free, _ = cupy.cuda.runtime.memGetInfo()
    needed = 4 * ROWS * COLUMNS
    if free < needed:
        pytest.skip(f"needs {needed} bytes of device memory, {free} are free")
    made = numbered(cupy)
    yield made
    del made
    cupy.get_default_memory_pool().free_all_blocks()


@pytest.mark.parametrize("language", ["cuda-c", "numba"])
@pytest.mark.parametrize("name", ["copy/scalar", "copy/float4", "transpose/vectorised"])
def test_an_array_of_more_than_two_to_the_31_bytes(device, x, name, language):
    assert x.size > 2**31
    kernel = catalog.kernel(name)
    is_copy = kernel.problem.name == "copy"
    plan = bind(kernel, {"x": x.reshape(-1) if is_copy else x}, limits=device.limits)
    y = device.apply(device.build(plan.kernel, language), plan, {})["y"]
    found = y.reshape(x.shape) if is_copy else y.T
    assert all(bool((found[i : i + STEP] == x[i : i + STEP]).all()) for i in range(0, ROWS, STEP))
