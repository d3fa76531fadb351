"""A real GPU through CuPy: cubins as ``cupy.RawModule``, twins through Numba's dispatcher, on one stream."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from kernellab.arrays import ArraySpec, spec_of
from kernellab.checks import Limits
from kernellab.devices.emulated import KEPT_KERNELS, EmulatedDevice
from kernellab.devices.gpu_health import Health
from kernellab.devices.gpu_launch import Launcher, architecture
from kernellab.devices.gpu_memory import Memory
from kernellab.devices.program import Kernels, Program, Run
from kernellab.errors import SpecError, UnavailableError
from kernellab.kernel import Kernel, Language
from kernellab.plan import Plan

if TYPE_CHECKING:
    from kernellab.instruments.cuda_clock import CudaStopwatch

Result = TypeVar("Result")


def import_cupy() -> Any:
    """Import CuPy and make sure that it sees a GPU.

    Raises
    ------
    UnavailableError
        If no device is visible, CuPy is not installed or finds no folder for its cache, or there is no driver.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.split(",")[0].strip() in ("", "-1"):
        raise UnavailableError(
            f"device: 'gpu' is not here, CUDA_VISIBLE_DEVICES is {visible!r}, which hides every device; "
            "unset it, "
            "or pass device='emulator'"
        )
    try:
        import cupy
    except ImportError as error:
        from kernellab.compile.toolchain import install_command

        raise UnavailableError(
            f"device: 'gpu' needs CuPy ({error}); install it with {install_command()}"
        ) from error
    except (OSError, AttributeError) as error:  # it makes its cache's folder; a second try finds half of it
        raise UnavailableError(
            f"device: 'gpu' needs CuPy, which cannot be imported ({error}); start again with CUPY_CACHE_DIR set "
            "to a folder that can be written, or pass device='emulator'"
        ) from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # a driver that is absent or too old: CuPy has several types for that
        raise UnavailableError(
            f"device: 'gpu' is not here, CUDA says {error}; pass device='emulator'"
        ) from error
    if count == 0:
        raise UnavailableError(
            f"device: 'gpu' is not here, CUDA sees no device (CUDA_VISIBLE_DEVICES is {visible!r}); "
            "pass device='emulator'"
        )
    return cupy


