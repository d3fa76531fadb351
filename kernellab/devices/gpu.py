"""A real GPU through CuPy: cubins as ``cupy.RawModule``, twins through Numba's dispatcher, on one stream."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from kernellab.arrays import ArraySpec
from kernellab.checks import Limits
from kernellab.devices.emulated import EmulatedDevice
from kernellab.devices.program import Kernels, Program, Run
from kernellab.errors import ExecutionError, SpecError, UnavailableError
from kernellab.kernel import Kernel, Language
from kernellab.plan import Launch, Plan
from kernellab.verify import poisoned

if TYPE_CHECKING:
    from collections.abc import Iterator

GUARD_BYTES = 4096
"""Filled before and after every output, and looked at after the run: writing there is writing out of bounds."""
GUARD_VALUE = 0xA5

Result = TypeVar("Result")


def import_cupy() -> Any:
    """Import CuPy and make sure that it sees a GPU.

    Raises
    ------
    UnavailableError
        If CuPy is not installed, there is no driver, or no device is visible.
    """
    try:
        import cupy
    except ImportError as error:
        raise UnavailableError(
            f"device: 'gpu' needs CuPy ({error}); install it with pip install 'kernellab[cuda13]'"
        ) from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # a driver that is absent or too old: CuPy has several types for that
        raise UnavailableError(
            f"device: 'gpu' is not here, CUDA says {error}; pass device='emulator'"
        ) from error
    if count == 0:
        raise UnavailableError(
            "device: 'gpu' is not here, CUDA sees no device (CUDA_VISIBLE_DEVICES is "
            f"{os.environ.get('CUDA_VISIBLE_DEVICES')!r}); pass device='emulator'"
        )
    return cupy


class GpuDevice:
    """The current device of CuPy; work goes to CuPy's current stream.

    Raises
    ------
    UnavailableError
        If there is no GPU.
    """

    name = "gpu"

    def __init__(self) -> None:
        self.cupy = import_cupy()
        self.process = os.getpid()
        device = self.cupy.cuda.Device()
        self.arch = f"sm_{device.compute_capability}"
        attributes = device.attributes
        self.limits = Limits(
            static_shared=attributes["MaxSharedMemoryPerBlock"],
            shared=attributes["MaxSharedMemoryPerBlockOptin"],
        )
        self._compiler = EmulatedDevice(self.arch)
        self._functions: dict[tuple[int, str, str], Any] = {}
        self._dispatchers: dict[tuple[Any, ...], Any] = {}
        self.broken_by = ""

    def describe(self) -> Mapping[str, Any]:
        """Return what stands in a Record's environment."""
        runtime = self.cupy.cuda.runtime
        number = self.cupy.cuda.Device().id
        properties = runtime.getDeviceProperties(number)
        return {
            "device": properties["name"].decode(),
            "arch": self.arch,
            "driver": runtime.driverGetVersion(),
            "runtime": runtime.runtimeGetVersion(),
            "cupy": self.cupy.__version__,
            "multiprocessors": properties["multiProcessorCount"],
            "l2_bytes": properties["l2CacheSize"],
            "memory_bytes": properties["totalGlobalMem"],
        }

    def build(self, kernels: Kernels, language: Language = "cuda-c") -> Program:
        """Compile kernels for this GPU; as `EmulatedDevice.build`."""
        found = self._compiler.build(kernels, language)
        return Program(self.name, language, found.arch, found.parts)

    # -- running
    def run(self, program: Program, plan: Plan, *, sanitize: bool = False) -> Run:
        """Run a plan once: fresh inputs, poisoned outputs between guard bands.

        Parameters
        ----------
        program : Program
        plan : Plan
            With NumPy or CuPy arrays.
        sanitize : bool
            Has no effect here: the hardware sees no races.

        Returns
        -------
        Run
            Outputs are NumPy arrays; a damaged guard band is its failure.
        """
        self._check_alive()
        guarded = {n: spec for n, spec in {**plan.outputs, **plan.temporaries}.items() if n not in plan.in_place}
        buffers: dict[str, Any] = {}
        guards: dict[str, Any] = {}
        for name, array in plan.inputs.items():
            buffers[name] = self.on_device(array, copy=name in plan.in_place)
        for name, spec in guarded.items():
            buffers[name], guards[name] = self._guarded(spec, name in plan.zeroed)
        self.launch(program, plan, buffers)
        with self.naming(plan.kernel):
            self.cupy.cuda.get_current_stream().synchronize()
        outputs = {name: self.cupy.asnumpy(buffers[name]) for name in plan.outputs}
        return Run(outputs, failure=self._damage(plan, guards))

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
        self._check_alive()
        make = self._numba_call if program.language == "numba" else self._raw_call
        return tuple(make(program, launch, buffers) for launch in plan.steps)

    def _raw_call(self, program: Program, launch: Launch, buffers: Mapping[str, Any]) -> Callable[[], None]:
        function = self.function(program, launch.kernel)
        self._check_threads(launch, function)
        if launch.shared_mem:
            function.max_dynamic_shared_size_bytes = launch.shared_mem
        arguments = launch.values(buffers, "cuda-c")
        grid, block, shared = launch.grid, launch.block, launch.shared_mem
        kernel = launch.kernel

        def call() -> None:
            with self.naming(kernel):
                function(grid, block, arguments, shared_mem=shared)

        return call

    def _numba_call(self, program: Program, launch: Launch, buffers: Mapping[str, Any]) -> Callable[[], None]:
        from kernellab.compile.numba_cuda import cuda_module

        cuda = cuda_module()
        dispatcher = self.dispatcher(launch.kernel)
        stream = cuda.external_stream(self.cupy.cuda.get_current_stream().ptr)
        # The arrays live on the stream of the launch, so Numba must not wait for the stream they export.
        arguments = [
            cuda.as_cuda_array(value, sync=False) if isinstance(value, self.cupy.ndarray) else value
            for value in launch.values(buffers, "numba")
        ]
        configured = dispatcher[launch.grid, launch.block, stream, launch.shared_mem]
        kernel = launch.kernel

        def call() -> None:
            with self.naming(kernel):
                configured(*arguments)

        return call

    def function(self, program: Program, kernel: Kernel) -> Any:
        """Return the loaded ``cupy.RawKernel`` of a kernel, for the current device."""
        binary, entry = program.binary(kernel), program.entry(kernel)
        key = (self.cupy.cuda.Device().id, binary.key, entry)
        found = self._functions.get(key)
        if found is None:
            found = self._functions[key] = self._load(binary, entry, kernel)
        return found

    def _load(self, binary: Any, entry: str, kernel: Kernel) -> Any:
        if binary.cubin is None:
            raise UnavailableError(
                f"{kernel.id}: there is no machine code for it ({binary.log or 'no assembler here'}); "
                "install kernellab[cuda13]"
            )
        # CuPy reads a cubin from a file only, and keeps it open no longer than the load.
        with tempfile.NamedTemporaryFile(suffix=".cubin", delete=False) as file:
            file.write(binary.cubin)
        try:
            with self.naming(kernel):
                return self.cupy.RawModule(path=file.name).get_function(entry)
        finally:
            with suppress(OSError):
                os.unlink(file.name)

    def dispatcher(self, kernel: Kernel) -> Any:
        """Return Numba's dispatcher of a kernel's twin."""
        from kernellab.compile.numba_cuda import cuda_module

        key = (kernel.id, kernel.twin, kernel.twin_source(), tuple(sorted(kernel.constants.items())))
        found = self._dispatchers.get(key)
        if found is None:
            found = self._dispatchers[key] = cuda_module().jit(kernel.twin_function())
        return found

    def _check_threads(self, launch: Launch, function: Any) -> None:
        threads = int(np.prod(launch.block))
        most = int(function.max_threads_per_block)
        if threads > most:
            raise SpecError(
                f"{launch.kernel.id}: block has {threads} threads, but {function.num_regs} registers a thread "
                f"allow {most} on this GPU; lower the block size"
            )

    # -- memory
    def on_device(self, array: Any, *, copy: bool = False) -> Any:
        """Return an array in device memory: the same one if it is there already and `copy` is false."""
        if isinstance(array, self.cupy.ndarray):
            return array.copy() if copy else array
        return self.allocate(lambda: self.cupy.array(np.ascontiguousarray(array)))

    def empty(self, spec: ArraySpec) -> Any:
        """Return unset device memory."""
        return self.allocate(lambda: self.cupy.empty(spec.shape, spec.dtype))

    def allocate(self, make: Callable[[], Result]) -> Result:
        """Allocate; when memory is short free the pools once and try again.

        Raises
        ------
        ExecutionError
            If it is still short; says who holds what.
        """
        error_type = self.cupy.cuda.memory.OutOfMemoryError
        try:
            return make()
        except error_type:
            self.free_pools()
        try:
            return make()
        except error_type as error:
            free, total = self.cupy.cuda.runtime.memGetInfo()
            pool = self.cupy.get_default_memory_pool()
            limit = f", its limit is {pool.get_limit()} bytes" if pool.get_limit() else ""
            raise ExecutionError(
                f"gpu: out of memory ({error}); CuPy's pool holds {pool.used_bytes()} bytes in use and "
                f"{pool.free_bytes()} free{limit}; the device has {free} of {total} bytes free; "
                "free arrays or take a smaller size"
            ) from error

    def free_pools(self) -> None:
        """Give what CuPy and Numba keep for later back to the driver."""
        self.cupy.get_default_memory_pool().free_all_blocks()
        self.cupy.get_default_pinned_memory_pool().free_all_blocks()
        with suppress(Exception):  # Numba may not be there, or hold nothing
            from kernellab.compile.numba_cuda import cuda_module

            cuda_module().current_context().deallocations.clear()

    def _guarded(self, spec: ArraySpec, is_zeroed: bool) -> tuple[Any, Any]:
        nbytes = -(-spec.nbytes // 512) * 512
        raw = self.allocate(lambda: self.cupy.full(nbytes + 2 * GUARD_BYTES, GUARD_VALUE, np.uint8))
        inner = raw[GUARD_BYTES : GUARD_BYTES + spec.nbytes]
        array = self.cupy.ndarray(spec.shape, spec.dtype, memptr=inner.data)
        host = np.zeros(spec.shape, spec.dtype) if is_zeroed else poisoned(spec.shape, spec.dtype)
        array.set(host)
        return array, raw

    def _damage(self, plan: Plan, guards: Mapping[str, Any]) -> str:
        for name, raw in guards.items():
            spec = {**plan.outputs, **plan.temporaries}[name]
            for where, part in (("before", raw[:GUARD_BYTES]), ("past the end of", raw[GUARD_BYTES + spec.nbytes :])):
                damaged = int(self.cupy.count_nonzero(part != GUARD_VALUE))
                if damaged:
                    return (
                        f"{plan.kernel.id}: {damaged} bytes {where} {name} were overwritten; "
                        "trace it on the emulator, which names the line"
                    )
        return ""

    # -- what can go wrong
    def _check_alive(self) -> None:
        if os.getpid() != self.process:
            raise UnavailableError(
                "gpu: this process was forked after CUDA had started, which CUDA cannot use; start workers with "
                "multiprocessing.get_context('spawn')"
            )
        if self.broken_by:
            raise ExecutionError(
                f"gpu: the CUDA context is dead since {self.broken_by}; start a new process"
            )

    @contextmanager
    def naming(self, kernel: Kernel) -> Iterator[None]:
        """Say which kernel a CUDA error belongs to; a sticky one ends everything that follows."""
        try:
            yield
        except self._errors() as error:
            text = str(error)
            if any(word in text for word in _STICKY):
                self.broken_by = f"{kernel.id} failed ({text})"
            raise ExecutionError(f"{kernel.id}: CUDA says {text}") from error

    def _errors(self) -> tuple[type[Exception], ...]:
        cuda = self.cupy.cuda
        return cuda.runtime.CUDARuntimeError, cuda.driver.CUDADriverError


_STICKY = (
    "ILLEGAL_ADDRESS", "IllegalAddress", "MISALIGNED_ADDRESS", "MisalignedAddress", "LAUNCH_FAILED", "LaunchFailure",
    "ILLEGAL_INSTRUCTION", "IllegalInstruction", "ASSERT", "Assert", "HARDWARE_STACK_ERROR", "LAUNCH_TIMEOUT",
    "ContextIsDestroyed", "cudaErrorInvalidPc",
)  # fmt: skip
