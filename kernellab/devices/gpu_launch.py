"""Launches: cubins loaded once a device, arguments packed once, limits looked at before the driver does."""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kernellab.errors import SpecError, UnavailableError
from kernellab.instruments.profiler import NOBODY
from kernellab.tensor_map import TensorMap
from kernellab.tensor_table import TensorTable

if TYPE_CHECKING:
    from kernellab.compile.binary import Binary
    from kernellab.devices.gpu_health import Health
    from kernellab.devices.program import Program
    from kernellab.kernel import Kernel
    from kernellab.plan import Launch

DEFAULT_SHARED = 48 * 1024
"""Bytes of shared memory that a block gets without opting in, static and dynamic together."""
REGISTER_FILE = 64 * 1024
REGISTER_UNIT = 256
WARP = 32


class Launcher:
    """Makes callables of launches, for CuPy's current device and stream.

    Parameters
    ----------
    cupy : module
    health : Health
    """

    def __init__(self, cupy: Any, health: Health) -> None:
        self.cupy = cupy
        self.health = health
        self._functions: dict[tuple[int, str, str], Any] = {}
        self._dispatchers: dict[tuple[Any, ...], Any] = {}
        self._opted: dict[tuple[int, int], int] = {}
        self.profiler = NOBODY

    # -- CUDA C
    def raw_call(self, program: Program, launch: Launch, buffers: Mapping[str, Any]) -> Callable[[], None]:
        """Return a callable that launches a CUDA C kernel on the stream that is current when it is called."""
        kernel = launch.kernel
        function = self.function(program, kernel)
        check_threads(launch, int(function.num_regs), int(function.max_threads_per_block))
        self._opt_in(launch, function)
        passed = launch.values(buffers, "cuda-c")
        arguments = tuple(
            value.encode_for_driver() if isinstance(value, TensorMap | TensorTable) else value
            for value in passed
        )
        grid, block, shared = launch.grid, launch.block, launch.shared_mem

        health = self.health

        def call() -> None:  # timed by the host too, so nothing more than needed
            try:
                function(grid, block, arguments, shared_mem=shared)
            except health.errors() as error:
                raise health.blame(kernel.id, error) from error

        return self.profiler.wrapped(kernel.id, call)

    def _opt_in(self, launch: Launch, function: Any) -> None:
        """Let the kernel have its dynamic shared memory; never less than an earlier launch was given."""
        static = int(function.shared_size_bytes)
        key = (self._device(), id(function))
        # Counted with what is declared: 48 KiB of dynamic memory and one static byte need the opt-in too.
        if static + launch.shared_mem > DEFAULT_SHARED and launch.shared_mem > self._opted.get(key, 0):
            with self.health.naming(launch.kernel.id):
                function.max_dynamic_shared_size_bytes = launch.shared_mem
            self._opted[key] = launch.shared_mem

    def function(self, program: Program, kernel: Kernel) -> Any:
        """Return the loaded ``cupy.RawKernel`` of a kernel, for the current device."""
        binary, entry = program.binary(kernel), program.entry(kernel)
        key = (self._device(), binary.key, entry)
        found = self._functions.get(key)
        if found is None:
            found = self._functions[key] = self._load(binary, entry, kernel)
        return found

    def _load(self, binary: Binary, entry: str, kernel: Kernel) -> Any:
        image, suffix = image_of(binary, self.cupy.cuda.Device().compute_capability, kernel.id)
        # CuPy reads machine code from a file only, and keeps it open no longer than the load.
        with tempfile.NamedTemporaryFile(suffix=suffix, delete=False) as file:
            file.write(image)
        try:
            with self.health.naming(kernel.id):
                function = self.cupy.RawModule(path=file.name).get_function(entry)
                _ = function.kernel  # loaded now, as the file does not stay
                return function
        finally:
            with suppress(OSError):
                os.unlink(file.name)

    # -- Numba
    def numba_call(self, program: Program, launch: Launch, buffers: Mapping[str, Any]) -> Callable[[], None]:
        """Return a callable that launches a twin on the stream that is current now."""
        from kernellab.compile.elf import resource_usage
        from kernellab.compile.numba_cuda import cuda_module, quiet

        cuda = cuda_module()
        kernel, binary = launch.kernel, program.binary(launch.kernel)
        static = 0
        if binary.cubin is not None:
            used = resource_usage(binary)[program.entry(kernel)]
            static = used.shared_bytes
            check_threads(launch, used.registers, most_threads(used.registers))
        dispatcher = self.dispatcher(kernel)
        number = self._device()
        scope = self._numba_scope(cuda, number)
        # Numba warns of small grids when a launch is configured, and compiles at the first call.
        with scope(), quiet():
            stream = cuda.external_stream(self.cupy.cuda.get_current_stream().ptr)
            # The arrays are ready on the stream of the launch, so Numba must not wait for the one they
            # export.
            arguments = [
                cuda.as_cuda_array(value, sync=False) if isinstance(value, self.cupy.ndarray) else value
                for value in launch.values(buffers, "numba")
            ]
            if static + launch.shared_mem > DEFAULT_SHARED and launch.shared_mem:
                _opt_in_numba(dispatcher, arguments, launch.shared_mem, number)
            configured = dispatcher[launch.grid, launch.block, stream, launch.shared_mem]

        health = self.health
        is_plain = False  # after the first call, where there is only one GPU

        def call() -> None:
            nonlocal is_plain
            try:
                if is_plain:
                    configured(*arguments)
                    return
                with scope(), quiet():
                    configured(*arguments)
                is_plain = scope is contextlib.nullcontext
            except health.errors() as error:
                raise health.blame(kernel.id, error) from error

        return self.profiler.wrapped(kernel.id, call)

    def _numba_scope(self, cuda: Any, number: int) -> Callable[[], Any]:
        """Return what makes Numba work on CuPy's device: nothing, as long as there is only one."""
        if int(self.cupy.cuda.runtime.getDeviceCount()) == 1:
            return contextlib.nullcontext
        return lambda: cuda.gpus[number]

    def dispatcher(self, kernel: Kernel) -> Any:
        """Return Numba's dispatcher of a kernel's twin; it keeps machine code for each device itself."""
        from kernellab.compile.numba_cuda import cuda_module
        from kernellab.devices.emulated import twin_options

        options = twin_options(kernel)
        key = (kernel.entry, kernel.twin, tuple(sorted(kernel.constants.items())), tuple(options.items()))
        found = self._dispatchers.get(key)
        if found is None:
            found = self._dispatchers[key] = cuda_module().jit(**options)(kernel.twin_function())
        return found

    def _device(self) -> int:
        return int(self.cupy.cuda.Device().id)


