"""A fake CuPy and a fake clock: a GPU made of NumPy, on which kernels are Python functions.

Launches are carried out at once; the log says in which order things were asked for.
"""

from __future__ import annotations

import ctypes
import types
from contextlib import contextmanager

import numpy as np

from kernellab.devices import gpu as gpu_module
from kernellab.devices.gpu import GpuDevice
from kernellab.devices.gpu_launch import Launcher

SHARED = 48 * 1024
OPTIN = 227 * 1024


class FakeRuntimeError(RuntimeError):
    """In place of cupy.cuda.runtime.CUDARuntimeError."""


class FakeDriverError(RuntimeError):
    """In place of cupy.cuda.driver.CUDADriverError."""


class FakeOutOfMemoryError(MemoryError):
    """In place of cupy.cuda.memory.OutOfMemoryError."""


class FaultError(Exception):
    """Raised by a fake kernel: an illegal access, which breaks the context."""


class Pointer:
    def __init__(self, base, offset=0, device_id=0):
        self.base, self.offset, self.device_id = base, offset, device_id

    @property
    def ptr(self):
        return self.base.ctypes.data + self.offset


class Unowned:
    """cupy.cuda.UnownedMemory: bytes at an address."""

    def __init__(self, ptr, size, owner, device_id=-1):
        self.base = np.frombuffer((ctypes.c_uint8 * size).from_address(ptr), np.uint8)
        self.device_id = getattr(owner, "device_id", 0)


class FakeArray:
    """cupy.ndarray over bytes of the host."""

    world = None

    def __init__(self, shape, dtype=np.float64, memptr=None, strides=None):
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        dtype = np.dtype(dtype)
        if memptr is None:
            nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            memptr = self.world.allocate(nbytes)
        self.data = memptr
        self.host = np.ndarray(shape, dtype, memptr.base.data, memptr.offset, strides)

    @classmethod
    def of(cls, host, data):
        made = cls.__new__(cls)
        made.data, made.host = data, host
        return made

    def _view(self, host):
        offset = host.ctypes.data - self.data.base.ctypes.data
        return FakeArray.of(host, Pointer(self.data.base, offset, self.data.device_id))

    device = property(lambda self: types.SimpleNamespace(id=self.data.device_id))
    shape = property(lambda self: self.host.shape)
    dtype = property(lambda self: self.host.dtype)
    size = property(lambda self: self.host.size)
    nbytes = property(lambda self: self.host.nbytes)
    ndim = property(lambda self: self.host.ndim)
    strides = property(lambda self: self.host.strides)
    flags = property(lambda self: self.host.flags)
    T = property(lambda self: self._view(self.host.T))

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "strides": None if self.flags.c_contiguous else self.strides,
            "data": (self.host.ctypes.data, False),
            "version": 3,
            "stream": self.world.stream.ptr or 1,
        }

    def copy(self, order="C"):
        made = FakeArray(self.shape, self.dtype)
        made.host[...] = self.host
        self.world.log.append(("copy", self.nbytes))
        return made

    def reshape(self, *shape):
        if not self.flags.c_contiguous:
            return self.copy().reshape(*shape)
        return self._view(self.host.reshape(*shape))

    def view(self, dtype):
        return self._view(self.host.view(dtype))

    def fill(self, value):
        self.host.fill(value)

    def set(self, array):
        assert isinstance(array, np.ndarray)
        self.world.send(array, self)

    def get(self):
        self.world.synchronize()
        return self.host.copy()

    def __getitem__(self, key):
        return self._view(self.host[key])

    def __setitem__(self, key, value):
        assert isinstance(value, FakeArray), "CuPy takes no NumPy array here"
        self.host[key] = value.host

    def __ne__(self, other):
        return FakeArray.of(self.host != getattr(other, "host", other), self.data)

    def __add__(self, other):
        return self.world.array(self.host + other.host)

    __hash__ = None

    def _value(self, function):
        self.world.synchronize()
        return function(self.host)

    def min(self):
        return self._value(np.min)

    def max(self):
        return self._value(np.max)

    def astype(self, dtype, copy=True):
        return self if np.dtype(dtype) == self.dtype else self.world.array(self.host.astype(dtype))

    def clip(self, low, high):
        return self.world.array(self.host.clip(low, high))

    def __mod__(self, length):
        return self.world.array(self.host % length)


FakeArray.__module__ = "cupy"  # which is how CuPy's arrays are told from others


class Foreign:
    """An array of another library, on a GPU: only what the protocol asks for."""

    def __init__(self, host, stream=None, device_id=0, is_readonly=False):
        self.host, self.device_id = host, device_id
        self._interface = {
            "shape": host.shape, "typestr": host.dtype.str, "data": (host.ctypes.data, is_readonly),
            "strides": None if host.flags.c_contiguous else host.strides, "version": 3, "stream": stream,
        }  # fmt: skip

    @property
    def __cuda_array_interface__(self):
        return self._interface


