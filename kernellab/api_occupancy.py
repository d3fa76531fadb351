"""`occupancy`: how many blocks of a kernel a multiprocessor holds, what limits them, and how a grid fills them."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.errors import ArgumentError, SpecError
from kernellab.geometry import dimensions
from kernellab.instruments import occupancy as calculator
from kernellab.instruments.occupancy import THREADS_PER_BLOCK, Occupancy
from kernellab.kernel import Kernel, Language

if TYPE_CHECKING:
    from kernellab.compile.binary import Binary

ARCH = "sm_90"


@dataclass(frozen=True)
class Needs:
    """What one block of a kernel takes.

    Attributes
    ----------
    threads : int
    registers : int
        A thread.
    shared_bytes : int
        Static and dynamic.
    barriers : int
        Named barriers.
    most_threads : int
        That the kernel was compiled for: its launch bounds, or what any block may have.
    """

    threads: int
    registers: int
    shared_bytes: int = 0
    barriers: int = 1
    most_threads: int = THREADS_PER_BLOCK

    def occupancy(self, arch: str = ARCH) -> Occupancy:
        """Return the occupancy on an architecture."""
        return calculator.occupancy(arch, **vars(self))


def occupancy(
    kernel: int | str | Kernel,
    threads: int | tuple[int, ...] | None = None,
    shared_mem: int | None = None,
    *,
    language: Language = "cuda-c",
    arch: str = ARCH,
) -> Occupancy:
    """Return how many blocks and warps of a kernel a multiprocessor holds, and what limits them.

    Parameters
    ----------
    kernel : int, str or Kernel
        Registers a thread, 0 to 255; an id such as ``"transpose/padded"`` or a Kernel, compiled to see what it
        takes; or a CUDA C or PTX file and its entry, ``"mine.cu::my_kernel"``.
    threads : int or tuple of int, optional
        Of one block, 1 to 1024, or along x, y and z; by default the block of the kernel's first case.
    shared_mem : int, optional
        Dynamic shared memory of a block in bytes, beside what the source declares; by default what the kernel's
        first case takes, and 0 for registers and files. Where only registers are given: all of it.
    language : {"cuda-c", "numba"}
        Which twin of the catalogue's kernel.
    arch : str
        Such as ``"sm_90"``; for one whose limits are not known the error lists those that are.

    Returns
    -------
    Occupancy
        ``blocks``, ``warps``, ``fraction``, ``limited_by`` and ``limiter``; ``waves(grid)`` says how a grid
        fills a device.

    Raises
    ------
    ArgumentError
        If the threads are not known, or something is of the wrong kind.
    SpecError
        For a number out of range, or an unknown kernel, file or architecture.
    CompileError, UnavailableError
        If the kernel cannot be compiled.

    Examples
    --------
    >>> import kernellab as kl
    >>> found = kl.occupancy(40, threads=256)
    >>> found.blocks, found.warps, found.fraction, found.limiter
    (6, 48, 0.75, 'registers')
    >>> kl.occupancy(32, 256, shared_mem=100_000).limiter
    'shared memory'
    >>> kl.occupancy(32, 256).waves(1057).tail
    1
    """
    return needs(kernel, threads, shared_mem, language, arch).occupancy(arch)


def needs(
    kernel: int | str | Kernel,
    threads: int | tuple[int, ...] | None = None,
    shared_mem: int | None = None,
    language: Language = "cuda-c",
    arch: str = ARCH,
) -> Needs:
    """Return what one block takes; as `occupancy` takes it."""
    calculator.multiprocessor(arch)
    count = None if threads is None else math.prod(dimensions(threads, "threads", "occupancy"))
    dynamic = None if shared_mem is None else calculator.whole("shared_mem", shared_mem)
    if dynamic is not None and dynamic < 0:
        raise SpecError(f"occupancy: shared_mem is {dynamic}, it must be at least 0; correct it")
    if isinstance(kernel, Kernel) or (isinstance(kernel, str) and not is_file(kernel)):
        return _of_kernel(kernel, count, dynamic, language, arch)
    if count is None:
        raise ArgumentError(f"occupancy: the threads of a block of {kernel} are not known; pass threads=256")
    if isinstance(kernel, str):
        return _taken(*_file(kernel, arch), count, dynamic or 0)
    try:
        registers = operator.index(kernel)
    except TypeError:
        rule = "it must be registers a thread, a kernel's id or FILE::ENTRY"
        raise ArgumentError(f"occupancy: kernel is {kernel!r}, {rule}; pass one of these") from None
    return Needs(count, registers, dynamic or 0)


def is_file(target: str) -> bool:
    """Say whether a target is a file, with its entry or without."""
    return "::" in target or Path(target).suffix in (".cu", ".ptx", ".py")


def _of_kernel(
    kernel: str | Kernel, threads: int | None, dynamic: int | None, language: Language, arch: str
) -> Needs:
    from kernellab.devices.emulated import EmulatedDevice
    from kernellab.measurement import prepare

    device = EmulatedDevice(arch)
    plan = prepare(kernel, (), device=device, parameters={}).plan
    launch = plan.steps[0]
    program = device.build(plan.kernel, language, with_ladder=False)
    return _taken(
        program.binary(launch.kernel),
        program.entry(launch.kernel),
        math.prod(launch.block) if threads is None else threads,
        launch.shared_mem if dynamic is None else dynamic,
    )


def compiled_file(target: str, arch: str = ARCH) -> tuple[Binary, Mapping[str, str]]:
    """Compile ``FILE::ENTRY`` or a file; return the binary, and PTX entries by the names that are asked for.

    Raises
    ------
    SpecError
        If the file cannot be read, is Python, or has no such kernel.
    CompileError
        If it does not compile.
    """
    from kernellab.compile import assemble_ptx, compile_cuda, find_entry
    from kernellab.trace import is_ptx

    path, _, name = target.partition("::")
    if Path(path).suffix == ".py":
        raise SpecError(f"{path}: it is no .cu or .ptx file; give one of those, or PROBLEM/RUNG")
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise SpecError(f"{path}: it cannot be read: {error.strerror}; write FILE::ENTRY") from error
    expressions = (name,) if name and not name.isidentifier() else ()
    binary = (
        assemble_ptx(text, path=path)
        if is_ptx(text)
        else compile_cuda(text, path=path, arch=arch, name_expressions=expressions)
    )
    if name:
        return binary, {name: find_entry(binary, name)}
    found: dict[str, str] = {}
    for each, entry in binary.names.items():
        found[entry] = min(each, found.get(entry, each), key=len)
    return binary, {each: entry for entry, each in found.items()}


def _file(target: str, arch: str) -> tuple[Binary, str]:
    from kernellab.compile.entry import which_of

    binary, entries = compiled_file(target, arch)
    if len(entries) != 1:
        raise which_of(target.partition("::")[0], list(entries))
    return binary, next(iter(entries.values()))


def _taken(binary: Binary, entry: str, threads: int, dynamic: int) -> Needs:
    from kernellab.compile import resource_usage
    from kernellab.emulation import parsed

    used = resource_usage(binary)[entry]
    bounds = parsed(binary.ptx).functions[entry].performance
    most = math.prod(bounds.get("maxntid") or bounds.get("reqntid") or (THREADS_PER_BLOCK,))
    return Needs(threads, used.registers, used.shared_bytes + dynamic, used.barriers, most)
