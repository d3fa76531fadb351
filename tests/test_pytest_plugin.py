"""The pytest plugin, in projects that pytester makes: other people's, which only have kernellab installed."""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pytest_benchmark")
for module in (
    "timing_fakes",
    "fakes",
    "numba.cuda",
    "cuda.bindings.nvrtc",
    "kernellab.compile.numba_kernels",
):
    importlib.import_module(module)  # what is imported inside a pytester run is unloaded after it
pytest_plugins = ["pytester"]

FAKE = """
import pytest
from timing_fakes import FakeGpu, FakeStopwatch

STOPWATCH = FakeStopwatch(jitter=(0.0, 0.001, -0.001))
GPU = FakeGpu(STOPWATCH{options})

@pytest.fixture(scope="session")
def cuda_device():
    return GPU
"""
TIMED = """
from conftest import STOPWATCH

def test_callable(cuda_benchmark):
    cuda_benchmark.nbytes = 0
    assert cuda_benchmark(lambda x: STOPWATCH.pass_time(1e-3) or x, 5) == 5
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # pytest-benchmark measures nothing under xdist
    pytester.syspathinsert(Path(__file__).parent)
    if "kernellab" not in {name for name, _ in _entry_points()}:
        pytester.makeini("[pytest]\naddopts = -p kernellab.pytest_plugin")
    return pytester


def _entry_points() -> list[tuple[str, str]]:
    from importlib.metadata import entry_points

    return [(point.name, point.value) for point in entry_points(group="pytest11")]


def with_gpu(project: pytest.Pytester, options: str = "") -> pytest.Pytester:
    project.makeconftest(FAKE.format(options=options))
    return project


def run(project: pytest.Pytester, *options: str) -> pytest.RunResult:
    return project.runpytest_inprocess("-p", "no:cacheprovider", *options)


def saved(project: pytest.Pytester, *options: str) -> dict:
    path = project.path / "saved.json"
    run(project, f"--benchmark-json={path}", *options)

    def refuse(text: str) -> None:
        raise ValueError(f"{text} is no JSON")

    return json.loads(path.read_text(), parse_constant=refuse)


def test_the_device_s_samples_are_the_statistics_bit_for_bit(project: pytest.Pytester) -> None:
    with_gpu(project).makepyfile(
        TIMED + "    assert cuda_benchmark.stats.stats.data == list(cuda_benchmark.timing.samples)\n"
    )
    run(project).assert_outcomes(passed=1)
    (bench,) = saved(project)["benchmarks"]
    assert bench["stats"]["median"] == pytest.approx(1e-3, rel=1e-6)
    assert bench["stats"]["max"] == pytest.approx(1.001e-3, rel=1e-6)
    assert bench["stats"]["rounds"] == len(bench["stats"]["data"]) >= 15
    assert bench["stats"]["iterations"] == 1
    assert bench["options"]["timer"] == "device_clock"


def test_calls_are_counted_truly(project: pytest.Pytester) -> None:
    with_gpu(project).makepyfile("""
        from conftest import STOPWATCH
        seen = []

        def work():
            seen.append(1)
            STOPWATCH.pass_time(1e-3)

        def test_it(cuda_benchmark):
            cuda_benchmark(work)
            assert cuda_benchmark.calls == len(seen) == 2 + len(cuda_benchmark.timing.samples)
            assert cuda_benchmark.extra_info["calls"] == len(seen)
    """)
    run(project).assert_outcomes(passed=1)


def test_disabled_calls_once(project: pytest.Pytester) -> None:
    with_gpu(project).makepyfile("""
        from conftest import GPU, STOPWATCH
        import numpy as np
        seen = []

        def test_callable(cuda_benchmark):
            assert cuda_benchmark(lambda: seen.append(1) or "result") == "result"
            assert (cuda_benchmark.calls, len(seen)) == (1, 1)
            assert cuda_benchmark.stats is None

        def test_pedantic(cuda_benchmark):
            cuda_benchmark.pedantic(seen.append, args=(2,), rounds=7, warmup_rounds=3)
            assert (cuda_benchmark.calls, seen) == (1, [1, 2])

        def test_kernel(cuda_benchmark):
            x = np.arange(6, dtype="float32").reshape(2, 3)
            before = GPU.launches
            assert (cuda_benchmark("transpose/padded", x) == x.T).all()
            assert GPU.launches == before + 1 and cuda_benchmark.calls == 1
    """)
    run(project, "--benchmark-disable").assert_outcomes(passed=3)


@pytest.mark.parametrize(("rounds", "warmup"), [(5, 0), (5, 2), (1, 0), (2, 1)])
def test_pedantic_makes_exactly_the_calls_asked_for(
    project: pytest.Pytester, rounds: int, warmup: int
) -> None:
    with_gpu(project).makepyfile(f"""
        from conftest import STOPWATCH
        log = []

        def work(x, factor):
            assert STOPWATCH.is_closed
            log.append(("call", x, factor))
            STOPWATCH.pass_time(1e-3)
            return x

        def setup():
            assert not STOPWATCH.is_closed
            log.append(("setup", len(log)))
            return (len(log),), {{"factor": 2}}

        def test_it(cuda_benchmark):
            done = []
            cuda_benchmark.pedantic(work, setup=setup, teardown=lambda x, factor: done.append(x),
                                    rounds={rounds}, warmup_rounds={warmup})
            calls = [entry for entry in log if entry[0] == "call"]
            assert len(calls) == len(done) == {rounds + warmup} == cuda_benchmark.calls
            assert [entry[0] for entry in log] == ["setup", "call"] * {rounds + warmup}
            assert [entry[1] for entry in calls] == done and len(set(done)) == len(done)
            assert cuda_benchmark.stats.stats.rounds == {rounds}
    """)
    (bench,) = saved(project)["benchmarks"]
    assert len(bench["stats"]["data"]) == rounds


def test_a_kernel_is_verified_before_and_after(project: pytest.Pytester) -> None:
    source = """
        import numpy as np

        def test_it(cuda_benchmark):
            x = np.arange(4096, dtype="float32").reshape(64, 64)
            y = cuda_benchmark("transpose/padded", x)
            assert (y == x.T).all()
            info = cuda_benchmark.extra_info
            assert info["nbytes"] == 2 * x.nbytes and info["kernel"] == "transpose/padded"
            assert info["bytes_per_second"] == 2 * x.nbytes / info["median_seconds"]
            assert abs(info["fraction_of_copy"] - 1) < 0.01
            assert cuda_benchmark.trace.totals["shared_load_bank_conflicts"] == 0
            assert info["counts"]["global_load_sectors"] == 512
    """
    with_gpu(project).makepyfile(source)
    run(project).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    # The third launch warms up: one that writes there and stops then is seen on fresh poison.
    ("launch", "when"),
    [(1, "nothing wrote there"), (2, "before"), (3, "after"), (4, "after")],
)
def test_a_kernel_that_stops_writing_has_no_time(project: pytest.Pytester, launch: int, when: str) -> None:
    with_gpu(project, f", breaks_at={launch}").makepyfile("""
        import numpy as np

        def test_it(cuda_benchmark):
            cuda_benchmark("copy/scalar", np.arange(64, dtype="float32"))

        def test_other(cuda_benchmark):
            cuda_benchmark(int)
    """)
    path = project.path / "saved.json"
    result = run(project, f"--benchmark-json={path}")
    result.assert_outcomes(failed=1, passed=1)
    assert "MismatchError" in result.stdout.str()
    assert when in result.stdout.str()
    assert [bench["name"] for bench in json.loads(path.read_text())["benchmarks"]] == ["test_other"]


def test_an_in_place_kernel_gets_fresh_contents_each_round(project: pytest.Pytester) -> None:
    with_gpu(project).makepyfile("""
        from dataclasses import replace
        import numpy as np
        from kernellab import Case, Kernel, Problem
        from kernellab.catalog import kernel
        from kernellab.problem import Operand

        STOCK = kernel("relu/branch").problem

        def test_it(cuda_benchmark):
            problem = replace(
                STOCK, name="negate", is_bitwise=True,
                operands=(Operand("x", "float32", ("n",), role="inout"),),
                reference=lambda x: {"x": -x}, cost=lambda sizes, arrays: STOCK.cost(sizes, arrays),
            )
            negate = replace(kernel("relu/branch"), problem=problem, name="negate", arguments=("x", "n"),
                             source=kernel("relu/branch").path, twin="none needed")
            x = np.arange(1, 65, dtype="float32")
            assert (cuda_benchmark(negate, x) == -x).all()
            assert (x > 0).all() and cuda_benchmark.calls > 2
    """)
    run(project).assert_outcomes(passed=1)


def test_without_a_gpu_a_kernel_is_counted_and_never_timed(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import numpy as np
        import pytest

        @pytest.mark.cuda_benchmark(device="emulator", language="numba")
        def test_tiled(cuda_benchmark):
            cuda_benchmark("transpose/tiled", case="256 x 256")
            assert cuda_benchmark.is_counted_only and cuda_benchmark.timing is None
            assert cuda_benchmark.stats is None
            assert cuda_benchmark.trace.totals["shared_load_bank_conflicts"] == 63488
            assert cuda_benchmark.extra_info["mode"] == "counted only"
            assert "median_seconds" not in cuda_benchmark.extra_info

        @pytest.mark.cuda_benchmark(device="emulator")
        def test_padded(cuda_benchmark):
            cuda_benchmark("transpose/padded", case="256 x 256")
            line = next(each for each in cuda_benchmark.trace.lines if each.shared_requests)
            assert cuda_benchmark.trace.line(line.number).bank_conflicts == 0

        @pytest.mark.cuda_benchmark(device="emulator")
        def test_callable(cuda_benchmark):
            cuda_benchmark(lambda: 1 / 0)
    """)
    result = run(project, "-rs", "-W", "error::pytest.PytestWarning")
    result.assert_outcomes(passed=2, skipped=1)
    result.stdout.fnmatch_lines(["*no GPU here to time*"])
    result.stdout.fnmatch_lines(["*counted on the emulator, no time was measured*", "*test_tiled: *63488*"])
    assert "Median" not in result.stdout.str()