class Stream:
    def __init__(self, world, ptr):
        self.world, self.ptr = world, ptr

    def synchronize(self):
        self.world.log.append(("synchronize", self.ptr))
        self.world.synchronize()

    def __enter__(self):
        self.world.streams.append(self)
        return self

    def __exit__(self, *error):
        self.world.streams.pop()

    def begin_capture(self):
        assert self.ptr, "the default stream cannot be captured"
        self.world.captured = []

    def end_capture(self):
        calls, self.world.captured = self.world.captured, None
        return types.SimpleNamespace(launch=lambda stream: [call() for call in calls])


class Event:
    def __init__(self, world):
        self.world, self.ptr, self.is_done = world, 7000 + len(world.events), True
        world.events.append(self)

    def record(self, stream):
        self.seconds = self.world.device_seconds
        self.is_done = self.world.is_idle and not self.world.pending

    @property
    def done(self):
        self.world.raise_sticky()
        return self.is_done

    def synchronize(self):
        self.world.synchronize()
        self.is_done = True


class Function:
    """cupy.RawKernel: a Python function on host arrays, with a driver's refusals."""

    def __init__(self, world, entry):
        self.world, self.device_id = world, world.number
        # Numba's entries are mangled names that hold the plain one.
        self.kernel = next((name for name in world.kernels if name in entry), entry)
        self.entry = self.kernel if self.kernel == entry else f"{self.kernel} twin"
        self.num_regs, self.max_threads_per_block, self.shared_size_bytes = world.resources
        self._dynamic = SHARED - self.shared_size_bytes

    @property
    def max_dynamic_shared_size_bytes(self):
        return self._dynamic

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, nbytes):
        if nbytes + self.shared_size_bytes > OPTIN:
            raise FakeDriverError("CUDA_ERROR_INVALID_VALUE: invalid argument")
        self._dynamic = nbytes

    def __call__(self, grid, block, arguments, shared_mem=0):
        world = self.world
        if world.captured is not None:
            world.captured.append(lambda: self(grid, block, arguments, shared_mem))
            return
        world.raise_sticky()
        if world.number != self.device_id:
            raise FakeDriverError("CUDA_ERROR_INVALID_HANDLE: invalid resource handle")
        if shared_mem > self._dynamic:
            raise FakeDriverError("CUDA_ERROR_INVALID_VALUE: invalid argument")
        world.log.append(("launch", self.entry, world.stream.ptr))
        world.host_seconds += 5e-6
        world.device_seconds += world.seconds.get(self.entry, 1e-4) * next(world.noise, 1.0)
        values = [item.host if isinstance(item, FakeArray) else item for item in arguments]
        world.perform(lambda: self._run(values))

    def _run(self, values):
        try:
            self.world.kernels[self.kernel](*values)
        except FaultError:
            self.world.pending = "cudaErrorIllegalAddress: an illegal memory access was encountered"


class ClockFunction:
    """One of the clock's own kernels, which CuPy compiles from text."""

    def __init__(self, world, entry):
        self.world, self.entry = world, entry

    def __call__(self, grid, block, arguments, shared_mem=0):
        world = self.world
        world.log.append(("launch", self.entry, world.stream.ptr))
        if self.entry == "kernellab_gate":
            flag, opened_alone, _ = arguments
            world.gate = [
                np.ctypeslib.as_array((ctypes.c_int32 * 1).from_address(int(each)))
                for each in (flag, opened_alone)
            ]
        elif self.entry == "kernellab_spin":
            world.device_seconds += float(arguments[0]) * 1e-9 * next(world.noise, 1.0)
        elif self.entry == "kernellab_count":
            nanoseconds, counted = arguments
            world.device_seconds += float(nanoseconds) * 1e-9
            counted.host[:] += (2 * int(nanoseconds), int(nanoseconds))  # a clock of 2 GHz
        elif self.entry == "kernellab_evict":
            world.device_seconds += 3e-5
        else:
            world.device_seconds += 1e-6


class PinnedMemory(bytearray):
    """cupy.cuda.alloc_pinned_memory: bytes of the host that CuPy reads and writes when the stream comes."""

    @property
    def ptr(self):
        return np.frombuffer(self, np.uint8).ctypes.data


class Mark:
    """As opaque as CUDA's events: nothing can be done with it but ask a stopwatch."""

    def __init__(self, seconds):
        self.when = seconds


