"""The stopwatch of a real GPU: CUDA events behind a gate kernel, through CuPy."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from kernellab.errors import SpecError

GATE_SECONDS = 2.0
"""After which the gate opens by itself, so that work which waits for the device does not hang."""

_SOURCE = r"""
extern "C" __global__ void kernellab_gate(volatile int* flag, int* opened_alone, long long nanoseconds) {
    long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    while (*flag == 0) {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
        if (now - start > nanoseconds) { *opened_alone = 1; return; }
        __nanosleep(200);
    }
}
extern "C" __global__ void kernellab_evict(const uint4* __restrict__ data, long long count, unsigned* never) {
    unsigned sum = 0;
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        uint4 v = data[i];
        sum |= v.x | v.y | v.z | v.w;
    }
    if (sum == 1u) *never = sum;
}
extern "C" __global__ void kernellab_empty() {}
extern "C" __global__ void kernellab_spin(long long nanoseconds) {
    long long start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); } while (now - start < nanoseconds);
}
extern "C" __global__ void kernellab_count(long long nanoseconds, long long* cycles_and_nanoseconds) {
    long long first, start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(first));
    do { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start)); } while (start == first);  // it ticks
    long long cycles = clock64();
    do { asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); } while (now - start < nanoseconds);
    cycles_and_nanoseconds[0] += clock64() - cycles;
    cycles_and_nanoseconds[1] += now - start;
}
"""


class CudaStopwatch:
    """Times what is queued on CuPy's current stream of the current device."""

    def __init__(self) -> None:
        import cupy

        self.cupy = cupy
        self.stream = cupy.cuda.get_current_stream()
        self.device = cupy.cuda.Device()
        self.number = int(self.device.id)
        module = cupy.RawModule(code=_SOURCE)
        self._gate = module.get_function("kernellab_gate")
        self._evict = module.get_function("kernellab_evict")
        self._spin = module.get_function("kernellab_spin")
        self._count = module.get_function("kernellab_count")
        self._empty = module.get_function("kernellab_empty")
        self._memory = cupy.cuda.alloc_pinned_memory(8)
        self._flags = np.frombuffer(self._memory, np.int32, 2)
        self._flags[:] = 1
        properties = cupy.cuda.runtime.getDeviceProperties(self.device.id)
        self.l2_bytes = int(properties["l2CacheSize"])
        self.processors = int(properties["multiProcessorCount"])
        self.overhead = 0.0
        self.gate_seconds = GATE_SECONDS
        self._evictor: Any = None
        self._never = cupy.zeros(1, np.uint32)
        self._counted = cupy.zeros(2, np.int64)
        self._nvml = _Nvml(cupy.cuda.runtime.deviceGetPCIBusId(self.number))

    def now(self) -> float:
        """Seconds on the host."""
        return time.perf_counter()

    def close_gate(self) -> None:
        """Hold what is queued from now on, for `GATE_SECONDS` at most."""
        self._flags[:] = 0
        pointer = np.uintp(self._memory.ptr)
        nanoseconds = np.int64(self.gate_seconds * 1e9)
        self._gate((1,), (1,), (pointer, np.uintp(self._memory.ptr + 4), nanoseconds))

    def open_gate(self) -> bool:
        """Let it run; False if it had opened by itself."""
        has_held = bool(self._flags[1] == 0)
        self._flags[0] = 1
        return has_held

    def mark(self) -> Any:
        """Queue an event."""
        number = int(self.cupy.cuda.runtime.getDevice())
        if number != self.number:
            raise SpecError(
                f"clock: it was made for device {self.number}, the current one is {number}, whose work it "
                "cannot "
                "time; make another clock there"
            )
        event = self.cupy.cuda.Event()
        event.record(self.stream)
        return event

    def seconds(self, start: Any, stop: Any) -> float:
        """Device time between two events, less what the events themselves take."""
        return max(float(self.cupy.cuda.get_elapsed_time(start, stop)) * 1e-3 - self.overhead, 0.0)

    def wait(self) -> None:
        """Wait for the stream."""
        self.stream.synchronize()

    def evict(self) -> None:
        """Read a buffer of twice the L2."""
        if self._evictor is None:
            self._evictor = self._unpooled(2 * self.l2_bytes // 16 * 16)
        count = np.int64(self._evictor.size // 4)
        self._evict((4 * self.processors,), (512,), (self._evictor, count, self._never))

    def _unpooled(self, nbytes: int) -> Any:
        """Return memory of its own: a piece of a chunk of CuPy's pool would keep the whole chunk from others.

        What has this size stays as long as the clock, and freeing the pools gives chunks back only whole.
        """
        cuda = self.cupy.cuda
        try:
            memory = cuda.Memory(nbytes)
        except cuda.runtime.CUDARuntimeError:
            self.cupy.get_default_memory_pool().free_all_blocks()
            memory = cuda.Memory(nbytes)
        array = self.cupy.ndarray(nbytes // 4, np.uint32, memptr=cuda.MemoryPointer(memory, 0))
        array.fill(0)
        return array

    def prepare(self) -> None:
        """Load the clock's own kernels, so that none is loaded behind a closed gate; find the events' cost.

        One empty kernel between two events takes the events' cost and its own time; a second one adds its
        own time only.
        """
        self.evict()
        self.spin(1e-6)
        self.count_cycles(1e-6)
        self._empty((1,), (1,), ())
        self.wait()
        self.overhead = 0.0
        one, two = (self._median_of_empty(count) for count in (1, 2))
        self.overhead = max(2 * one - two, 0.0)

    def _median_of_empty(self, kernels: int, samples: int = 41) -> float:
        marks = []
        self.close_gate()
        for _ in range(samples):
            start = self.mark()
            for _ in range(kernels):
                self._empty((1,), (1,), ())
            marks.append((start, self.mark()))
        self.open_gate()
        self.wait()
        return float(np.median([self.seconds(*pair) for pair in marks]))

    def spin(self, seconds: float) -> None:
        """Queue a kernel that lasts a known time."""
        self._spin((1,), (1,), (np.int64(seconds * 1e9),))

    def count_cycles(self, seconds: float = 2e-5) -> None:
        """Queue a kernel that lasts so long and adds up the cycles of its multiprocessor."""
        self._count((1,), (1,), (np.int64(seconds * 1e9), self._counted))

    def counted_hz(self) -> float:
        """Wait, and return the SM clock over all that `count_cycles` lasted since this was last asked."""
        cycles, nanoseconds = self._counted.get().tolist()
        self._counted.fill(0)
        return 1e9 * cycles / nanoseconds if nanoseconds else float("nan")

    def clock_hz(self) -> float | None:
        """The SM clock now."""
        return self._nvml.clock_hz(is_highest=False)

    def highest_clock_hz(self) -> float | None:
        """The SM clock that the device may reach."""
        return self._nvml.clock_hz(is_highest=True)


class _Nvml:
    """SM clocks through NVML, loaded as a plain library; None where it is not there."""

    def __init__(self, address: str) -> None:
        import ctypes
        import os

        self._library: Any = None
        self._handle = ctypes.c_void_p()
        try:
            library = ctypes.CDLL("nvml.dll" if os.name == "nt" else "libnvidia-ml.so.1")
            if library.nvmlInit_v2() == 0:
                # By its address on the bus: NVML counts devices that CUDA_VISIBLE_DEVICES hides.
                handle = ctypes.byref(self._handle)
                found = library.nvmlDeviceGetHandleByPciBusId_v2(address.encode(), handle)
                self._library = library if found == 0 else None
        except OSError:
            self._library = None

    def clock_hz(self, *, is_highest: bool) -> float | None:
        import ctypes

        if self._library is None:
            return None
        value = ctypes.c_uint()
        read = self._library.nvmlDeviceGetMaxClockInfo if is_highest else self._library.nvmlDeviceGetClockInfo
        return value.value * 1e6 if read(self._handle, 1, ctypes.byref(value)) == 0 else None
