"""A GPU and its clock without hardware: kernels are NumPy's references, time is what they say."""

from __future__ import annotations

import ctypes
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np

from kernellab.checks import HOPPER
from kernellab.devices.emulated import EmulatedDevice
from kernellab.devices.program import Program, Run
from kernellab.instruments.clock import Rule
from kernellab.suites.bench import Bench
from kernellab.tensor_lists import flattened, grouped
from kernellab.verify import poisoned

SECONDS_A_BYTE = 1e-12


class FakeStopwatch:
    """The device's time moves when work is queued; the host's does not."""

    def __init__(self, jitter: tuple[float, ...] = (0.0,)) -> None:
        self.time = 0.0
        self.jitter = jitter
        self.work = 0
        self.is_closed = self.has_waited = False
        self.events: list[str] = []

    def now(self) -> float:
        return 0.0

    def pass_time(self, seconds: float) -> None:
        self.events.append("work")
        self.work += 1
        self.time += seconds * (1 + self.jitter[self.work % len(self.jitter)])

    def close_gate(self) -> None:
        self.events.append("close")
        self.is_closed, self.has_waited = True, False

    def open_gate(self) -> bool:
        self.events.append("open")
        self.is_closed = False
        return not self.has_waited

    def mark(self) -> float:
        self.events.append("mark")
        return self.time

    def seconds(self, start: float, stop: float) -> float:
        return stop - start

    def wait(self) -> None:
        self.has_waited = self.is_closed

    def evict(self) -> None:
        self.events.append("evict")
        self.time += 1.0

    def count_cycles(self, seconds: float = 2e-5) -> None:
        self.pass_time(seconds)

    def counted_hz(self) -> float:
        return 1.98e9

    def clock_hz(self) -> float | None:
        return 1.98e9

    def highest_clock_hz(self) -> float | None:
        return 1.98e9


class DeviceArray(np.ndarray):
    """An array that has its address where CuPy's have it."""

    @property
    def data(self) -> SimpleNamespace:
        return SimpleNamespace(ptr=self.ctypes.data)


def on_device(array: object) -> DeviceArray:
    return np.array(array).view(DeviceArray)


class FakeCupy:
    """NumPy under CuPy's names; a copy within the device takes its time."""

    def __init__(self, stopwatch: FakeStopwatch) -> None:
        self.stopwatch = stopwatch
        runtime = SimpleNamespace(memcpyDeviceToDevice=3, memcpyAsync=self.copy_async)
        self.cuda = SimpleNamespace(
            runtime=runtime, get_current_stream=lambda: SimpleNamespace(ptr=0, synchronize=lambda: None)
        )

    def __getattr__(self, name: str) -> object:
        return getattr(np, name)

    def copy_async(self, target: int, source: int, nbytes: int, kind: int, stream: int) -> None:
        ctypes.memmove(target, source, nbytes)
        self.stopwatch.pass_time(2 * nbytes * SECONDS_A_BYTE)

    def asnumpy(self, array: object) -> np.ndarray:
        return np.array(array).view(np.ndarray)

    def copyto(self, target: np.ndarray, source: np.ndarray) -> None:
        np.copyto(target, source)
        self.stopwatch.pass_time(8 * target.nbytes * SECONDS_A_BYTE)

    def maximum(self, x: np.ndarray, floor: float, out: np.ndarray) -> None:
        np.maximum(x, np.float32(floor), out=out)
        self.stopwatch.pass_time(3 * x.nbytes * SECONDS_A_BYTE)

    def zeros(self, shape: object, dtype: object) -> DeviceArray:
        return on_device(np.zeros(shape, dtype))

    def empty(self, shape: object, dtype: object) -> DeviceArray:
        return on_device(np.empty(shape, dtype))


class FakeGpu:
    """Runs the reference in place of the kernel; `breaks_at` says from which launch on it writes nothing."""

    name, arch, limits = "gpu", "sm_90", HOPPER

    def __init__(
        self, stopwatch: FakeStopwatch, name: str = "FakeGPU 9000", breaks_at: int | None = None
    ) -> None:
        self._stopwatch = stopwatch
        self.device_name = name
        self.breaks_at = breaks_at
        self.launches = 0
        self.l2_bytes = 0
        self.memory = SimpleNamespace(free_pools=lambda: None, available=lambda: 2**40)
        self.health = SimpleNamespace(naming=lambda who: nullcontext(), check=lambda: None)
        self.cupy = FakeCupy(stopwatch)
        self._compiler = EmulatedDevice()

    def describe(self) -> dict[str, object]:
        return {"device": self.device_name, "arch": self.arch}

    def stopwatch(self) -> FakeStopwatch:
        return self._stopwatch

    def allocate(self, make: object) -> object:
        return make()

    def build(self, kernels: object, language: str = "cuda-c", **options: object) -> object:
        return self._compiler.build(kernels, language, **options)

    def on_device(self, array: np.ndarray, *, copy: bool = False) -> np.ndarray:
        return on_device(array)

    def empty(self, spec: object) -> np.ndarray:
        return on_device(poisoned(spec.shape, spec.dtype))

    def run(self, program: object, plan: object, **options: object) -> Run:
        buffers = {name: np.array(array) for name, array in plan.inputs.items()}
        buffers |= {n: poisoned(s.shape, s.dtype) for n, s in plan.outputs.items() if n not in buffers}
        for call in self.calls(program, plan, buffers):
            call()
        return Run({name: buffers[name] for name in plan.outputs})

    def calls(self, program: object, plan: object, buffers: dict[str, np.ndarray]) -> tuple:
        for step in plan.steps if isinstance(program, Program) else ():
            program.binary(step.kernel)  # refused where it holds another

        def idle() -> None:
            self.launches += 1
            self._stopwatch.pass_time(plan.cost().nbytes * SECONDS_A_BYTE)

        def call() -> None:
            idle()
            if self.breaks_at is not None and self.launches >= self.breaks_at:
                return
            inputs = {name: buffers[name] for name in plan.inputs}
            answer = plan.kernel.problem.reference(**grouped(inputs, plan.lists), **plan.parameters)
            for name, value in flattened(answer).items():
                if name in buffers:
                    buffers[name][...] = value

        return (call, *(idle for _ in plan.steps[1:])) if plan.steps else ()  # the first does it all


def make_bench(**options: object) -> Bench:
    """Return a bench on a fake GPU of these options, whose clock is a little uneven."""
    stopwatch = FakeStopwatch((0.0, 0.001, -0.001))
    return Bench(FakeGpu(stopwatch, **options), stopwatch, rule=Rule(minimum=15, maximum=24))