class World:
    """The fake CuPy (`cupy`), and all that tests look at or turn."""

    def __init__(self, devices=1, capability="90"):
        self.log, self.events, self.streams = [], [], []
        self.kernels, self.seconds = {}, {}
        self.resources = (32, 1024, 0)
        self.number, self.devices, self.capability = 0, devices, capability
        self.sticky, self.pending = "", ""
        self.is_idle, self.captured = True, None
        self.host_seconds = self.device_seconds = 0.0
        self.memory, self.used, self.frees = 2**40, 0, 0
        self.is_gated = self.has_opened = False
        self.noise, self.gate = iter(()), None
        self.pinned, self.queued = [], []
        self.null = Stream(self, 0)
        FakeArray.world = self
        self.cupy = self._module()

    @property
    def stream(self):
        return self.streams[-1] if self.streams else self.null

    def raise_sticky(self):
        if self.sticky:
            raise FakeRuntimeError(self.sticky)

    def surface(self):
        """Let what a kernel broke show itself, as it does some time after the launch."""
        self.sticky = self.sticky or self.pending

    def synchronize(self):
        if self.is_gated:
            self.has_opened = True
        if self.gate is not None and not self.gate[0][0]:  # its time is up
            self.gate[1][0] = 1
            self.gate = None
        for work in self.queued:
            work()
        self.queued.clear()
        self.surface()
        self.raise_sticky()
        self.host_seconds = max(self.host_seconds, self.device_seconds)

    def allocate(self, nbytes):
        if self.used + nbytes > self.memory:
            raise FakeOutOfMemoryError(f"out of memory allocating {nbytes} bytes")
        room = np.empty(nbytes + 512, np.uint8)
        start = -room.ctypes.data % 512
        return Pointer(room[start : start + nbytes], 0, self.number)

    def array(self, host):
        host = np.asarray(host)
        made = FakeArray(host.shape, host.dtype)
        self.send(host, made)
        return made

    def send(self, host, target):
        """Copy to the device; page-locked memory is read later."""
        if not self.is_pinned(host.ctypes.data):
            target.host[...] = host
            return
        self.queued.append(lambda: target.host.__setitem__(..., host))

    def is_pinned(self, pointer):
        return any(0 <= pointer - each.ptr < len(each) for each in self.pinned)

    def pin(self, nbytes):
        self.pinned.append(PinnedMemory(nbytes))
        return self.pinned[-1]

    def _malloc(self, nbytes):
        self.log.append(("cudaMalloc", nbytes))
        if self.used + nbytes > self.memory:
            raise FakeRuntimeError("cudaErrorMemoryAllocation: out of memory")
        return types.SimpleNamespace(base=np.empty(nbytes, np.uint8), device_id=self.number)

    def _full(self, shape, value, dtype):
        made = FakeArray(shape, dtype)
        made.host.fill(value)
        return made

    def _free(self):
        self.frees += 1
        self.log.append(("free pools",))
        self.used = 0

    def perform(self, work):
        """Carry out what a launch does: at once."""
        work()

    def launches(self):
        return [item for item in self.log if item[0] == "launch"]

    @contextmanager
    def on(self, number):
        before, self.number = self.number, number
        yield
        self.number = before

    def _device(self, number=None):
        attributes = {
            "MaxSharedMemoryPerBlock": SHARED, "MaxSharedMemoryPerBlockOptin": OPTIN,
            "MultiProcessorCount": 132,
        }  # fmt: skip
        world = self

        class Device:
            id = world.number if number is None else number
            compute_capability = world.capability

            def __enter__(self):
                self._before, world.number = world.number, self.id

            def __exit__(self, *error):
                world.number = self._before

        Device.attributes = attributes
        return Device()

    def _record(self, event, stream):
        self.log.append(("record", event, stream))

    def _wait(self, stream, event, flags):
        self.log.append(("wait", stream, event))

    def _memcpy(self, target, source, nbytes, kind, stream):
        self.host_seconds += 2e-6
        self.device_seconds += self.seconds.get("memcpy", 1e-4)

    def _load(self, path=None, code=None):
        if code is not None:
            return types.SimpleNamespace(get_function=lambda entry: ClockFunction(self, entry))
        with open(path, "rb") as file:
            self.log.append(("load", self.number, len(file.read())))
        return types.SimpleNamespace(get_function=lambda entry: Function(self, entry))

    def _module(self):
        pool = types.SimpleNamespace(
            free_all_blocks=self._free,
            used_bytes=lambda: self.used,
            free_bytes=lambda: 0,
            total_bytes=lambda: self.used,
            n_free_blocks=lambda: 0,
            get_limit=lambda: 0,
        )
        properties = {
            "name": b"Fake H200", "multiProcessorCount": 132, "l2CacheSize": 60 * 2**20,
            "totalGlobalMem": 2**37,
        }  # fmt: skip
        runtime = types.SimpleNamespace(
            CUDARuntimeError=FakeRuntimeError,
            getDeviceCount=lambda: self.devices,
            getDevice=lambda: self.number,
            getDeviceProperties=lambda number: properties,
            driverGetVersion=lambda: 13000,
            runtimeGetVersion=lambda: 13000,
            memGetInfo=lambda: (self.memory - self.used, self.memory),
            eventRecord=self._record,
            streamWaitEvent=self._wait,
            memcpyAsync=self._memcpy,
            memcpyDeviceToDevice=3,
            deviceGetPCIBusId=lambda number: "ffff:00:00.0",
        )
        cuda = types.SimpleNamespace(
            runtime=runtime,
            driver=types.SimpleNamespace(CUDADriverError=FakeDriverError),
            memory=types.SimpleNamespace(OutOfMemoryError=FakeOutOfMemoryError),
            Device=self._device,
            profiler=types.SimpleNamespace(
                start=lambda: self.log.append(("profile",)), stop=lambda: self.log.append(("done",))
            ),
            nvtx=types.SimpleNamespace(
                available=True,
                RangePush=lambda name: self.log.append(("range", name)),
                RangePop=lambda: self.log.append(("end of range",)),
            ),
            Event=lambda disable_timing=False: Event(self),
            Stream=lambda non_blocking=False: Stream(self, 4096),
            UnownedMemory=Unowned,
            Memory=self._malloc,
            alloc_pinned_memory=self.pin,
            pinned_memory=types.SimpleNamespace(is_memory_pinned=self.is_pinned),
            get_elapsed_time=lambda start, stop: (stop.seconds - start.seconds) * 1e3,
            MemoryPointer=lambda memory, offset: Pointer(memory.base, offset, memory.device_id),
            get_current_stream=lambda: self.stream,
        )
        return types.SimpleNamespace(
            __version__="14.2.0",
            ndarray=FakeArray,
            cuda=cuda,
            RawModule=self._load,
            array=self.array,
            asnumpy=lambda array: array.get(),
            empty=FakeArray,
            zeros=lambda shape, dtype: self._full(shape, 0, dtype),
            full=self._full,
            count_nonzero=lambda array: array._value(np.count_nonzero),
            ascontiguousarray=lambda array: array if array.flags.c_contiguous else array.copy(),
            get_default_memory_pool=lambda: pool,
            get_default_pinned_memory_pool=lambda: pool,
            where=lambda a, b, c: self.array(np.where(a.host, b.host, c.host)),
        )


