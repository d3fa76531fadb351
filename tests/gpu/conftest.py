"""Tests on a real GPU: ``pytest tests/gpu``; skipped with the reason where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE not in Path(item.path).parents:
            continue
        if item.get_closest_marker("gpu") is None:
            item.add_marker(pytest.mark.gpu)
        # What other libraries warn of on a GPU cannot be seen where these tests are written.
        item.add_marker(pytest.mark.filterwarnings("default"))


@pytest.fixture
def cupy():
    """CuPy; imported only after the marker has found a GPU."""
    return pytest.importorskip("cupy")


@pytest.fixture
def device(cupy):
    import kernellab as kl

    return kl.device("gpu")


@pytest.fixture
def spin(device):
    """Return a function that queues a kernel of known length, in seconds, on the current stream."""
    return device.stopwatch().spin


@pytest.fixture
def write_kernel(tmp_path):
    """Return a function (name of a rung of copy, body) -> Kernel with that body for its ``.cu`` entry."""
    from dataclasses import replace

    from kernellab import catalog

    def write(body, name="scalar"):
        kernel = catalog.kernel(f"copy/{name}")
        path = tmp_path / f"{name}.cu"
        path.write_text(
            f"// copy/{name}: a test\n"
            f'extern "C" __global__ void copy_{name}(const float* x, float* y, long long n) {{\n'
            "    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
            f"    {body}\n}}\n",
            encoding="utf-8",
        )
        return replace(kernel, source=path)

    return write
