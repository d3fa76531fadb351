"""A GPU and its clock without hardware: kernels are NumPy's references, time is what they say."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from kernellab.checks import HOPPER
from kernellab.devices.emulated import EmulatedDevice
from kernellab.devices.program import Run
from kernellab.verify import poisoned

SECONDS_A_BYTE = 1e-12


class FakeStopwatch:
    """The device's time moves when work is queued; the host's does not."""

    def __init__(self, jitter: tuple[float, ...] = (0.0,)) -> None:
        self.time = 0.0
        self.jitter = jitter
        self.work = 0
        self.is_closed = self.has_waited = False
        self.l2_bytes = 0
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

    def clock_hz(self) -> float | None:
        return 1.98e9

    def highest_clock_hz(self) -> float | None:
        return 1.98e9


class FakeGpu:
    """Runs the reference in place of the kernel; `breaks_at` says from which launch on it writes nothing."""

    name, arch, limits = "gpu", "sm_90", HOPPER

    def __init__(
        self, stopwatch: FakeStopwatch, name: str = "FakeGPU 9000", breaks_at: int | None = None
    ) -> None:
        self.stopwatch = stopwatch
        self.device_name = name
        self.breaks_at = breaks_at
        self.launches = 0
        self.cupy = SimpleNamespace(asnumpy=np.array, array_equal=np.array_equal)
        self._compiler = EmulatedDevice()

    def describe(self) -> dict[str, object]:
        return {"device": self.device_name, "arch": self.arch}

    def build(self, kernels: object, language: str = "cuda-c") -> object:
        return self._compiler.build(kernels, language)

    def on_device(self, array: np.ndarray, *, copy: bool = False) -> np.ndarray:
        return np.array(array)

    def empty(self, spec: object) -> np.ndarray:
        return poisoned(spec.shape, spec.dtype)

    def run(self, program: object, plan: object, *, sanitize: bool = False) -> Run:
        buffers = {name: np.array(array) for name, array in plan.inputs.items()}
        buffers |= {n: poisoned(s.shape, s.dtype) for n, s in plan.outputs.items() if n not in buffers}
        for call in self.calls(program, plan, buffers):
            call()
        return Run({name: buffers[name] for name in plan.outputs})

    def calls(self, program: object, plan: object, buffers: dict[str, np.ndarray]) -> tuple:
        def call() -> None:
            self.launches += 1
            self.stopwatch.pass_time(plan.cost().nbytes * SECONDS_A_BYTE)
            if self.breaks_at is not None and self.launches >= self.breaks_at:
                return
            inputs = {name: buffers[name] for name in plan.inputs}
            for name, value in plan.kernel.problem.reference(**inputs, **plan.parameters).items():
                buffers[name][...] = value

        return (call,) * len(plan.steps)
