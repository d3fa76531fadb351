"""pytest plugin: ``cuda_benchmark``, pytest-benchmark by the GPU's own clock, and ``cuda_trace``, for counts.

Loaded in every pytest run where kernellab is installed, so that importing it must cost nothing: no NumPy, no
CuPy, no device, before a test asks for a fixture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kernellab.benchmark_fixture import CudaBenchmark
    from kernellab.devices.program import Device
    from kernellab.trace import Trace

FIXTURE = "cuda_benchmark"
MACHINE = "cuda_device"
"""Where the device's name stands in pytest-benchmark's machine_info."""


class ReplayedClock:
    """The timer that pytest-benchmark is given: it tells the device's samples, one a round, bit for bit."""

    __name__ = "device_clock"

    def __init__(self) -> None:
        self._samples: list[float] = []
        self._now = 0.0

    def load(self, samples: tuple[float, ...]) -> None:
        """Take the samples to be told."""
        self._samples = list(samples)

    def advance(self) -> None:
        """Let the next sample pass: what pytest-benchmark times."""
        self._now = self._samples.pop(0) if self._samples else 0.0

    def __call__(self) -> float:
        """Return 0 at the start of a round, the sample at its end."""
        now, self._now = self._now, 0.0
        return now


_CLOCK = pytest.StashKey[ReplayedClock]()
_DEVICE_NAME = pytest.StashKey[str]()


# -- hooks
def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, and the fixture as far as pytest-benchmark is here."""
    config.addinivalue_line(
        "markers",
        "cuda_benchmark(mode, nbytes, flops, language, device, precision, minimum, maximum, budget): "
        "how cuda_benchmark measures (kernellab)",
    )
    has_benchmark = config.pluginmanager.hasplugin("benchmark")
    fixtures = _WithBenchmark() if has_benchmark else _WithoutBenchmark()
    config.pluginmanager.register(fixtures, "kernellab-fixtures")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give the test's `benchmark` fixture the timer that tells the device's samples."""
    if FIXTURE not in getattr(item, "fixturenames", ()):
        return
    clock = item.stash[_CLOCK] = ReplayedClock()
    marker = item.get_closest_marker("benchmark")
    options = dict(marker.kwargs) if marker is not None else {}
    item.add_marker(pytest.mark.benchmark(**{**options, "timer": clock}), append=False)


@pytest.hookimpl(optionalhook=True)
def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    """Write down the device that was measured."""
    if _DEVICE_NAME in config.stash:
        machine_info[MACHINE] = config.stash[_DEVICE_NAME]


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_benchmark_compare_machine_info(
    config: pytest.Config, machine_info: dict[str, Any], compared_benchmark: dict[str, Any]
) -> None:
    """Refuse to compare times of different devices."""
    before = compared_benchmark.get("machine_info", {}).get(MACHINE)
    if before is None:
        return
    now = machine_info[MACHINE] = _device_name(config)
    if now != before:
        raise pytest.UsageError(
            f"cuda_benchmark: the saved times were measured on {before}, this is {now}; "
            "compare times of one device only, or run without --benchmark-compare"
        )


def _device_name(config: pytest.Config) -> str:
    if _DEVICE_NAME not in config.stash:
        from kernellab.devices import device

        config.stash[_DEVICE_NAME] = str(device("auto").describe()["device"])
    return config.stash[_DEVICE_NAME]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say which benchmarks were counted and not timed."""
    counted = [
        (report.nodeid, dict(report.user_properties)[FIXTURE])
        for report in terminalreporter.getreports("passed")
        if report.when == "call" and FIXTURE in dict(report.user_properties)
    ]
    if not counted:
        return
    terminalreporter.section("cuda_benchmark: counted on the emulator, no time was measured")
    for nodeid, text in counted:
        terminalreporter.write_line(f"{nodeid}: {text}")


# -- fixtures
@pytest.fixture(scope="session")
def cuda_device() -> Device:
    """Where catalogue kernels run: the GPU if there is one, else the emulator. Override it to choose."""
    from kernellab.devices import device

    return device("auto")


@pytest.fixture
def cuda_trace() -> Callable[..., Trace]:
    """Return a function that runs a kernel on the emulator and gives its counts.

    ``cuda_trace("transpose/padded", x)`` runs a kernel of the catalogue and verifies it; with anything else
    it is `kernellab.trace`: ``cuda_trace("mine.cu", "entry", grid, block, arguments)``.
    """
    from kernellab.trace_fixture import count

    return count


class _WithBenchmark:
    @pytest.fixture
    def cuda_benchmark(
        self, request: pytest.FixtureRequest, benchmark: Any, cuda_device: Device
    ) -> Iterator[CudaBenchmark]:
        """Benchmark a kernel of the catalogue by id, or any callable that launches on CuPy's stream."""
        from kernellab.benchmark_fixture import CudaBenchmark, leave_out
        from kernellab.benchmark_settings import settings_of
        from kernellab.errors import LabError

        try:
            settings = settings_of(request.node, request.config)
            if settings.device is not None:
                from kernellab.devices import device

                cuda_device = device(settings.device)
        except LabError:
            leave_out(benchmark)
            raise
        request.config.stash[_DEVICE_NAME] = str(cuda_device.describe()["device"])
        fixture = CudaBenchmark(
            benchmark, request.node.stash[_CLOCK], cuda_device, settings,
            lambda text: request.node.user_properties.append((FIXTURE, text)),
        )  # fmt: skip
        yield fixture
        fixture.finish()


class _WithoutBenchmark:
    @pytest.fixture
    def cuda_benchmark(self) -> None:
        """Say what is missing."""
        from kernellab.errors import UnavailableError

        raise UnavailableError(
            "cuda_benchmark: pytest-benchmark is not loaded, which keeps its statistics; "
            "pip install 'pytest-benchmark>=5'"
        )
