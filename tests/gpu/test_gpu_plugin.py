"""``cuda_benchmark`` on a real GPU, in a project of somebody else's."""

from __future__ import annotations

import json
from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytest.importorskip("pytest_benchmark")
pytest_plugins = ["pytester"]

PROJECT = """
import cupy
import numpy as np
import pytest

import kernellab as kl

SPIN = kl.device("gpu").stopwatch().spin


def test_spin(cuda_benchmark):
    cuda_benchmark(SPIN, 1e-3)
    assert abs(cuda_benchmark.timing.seconds - 1e-3) < 2e-5


def test_spin_pedantic(cuda_benchmark):
    calls = []

    def setup():
        calls.append(1)
        return (1e-3,), {}

    cuda_benchmark.pedantic(SPIN, setup=setup, rounds=9, warmup_rounds=2)
    assert len(calls) == 11
    assert abs(cuda_benchmark.timing.seconds - 1e-3) < 2e-5


def test_spin_on_a_stream(cuda_benchmark):
    with cupy.cuda.Stream(non_blocking=True):
        spin = kl.device("gpu").stopwatch().spin
        cuda_benchmark(spin, 5e-4)
    assert abs(cuda_benchmark.timing.seconds - 5e-4) < 1.2e-5


@pytest.mark.parametrize("language", ["cuda-c", "numba"])
@pytest.mark.parametrize("kind", [np, cupy])
def test_kernel(cuda_benchmark, language, kind):
    cuda_benchmark.language = language
    x = kind.arange(2**25, dtype="float32")
    y = cuda_benchmark("copy/float4", x)
    assert bool((kind.asarray(y) == x).all())
    assert 0.9 < cuda_benchmark.extra_info["fraction_of_copy"] < 1.05


def test_callable(cuda_benchmark):
    x = cupy.zeros(2**28, "float32")
    y = cupy.empty_like(x)
    cuda_benchmark.nbytes = 2 * x.nbytes
    cuda_benchmark(cupy.copyto, y, x)
    assert 0.9 < cuda_benchmark.extra_info["fraction_of_copy"] < 1.05


@pytest.mark.cuda_benchmark(mode="hot")
def test_counts_and_time(cuda_benchmark):
    cuda_benchmark("transpose/padded", case="256 x 256")
    assert cuda_benchmark.timing.seconds < 1e-4
    assert cuda_benchmark.trace.totals["shared_load_bank_conflicts"] == 0


def test_waiting(cuda_benchmark):
    def waits():
        SPIN(1e-4)
        cupy.cuda.get_current_stream().synchronize()

    with pytest.raises(kl.UnavailableError, match="take the synchronisation out"):
        cuda_benchmark(waits)
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    if "kernellab" not in {point.name for point in entry_points(group="pytest11")}:
        pytester.makeini("[pytest]\naddopts = -p kernellab.pytest_plugin")
    pytester.makepyfile(PROJECT)
    return pytester


def test_a_project_on_this_gpu(project: pytest.Pytester, cupy) -> None:
    path = project.path / "saved.json"
    result = project.runpytest_subprocess(f"--benchmark-json={path}", "-p", "no:cacheprovider", timeout=240)
    result.assert_outcomes(passed=10)
    saved = json.loads(path.read_text(), parse_constant=lambda text: pytest.fail(text))
    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    assert saved["machine_info"]["cuda_device"] == name
    times = {each["name"]: each["stats"]["median"] for each in saved["benchmarks"]}
    assert times["test_spin"] == pytest.approx(1e-3, rel=0.02)

    again = project.runpytest_subprocess(
        "-k", "spin", f"--benchmark-compare={path}", "--benchmark-compare-fail=median:5%", timeout=120
    )
    assert again.ret == 0
    saved["machine_info"]["cuda_device"] = "another"
    Path(path).write_text(json.dumps(saved))
    refused = project.runpytest_subprocess("-k", "spin", f"--benchmark-compare={path}", timeout=120)
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    assert "compare times of one device only" in refused.stderr.str() + refused.stdout.str()