def _opt_in_numba(dispatcher: Any, arguments: list[Any], nbytes: int, device: int) -> None:
    """Let a twin have more than 48 KiB of shared memory, which numba-cuda does not ask for."""
    from cuda.bindings import driver

    compiled = dispatcher.compile(tuple(dispatcher.typeof_pyval(value) for value in arguments))
    handle = compiled._codelibrary.get_cufunc().kernel.handle
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    (status,) = driver.cuKernelSetAttribute(attribute, nbytes, handle, device)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise SpecError(
            f"numba: CUDA refuses {nbytes} bytes of dynamic shared memory ({status.name}); lower it"
        )


def image_of(binary: Binary, capability: str, who: str) -> tuple[bytes, str]:
    """Return what a GPU can load, machine code or else PTX for its driver, and the suffix of its file.

    Parameters
    ----------
    binary : Binary
    capability : str
        The GPU's, as CuPy spells it: ``"90"``.
    who : str
        For the message.

    Raises
    ------
    UnavailableError
        If there is neither.
    """
    built = int(binary.arch[3:].rstrip("af"))
    is_native = built // 10 == int(capability) // 10 and built <= int(capability)
    if is_native and binary.cubin is not None:
        return binary.cubin, ".cubin"
    if not is_native and built <= int(capability) and binary.ptx:
        return binary.ptx.encode(), ".ptx"
    from kernellab.compile.toolchain import install_command

    raise UnavailableError(
        f"{who}: there is no machine code for it ({binary.log or 'no assembler here'}); "
        f"{install_command()} brings one"
    )


def most_threads(registers: int) -> int:
    """Return how many threads a block may have with that many registers a thread.

    Examples
    --------
    >>> most_threads(64), most_threads(65), most_threads(255)
    (1024, 896, 256)
    """
    from kernellab.checks import BLOCK_THREADS

    a_warp = -(-max(registers, 1) * WARP // REGISTER_UNIT) * REGISTER_UNIT
    # Warps are given out in fours.
    return min(BLOCK_THREADS, REGISTER_FILE // a_warp // 4 * 4 * WARP)


def check_threads(launch: Launch, registers: int, most: int) -> None:
    """Refuse a block whose threads need more registers than there are.

    Raises
    ------
    SpecError
        With the largest block that can run.
    """
    threads = math.prod(launch.block)
    if threads > most:
        raise SpecError(
            f"{launch.kernel.id}: block has {threads} threads, but {registers} registers a thread "
            f"allow {most} on this GPU; lower the block size"
        )


def architecture(capability: str, known: tuple[int, ...], who: str = "gpu") -> str:
    """Return what to compile for on a GPU.

    Parameters
    ----------
    capability : str
        The GPU's: ``"90"``.
    known : tuple of int
        What this NVRTC compiles for.
    who : str

    Returns
    -------
    str
        The GPU's own architecture; else the newest older one of its family, whose machine code runs on it;
        else, for a GPU newer than all, the newest, whose PTX its driver compiles.

    Raises
    ------
    UnavailableError
        For a GPU older than all of them.

    Examples
    --------
    >>> architecture("90", (75, 80, 90, 100)), architecture("130", (75, 80, 90, 100))
    ('sm_90', 'sm_100')
    """
    number = int(capability)
    older = [arch for arch in known if arch <= number]
    if not older:
        least = min(known, default=0)
        from kernellab.compile.toolchain import install_command

        remedy = f"CUDA 12 ({install_command('cuda12')}) compiles for 5.0 and newer"
        raise UnavailableError(
            f"{who}: this GPU has capability {number // 10}.{number % 10}, the NVRTC here compiles for "
            f"{least // 10}.{least % 10} and newer; {remedy}"
        )
    family = [arch for arch in older if arch // 10 == number // 10]
    return f"sm_{max(family or older)}"