class Stopwatch:
    """A clock for the fake device: what is queued lasts as long as the world says."""

    def __init__(self, world):
        self.world, self.gate_seconds, self.evictions = world, 2.0, 0

    def now(self):
        return self.world.host_seconds

    def close_gate(self):
        self.world.is_gated, self.world.has_opened = True, False

    def open_gate(self):
        self.world.is_gated = False
        return not self.world.has_opened

    def mark(self):
        return Mark(self.world.device_seconds)

    def seconds(self, start, stop):
        return stop.when - start.when

    def wait(self):
        self.world.synchronize()

    def evict(self):
        self.evictions += 1
        self.world.device_seconds += 3e-5

    def clock_hz(self):
        return 1.98e9

    def highest_clock_hz(self):
        return 1.98e9


# What the fake device runs under the entries of the catalogue.
def copy_scalar(x, y, n):
    y[...] = x


def transpose(x, y, *sizes):
    y[...] = x.T


def take(table, index, y, *sizes):
    y[...] = table[index]


KERNELS = {
    "copy_scalar": copy_scalar,
    "copy_float4": copy_scalar,
    "transpose_naive": transpose,
    "transpose_padded": transpose,
    "transpose_vectorised": transpose,
    "copy_take": take,
    "take_unrolled": take,
    "relu_branch_free": lambda x, y, n: y.__setitem__(..., np.maximum(x, 0)),
}


def make_gpu(monkeypatch, kind=World, **options):
    """Return a fake world and a GpuDevice in it, which is what ``device='gpu'`` and ``'auto'`` give then."""
    world = kind(**options)
    world.kernels.update(KERNELS)
    monkeypatch.setattr(gpu_module, "import_cupy", lambda: world.cupy)
    device = GpuDevice()
    stopwatch = Stopwatch(world)
    monkeypatch.setattr(device, "stopwatch", lambda: stopwatch)
    monkeypatch.setattr(Launcher, "numba_call", Launcher.raw_call)
    monkeypatch.setattr("kernellab.devices._gpu", lambda: device)
    monkeypatch.setattr("kernellab.devices.has_driver", lambda: True)
    return world, device