def test_a_wrong_kernel_fails_on_the_emulator(project: pytest.Pytester) -> None:
    project.makepyfile("""
        import pytest

        @pytest.mark.cuda_benchmark(device="emulator")
        def test_it(cuda_benchmark):
            cuda_benchmark("copy/float4_faulty", case="1000 elements")
    """)
    result = run(project)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*MismatchError*copy/float4_faulty*"])


def test_times_of_two_devices_are_not_compared(project: pytest.Pytester) -> None:
    with_gpu(project).makepyfile(TIMED)
    data = saved(project)
    assert data["machine_info"]["cuda_device"] == "FakeGPU 9000"
    result = run(project, f"--benchmark-compare={project.path / 'saved.json'}")
    text = result.stdout.str() + result.stderr.str()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "the saved times were measured on FakeGPU 9000, this is " in text
    assert "Traceback" not in text


def test_times_of_one_device_are_compared(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    from timing_fakes import FakeGpu, FakeStopwatch

    import kernellab.devices

    monkeypatch.setattr(kernellab.devices, "device", lambda name: FakeGpu(FakeStopwatch()))
    with_gpu(project).makepyfile(TIMED)
    saved(project)
    path = project.path / "saved.json"
    slower = json.loads(path.read_text())
    slower["benchmarks"][0]["stats"]["median"] /= 2
    path.write_text(json.dumps(slower))
    result = run(project, f"--benchmark-compare={path}", "--benchmark-compare-fail=median:10%", "-W", "error")
    assert "Performance has regressed" in result.stderr.str() + result.stdout.str()
    assert "machine_info is different" not in result.stderr.str() + result.stdout.str()
    result = run(project, f"--benchmark-compare={path}", "--benchmark-compare-fail=median:200%")
    assert result.ret == 0


@pytest.mark.parametrize("seconds", [0.0, 1e-6])
@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_json_is_strict(project: pytest.Pytester, rounds: int, seconds: float) -> None:
    with_gpu(project).makepyfile(f"""
        import numpy as np
        from conftest import STOPWATCH

        def test_it(cuda_benchmark):
            STOPWATCH.jitter = (0.0,)
            cuda_benchmark.flops = 10
            cuda_benchmark.extra_info["mine"] = {{"nan": float("nan"), "n": np.int64(3), "a": np.arange(2)}}
            options = {{"rounds": {rounds}, "warmup_rounds": 0}}
            cuda_benchmark.pedantic(STOPWATCH.pass_time, args=({seconds!r},), **options)
    """)
    (bench,) = saved(project)["benchmarks"]
    assert bench["extra_info"]["mine"] == {"nan": None, "n": 3, "a": [0, 1]}
    assert all(math.isfinite(value) for value in bench["stats"]["data"])
    assert bench["extra_info"]["median_interval"] == [None, None]
    assert ("flops_per_second" in bench["extra_info"]) == bool(seconds)


def test_cold_evicts_outside_the_timed_span_and_hot_does_not(project: pytest.Pytester) -> None:
    with_gpu(project).makepyfile("""
        import pytest
        from conftest import STOPWATCH

        def work():
            STOPWATCH.pass_time(1e-3)

        def test_cold(cuda_benchmark):
            cuda_benchmark(work)
            assert STOPWATCH.events.count("evict") >= 15
            assert abs(cuda_benchmark.timing.seconds - 1e-3) < 1e-5

        @pytest.mark.cuda_benchmark(mode="hot")
        def test_hot(cuda_benchmark):
            before = STOPWATCH.events.count("evict")
            cuda_benchmark(work)
            assert STOPWATCH.events.count("evict") == before
            assert cuda_benchmark.extra_info["mode"] == "hot"
    """)
    run(project).assert_outcomes(passed=2)


def test_the_device_s_time_counts_and_not_the_launch_s(project: pytest.Pytester) -> None:
    with_gpu(project).makepyfile("""
        from conftest import STOPWATCH

        def test_it(cuda_benchmark):
            cuda_benchmark(STOPWATCH.pass_time, 0.05)  # returns at once: the device is busy for 50 ms
    """)
    (bench,) = saved(project)["benchmarks"]
    assert bench["stats"]["min"] >= 0.0499


def test_the_first_call_is_in_no_sample(project: pytest.Pytester) -> None:
    with_gpu(project).makepyfile("""
        from conftest import STOPWATCH
        seen = []

        def compiles_first():
            STOPWATCH.pass_time(1e-3 if seen else 1.0)
            seen.append(1)

        def test_it(cuda_benchmark):
            cuda_benchmark(compiles_first)
    """)
    (bench,) = saved(project)["benchmarks"]
    assert bench["stats"]["max"] < 2e-3


def test_throttled_samples_are_kept_and_flagged(project: pytest.Pytester) -> None:
    with_gpu(project).makepyfile("""
        from conftest import STOPWATCH

        def test_it(cuda_benchmark):
            STOPWATCH.clock_hz = lambda: 0.55 * STOPWATCH.highest_clock_hz()
            cuda_benchmark(STOPWATCH.pass_time, 1e-3)
            assert cuda_benchmark.stats.stats.rounds >= 15
    """)
    (bench,) = saved(project)["benchmarks"]
    assert bench["extra_info"]["is_throttled"] is True
    assert bench["extra_info"]["clock_hz"] == pytest.approx(0.55 * 1.98e9)


def test_histograms_are_drawn(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    if importlib.util.find_spec("pygal") is None:
        pytest.skip("pygal, which draws pytest-benchmark's histograms, is not installed")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    with_gpu(project).makepyfile(TIMED)
    result = project.runpytest_subprocess("--benchmark-histogram=drawn")
    assert result.ret == 0
    assert "test_callable" in project.path.joinpath("drawn.svg").read_text()


def test_work_that_waits_is_refused(project: pytest.Pytester) -> None:
    with_gpu(project).makepyfile("""
        from conftest import STOPWATCH

        def test_it(cuda_benchmark):
            cuda_benchmark(STOPWATCH.wait)

        def test_pedantic(cuda_benchmark):
            cuda_benchmark.pedantic(STOPWATCH.wait)
    """)
    result = run(project)
    result.assert_outcomes(failed=2)
    assert result.stdout.str().count("take the synchronisation out of it") >= 2


def test_more_bytes_than_memory_gives_are_an_error(project: pytest.Pytester) -> None:
    with_gpu(project).makepyfile("""
        import pytest
        from conftest import GPU, STOPWATCH

        @pytest.mark.cuda_benchmark(nbytes=2**20)
        def test_it(cuda_benchmark):
            GPU.l2_bytes = 2**17
            cuda_benchmark(lambda: STOPWATCH.pass_time(2**20 * 1e-12 / 1.2))

        @pytest.mark.cuda_benchmark(nbytes=2**20)
        def test_good(cuda_benchmark):
            cuda_benchmark(lambda: STOPWATCH.pass_time(2**20 * 1e-12 / 0.9))
            assert abs(cuda_benchmark.extra_info["fraction_of_copy"] - 0.9) < 0.01
    """)
    result = run(project)
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*are more than 1.14 times what a copy gives*"])


def test_the_gpu_s_own_device_on_a_fake_cupy(project: pytest.Pytester) -> None:
    project.makeconftest("""
        import pytest
        from fakes import make_gpu

        PATCH = pytest.MonkeyPatch()
        WORLD, GPU = make_gpu(PATCH)
        WORLD.seconds = {"transpose_padded": 2e-5}

        def pytest_unconfigure():  # this runs in the process of other tests
            PATCH.undo()

        @pytest.fixture(scope="session")
        def cuda_device():
            return GPU
    """)
    project.makepyfile("""
        import numpy as np
        from conftest import GPU, WORLD

        def test_kernel(cuda_benchmark):
            x = np.arange(64 * 64, dtype="float32").reshape(64, 64)
            assert (cuda_benchmark("transpose/padded", x) == x.T).all()
            assert cuda_benchmark.stats.stats.median == cuda_benchmark.timing.seconds > 0
            assert cuda_benchmark.extra_info["fraction_of_copy"] > 0
            assert cuda_benchmark.extra_info["device"] == "Fake H200"

        def test_cupy_in_and_hot(cuda_benchmark):
            cuda_benchmark.mode = "hot"
            x = WORLD.cupy.array(np.arange(64, dtype="float32"))
            cuda_benchmark("copy/float4", x)
            assert cuda_benchmark.trace.totals["global_load_requests"] == 1

        def test_spoiled(cuda_benchmark):
            WORLD.kernels["copy_scalar"] = lambda x, y, n: None
            cuda_benchmark("copy/scalar", np.arange(64, dtype="float32"))
    """)
    result = run(project)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*MismatchError*copy/scalar*nothing wrote there*"])


@pytest.mark.parametrize("options", [(), ("--benchmark-disable",)])
def test_a_failure_is_one_failure(project: pytest.Pytester, options: tuple[str, ...]) -> None:
    with_gpu(project).makepyfile("def test_it(cuda_benchmark):\n    cuda_benchmark(lambda: 1 / 0)\n")
    run(project, *options, "-W", "error").assert_outcomes(failed=1)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("cuda_benchmark(int); cuda_benchmark(int)", "it was called before"),
        ("cuda_benchmark.mode = 'graph'; cuda_benchmark(int)", "mode is 'graph', it must be cold or hot"),
        ("cuda_benchmark.pedantic(int, iterations=2)", "iterations 2;"),
        ("cuda_benchmark.pedantic(int, args=(1,), setup=lambda: ((), {}))", "setup returns arguments"),
        ("cuda_benchmark(int); cuda_benchmark.trace", "there is no trace of a callable"),
        ("cuda_benchmark('transpose/paded')", "did you mean 'padded'"),
        (
            "cuda_benchmark('axpy/vectorised', language='numba')",
            "'language' is a keyword of the marker; write @pytest.mark.cuda_benchmark(language='numba')",
        ),
        ("cuda_benchmark(lambda: None, nbytes=64)", "@pytest.mark.cuda_benchmark(nbytes=64)"),
        ("cuda_benchmark(abs, minimum=2)", "@pytest.mark.cuda_benchmark(minimum=2)"),
    ],
)
def test_misuse_is_one_sentence(project: pytest.Pytester, line: str, words: str) -> None:
    with_gpu(project).makepyfile(f"def test_it(cuda_benchmark):\n    {line}\n")
    result = run(project)
    result.assert_outcomes(failed=1)
    assert words in result.stdout.str()