class GpuDevice:
    """The current device of CuPy; work goes to CuPy's current stream.

    One object serves every GPU of a process: what was compiled and loaded is kept for each apart.

    Raises
    ------
    UnavailableError
        If there is no GPU.
    """

    name = "gpu"

    def __init__(self) -> None:
        self.cupy = import_cupy()
        self.health = Health(self.cupy)
        self.memory = Memory(self.cupy, self.health)
        self.launcher = Launcher(self.cupy, self.health)
        self._archs: dict[int, str] = {}
        self._limits: dict[int, Limits] = {}
        self._compilers: dict[str, EmulatedDevice] = {}
        self._stopwatches: dict[tuple[int, int], CudaStopwatch] = {}
        self._streams: dict[int, Any] = {}
        self._programs: dict[tuple[Any, ...], tuple[Kernel, Any, str, Program]] = {}

    @property
    def number(self) -> int:
        """Which device is current."""
        return int(self.cupy.cuda.Device().id)

    @property
    def arch(self) -> str:
        """What to compile for on the current device."""
        found = self._archs.get(self.number)
        if found is None:
            from kernellab.compile import nvrtc

            capability = str(self.cupy.cuda.Device().compute_capability)
            found = self._archs[self.number] = architecture(capability, nvrtc.architectures())
        return found

    @property
    def limits(self) -> Limits:
        """What the current device allows a block."""
        found = self._limits.get(self.number)
        if found is None:
            attributes = self.cupy.cuda.Device().attributes
            found = self._limits[self.number] = Limits(
                static_shared=int(attributes["MaxSharedMemoryPerBlock"]),
                shared=int(attributes["MaxSharedMemoryPerBlockOptin"]),
                multiprocessors=int(attributes["MultiProcessorCount"]),
            )
        return found

    @property
    def l2_bytes(self) -> int:
        """The size of its L2."""
        return int(self.cupy.cuda.runtime.getDeviceProperties(self.number)["l2CacheSize"])

    def describe(self) -> Mapping[str, Any]:
        """Return what stands in a Record's environment."""
        runtime = self.cupy.cuda.runtime
        properties = runtime.getDeviceProperties(self.number)
        return {
            "device": properties["name"].decode(),
            "arch": self.arch,
            "driver": runtime.driverGetVersion(),
            "runtime": runtime.runtimeGetVersion(),
            "cupy": self.cupy.__version__,
            "multiprocessors": properties["multiProcessorCount"],
            "l2_bytes": properties["l2CacheSize"],
            "multiprocessor_shared_bytes": properties.get("sharedMemPerMultiprocessor", 0),
            "memory_bytes": properties["totalGlobalMem"],
        }

    def build(self, kernels: Kernels, language: Language = "cuda-c", *, with_ladder: bool = True) -> Program:
        """Compile kernels for the current GPU; as `EmulatedDevice.build`.

        A kernel built before is not looked up again as long as its ``.cu`` file has the same time and size.
        """
        if not isinstance(kernels, Kernel):
            return self._build(kernels, language, with_ladder)
        key = (kernels.id, language, self.arch, tuple(sorted(kernels.constants.items())))
        known = self._programs.get(key)
        if known is not None and known[0] == kernels and known[1] == _stamp(known[2]):
            return known[3]
        path = str(kernels.path) if language == "cuda-c" else ""
        stamp = _stamp(path)
        program = self._build(kernels, language, with_ladder)
        while len(self._programs) >= KEPT_KERNELS:
            self._programs.pop(next(iter(self._programs)))
        self._programs[key] = (kernels, stamp, path, program)
        return program

    def _build(self, kernels: Kernels, language: Language, with_ladder: bool) -> Program:
        arch = self.arch
        compiler = self._compilers.get(arch)
        if compiler is None:
            compiler = self._compilers[arch] = EmulatedDevice(arch)
        found = compiler.build(kernels, language, with_ladder=with_ladder)
        return Program(self.name, language, found.arch, found.parts)

    # -- devices and streams
    def use(self, arrays: Iterable[Any], who: str) -> AbstractContextManager[Any]:
        """Make the device current on which arrays live; host arrays go anywhere.

        Raises
        ------
        SpecError
            If they live on several.
        """
        self.health.check()
        numbers = sorted({int(item.device.id) for item in arrays if isinstance(item, self.cupy.ndarray)})
        if len(numbers) > 1:
            where = " and ".join(map(str, numbers))
            raise SpecError(
                f"{who}: its arrays are on devices {where}, they must be on one; copy them with "
                "cupy.asarray under "
                f"cupy.cuda.Device({numbers[0]})"
            )
        if not numbers or numbers[0] == self.number:
            return nullcontext()
        device: AbstractContextManager[Any] = self.cupy.cuda.Device(numbers[0])
        return device

    def capture_stream(self) -> Any:
        """Return a stream of the current device for capturing graphs, which CUDA's default one cannot."""
        found = self._streams.get(self.number)
        if found is None:
            found = self._streams[self.number] = self.cupy.cuda.Stream(non_blocking=True)
        return found

    def stopwatch(self) -> CudaStopwatch:
        """Return the clock of the current device and stream, ready to be used."""
        from kernellab.instruments.cuda_clock import CudaStopwatch

        self.health.check()
        key = (self.number, int(self.cupy.cuda.get_current_stream().ptr))
        found = self._stopwatches.get(key)
        if found is None:
            found = CudaStopwatch()
            found.prepare()
            self._stopwatches = {key: found}  # holds an evictor of twice the L2: one is enough
        return found

    # -- running
    def run(self, program: Program, plan: Plan, *, sanitize: bool = False, is_counted: bool = True) -> Run:
        """Run a plan once: copies of its inputs and poisoned outputs, each between guard bands; then wait.

        Parameters
        ----------
        program : Program
        plan : Plan
            With NumPy or CuPy arrays.
        sanitize, is_counted : bool
            Have no effect here: the hardware sees no races and counts nothing by itself.

        Returns
        -------
        Run
            Outputs are NumPy arrays; what was written where nothing may be is its failure.
        """
        self.health.check()
        with self.health.naming(plan.kernel.id):
            self.health.settle()
            buffers, guards = self.memory.guard(plan)
            self.launch(program, plan, buffers)
            self.cupy.cuda.get_current_stream().synchronize()
            outputs = {n: self.cupy.asnumpy(buffers[n]).view(s.dtype) for n, s in plan.outputs.items()}
            return Run(outputs, failure=self.memory.damage(plan, buffers, guards))

    def apply(self, program: Program, plan: Plan, given: Mapping[str, Any]) -> dict[str, Any]:
        """Queue a plan on the current stream and return its outputs; the host does not wait.

        Parameters
        ----------
        program : Program
        plan : Plan
        given : mapping of str to cupy.ndarray
            The caller's outputs. One that the kernel can write is written by it.

        Returns
        -------
        dict of str to cupy.ndarray
            Ready on the current stream. Everything used is kept until the stream is done with it.
        """
        with self.health.naming(plan.kernel.id):
            buffers = {n: self.on_device(array, copy=n in plan.in_place) for n, array in plan.inputs.items()}
            for name, spec in {**plan.outputs, **plan.temporaries}.items():
                if name in plan.in_place:
                    continue
                buffers[name] = given[name] if self._is_writable(plan, given.get(name)) else self.empty(spec)
            for name in plan.zeroed:
                buffers[name].fill(0)
            self.launch(program, plan, buffers)
            outputs = {name: _typed(buffers[name], spec) for name, spec in plan.outputs.items()}
            for name, array in given.items():
                if buffers[name] is not array:
                    array[...] = outputs[name]
                outputs[name] = array
            self.health.hold(plan.kernel.id, (plan.inputs, buffers, given))
        return outputs

    def _is_writable(self, plan: Plan, array: Any) -> bool:
        """Whether a kernel may write straight into the caller's output."""
        if array is None:
            return False
        spec = spec_of(array)
        low, high = spec.extent
        apart = all(
            max(low, first) >= min(high, last)
            for first, last in (spec_of(each).extent for each in plan.inputs.values() if not _is_host(each))
        )
        alignment = plan.kernel.alignment or spec.dtype.itemsize
        return apart and spec.is_contiguous and spec.pointer % alignment == 0

    def launch(self, program: Program, plan: Plan, buffers: Mapping[str, Any]) -> None:
        """Queue a plan's launches on the current stream; nothing waits.

        Parameters
        ----------
        program : Program
        plan : Plan
        buffers : mapping of str to cupy.ndarray
            Inputs, outputs and temporaries.
        """
        for call in self.calls(program, plan, buffers):
            call()

    def calls(
        self, program: Program, plan: Plan, buffers: Mapping[str, Any]
    ) -> tuple[Callable[[], None], ...]:
        """Return one callable a launch, with everything looked up and packed already."""
        self.health.check()
        is_numba = program.language == "numba"
        make = self.launcher.numba_call if is_numba else self.launcher.raw_call
        return tuple(make(program, launch, buffers) for launch in plan.steps)

    # -- memory
    def on_device(self, array: Any, *, copy: bool = False) -> Any:
        """Return an array in device memory: the same one if it is there already and `copy` is false."""
        return self.memory.on_device(array, copy=copy)

    def empty(self, spec: ArraySpec) -> Any:
        """Return unset device memory."""
        return self.memory.empty(spec)

    def allocate(self, make: Callable[[], Result]) -> Result:
        """Allocate; when memory is short free the pools once and try again. See `Memory.allocate`."""
        return self.memory.allocate(make)


def _typed(array: Any, spec: ArraySpec) -> Any:
    """Return an output as the caller knows its elements, where CuPy has such."""
    if array.dtype == spec.dtype:
        return array
    try:
        return array.view(spec.dtype)
    except (TypeError, ValueError):
        return array


def _stamp(path: str) -> tuple[int, int] | None:
    """Return what tells a file from the one that was there before; None for no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _is_host(array: Any) -> bool:
    return not hasattr(array, "__cuda_array_interface__")