def test_keywords_of_a_callable_are_its_own(project: pytest.Pytester) -> None:
    with_gpu(project).makepyfile("""
        def told(mode, **rest):
            assert (mode, rest) == ("mine", {"flops": 2})

        def test_it(cuda_benchmark):
            cuda_benchmark(told, mode="mine", flops=2)
    """)
    run(project).assert_outcomes(passed=1)


def test_a_marker_s_unknown_keyword_is_refused(project: pytest.Pytester) -> None:
    with_gpu(project).makepyfile("""
        import pytest

        @pytest.mark.cuda_benchmark(rounds=3)
        def test_it(cuda_benchmark):
            cuda_benchmark(int)
    """)
    result = run(project)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the marker has no keyword 'rounds'*"])


def test_cuda_trace_counts_anybody_s_kernel(project: pytest.Pytester) -> None:
    project.path.joinpath("mine.cu").write_text(
        'extern "C" __global__ void twice(const float* x, float* y) {\n'
        "    int i = threadIdx.x;\n"
        "    y[i] = 2 * x[i * 8];\n"
        "}\n"
    )
    project.makepyfile("""
        import numpy as np
        import pytest

        def test_mine(cuda_trace):
            x, y = np.arange(256, dtype="float32"), np.zeros(32, "float32")
            trace = cuda_trace("mine.cu", "twice", 1, 32, (x, y))
            assert (y == 2 * x[::8]).all()
            assert trace.line(3).sectors == 32 + 4

        def test_catalogue(cuda_trace):
            trace = cuda_trace("transpose/tiled", np.zeros((32, 32), "float32"), language="numba")
            assert trace.totals["shared_load_bank_conflicts"] == 992

        def test_wrong(cuda_trace):
            with pytest.raises(AssertionError, match="out of bounds"):
                cuda_trace("copy/float4_faulty", np.arange(1000, dtype="float32"))
    """)
    run(project, "-W", "error").assert_outcomes(passed=3)


def test_without_pytest_benchmark_the_fixture_says_so(project: pytest.Pytester) -> None:
    project.makepyfile("def test_it(cuda_benchmark):\n    pass\ndef test_other(cuda_trace):\n    pass\n")
    result = run(project, "-p", "no:benchmark")
    result.assert_outcomes(errors=1, passed=1)
    result.stdout.fnmatch_lines(["*pytest-benchmark is not loaded*"])


def test_benchmark_only_and_skip_know_the_fixture(project: pytest.Pytester) -> None:
    with_gpu(project).makepyfile(TIMED + "\ndef test_plain():\n    pass\n")
    run(project, "--benchmark-only").assert_outcomes(passed=1, skipped=1)
    run(project, "--benchmark-skip").assert_outcomes(passed=1, skipped=1)


def test_a_user_s_own_benchmark_marker_is_kept(project: pytest.Pytester) -> None:
    with_gpu(project).makepyfile("""
        import pytest
        from conftest import STOPWATCH

        @pytest.mark.benchmark(group="copies")
        def test_it(cuda_benchmark):
            cuda_benchmark(lambda: STOPWATCH.pass_time(1e-3))
    """)
    (bench,) = saved(project)["benchmarks"]
    assert bench["group"] == "copies"
    assert bench["stats"]["median"] == pytest.approx(1e-3, rel=1e-6)


def test_loading_the_plugin_costs_nothing() -> None:
    code = (
        "import sys, kernellab.pytest_plugin\n"
        "print([name for name in ('numpy', 'cupy', 'numba', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
