"""The only place that imports numba: compile a Python kernel to PTX with no driver and no GPU.

numba-cuda asks the driver for a compute capability as soon as a kernel calls a device function. `_session`
answers for it, and leaves no trace in the caller's dispatchers. numba-cuda is in maintenance; should its
successor replace it, this file changes and nothing else.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import os
import re
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from kernellab.compile import nvrtc, ptx_text
from kernellab.compile.toolchain import install_command, toolchain
from kernellab.errors import CompileError, UnavailableError

_CONTEXT = re.compile(r"(Failed in \w+ mode|During: |File \"|\^|-+$|This error may|\[\d\]|<source missing)")


@dataclass(frozen=True)
class NumbaPtx:
    """What Numba made of one kernel: helpers merged in, entry named as Numba names it."""

    ptx: str
    entry: str
    needs_device_runtime: bool
    log: str


@functools.cache
def cuda_module() -> ModuleType:
    """``numba.cuda``, or `UnavailableError` with the remedy."""
    if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0"):
        raise UnavailableError(
            "numba.cuda is in simulator mode, which compiles nothing: unset NUMBA_ENABLE_CUDASIM"
        )
    try:
        with quiet():
            from numba import cuda
            from numba.cuda import compiler  # noqa: F401
    except Exception as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise UnavailableError(
            f"numba-cuda does not import ({first}); {install_command()} brings a set that fits"
        ) from error
    return cuda  # type: ignore[no-any-return]


_filters = threading.RLock()


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep the compilers' warnings from the caller; one thread at a time, as the filters are the process's."""
    with _filters, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def is_dispatcher(function: object) -> bool:
    """Whether `function` came from ``@cuda.jit``; imports nothing."""
    return hasattr(function, "py_func") and hasattr(function, "targetoptions")


def numba_type(description: Any) -> Any:
    """Turn an `ArgumentType`, a string such as ``"float32[:, ::1]"`` or a Numba type into a Numba type."""
    from kernellab.compile.numba_arguments import ArgumentType

    cuda_module()
    from numba.cuda import types
    from numba.cuda.core import sigutils
    from numba.cuda.typing.typeof import Purpose, typeof

    with quiet():
        if isinstance(description, ArgumentType):
            return typeof(description.example(), Purpose.argument)
        if isinstance(description, str):
            (parsed,), _ = sigutils.normalize_signature(f"void({description})")
            return parsed
        if isinstance(description, types.Type):
            return description
    raise UnavailableError(f"{description!r} is no argument type; numba_types(args) makes them")


def compile_ptx(
    function: Any, argument_types: Sequence[Any], arch: str, options: Mapping[str, Any], label: str
) -> NumbaPtx:
    """Compile a Python kernel to one PTX text.

    Parameters
    ----------
    function : callable
        A plain Python function or a ``@cuda.jit`` dispatcher.
    argument_types : sequence
        See `numba_type`.
    arch : str
        Such as ``"sm_90"``.
    options : mapping
        ``fastmath``, ``opt``, ``launch_bounds``, ``link``.
    label : str
        How messages call the kernel.

    Returns
    -------
    NumbaPtx

    Raises
    ------
    CompileError
        With Numba's own words in `log`.
    """
    cuda_module()
    python_function = function.py_func if is_dispatcher(function) else function
    capability = _capability(arch)
    try:
        with quiet(), _session(capability):
            library, entry = _lower(
                python_function, [numba_type(each) for each in argument_types], capability, options
            )
            ptx = str(library.get_asm_str(cc=capability))
            linked = [*getattr(library, "_linking_files", ()), *(options.get("link") or ())]
            is_cooperative = bool(library.use_cooperative)
    except UnavailableError:
        raise
    except Exception as error:
        raise _explain(error, label, python_function) from error
    ptx, log = _merge_helpers(ptx, linked, arch, label)
    return NumbaPtx(ptx, entry, is_cooperative, log)


def _capability(arch: str) -> tuple[int, int] | tuple[int, int, str]:
    nvrtc.check_architecture(arch)
    digits = arch[3:].rstrip("af")
    suffix = arch[3 + len(digits) :]
    number = (int(digits[:-1]), int(digits[-1]))
    return (*number, suffix) if suffix else number


def _lower(
    function: Any, types_: Sequence[Any], capability: Any, options: Mapping[str, Any]
) -> tuple[Any, str]:
    """Numba's own steps for a kernel (those of its dispatcher), without the device behind them."""
    from numba.cuda import compiler, types
    from numba.cuda.cudadrv import nvvm

    fastmath = bool(options.get("fastmath"))
    result = compiler.compile_cuda(
        function,
        types.void,
        tuple(types_),
        lineinfo=True,
        fastmath=fastmath,
        nvvm_options={"fastmath": fastmath, "opt": 3 if options.get("opt", True) else 0},
        cc=capability,
    )
    library = result.library
    kernel = library.get_function(result.fndesc.llvm_func_name)
    library._entry_name = result.fndesc.llvm_func_name
    compiler.kernel_fixup(kernel, False)
    nvvm.set_launch_bounds(kernel, options.get("launch_bounds"))
    return library, str(kernel.name)


@contextlib.contextmanager
def _session(capability: Any) -> Iterator[None]:
    """Answer for the driver, compile device functions with line tables, and drop them again afterwards."""
    from numba.cuda import dispatcher
    from numba.cuda.core.compiler_lock import global_compiler_lock

    class Device:
        compute_capability = capability

    original_device = dispatcher.get_current_device
    original_compile = dispatcher.CUDADispatcher.compile_device
    made: list[tuple[Any, Any]] = []

    def compile_device(self: Any, args: Any, return_type: Any = None) -> Any:
        if args in self.overloads:
            return original_compile(self, args, return_type)
        before = self.targetoptions
        self.targetoptions = {**before, "lineinfo": True, "debug": False, "opt": before.get("opt", True)}
        try:
            result = original_compile(self, args, return_type)
        finally:
            self.targetoptions = before
        made.append((self, args))
        return result

    with global_compiler_lock:
        dispatcher.get_current_device = lambda: Device
        dispatcher.CUDADispatcher.compile_device = compile_device
        try:
            yield
        finally:
            dispatcher.get_current_device = original_device
            dispatcher.CUDADispatcher.compile_device = original_compile
            for owner, args in made:
                owner.overloads.pop(args, None)


@contextlib.contextmanager
def without_driver(arch: str = "sm_90") -> Iterator[None]:
    """Let modules be imported whose kernels are declared with signatures, where there is no driver.

    ``@cuda.jit("void(float32[:])")`` compiles and loads at once. Within this context a kernel only notes its
    signature (`numba_types` reads it), and a device function is compiled for `arch`.
    """
    cuda_module()
    from numba.cuda import dispatcher

    from kernellab.compile.numba_arguments import DECLARED

    class Device:
        compute_capability = _capability(arch)

    def note(self: Any, signature: Any) -> None:
        from numba.cuda.core import sigutils

        # Of several signatures the arguments choose, as without any.
        signature = None if hasattr(self, DECLARED) else sigutils.normalize_signature(signature)[0]
        setattr(self, DECLARED, signature)

    def disable(self: Any, value: bool = True) -> None:
        if not hasattr(self, DECLARED):
            disable_compile(self, value)

    kind = dispatcher.CUDADispatcher
    disable_compile = kind.disable_compile
    originals = dispatcher.get_current_device, kind.compile
    dispatcher.get_current_device = lambda: Device
    kind.compile, kind.disable_compile = note, disable
    try:
        with quiet():
            yield
    finally:
        dispatcher.get_current_device, kind.compile = originals
        kind.disable_compile = disable_compile


def _merge_helpers(ptx: str, linked: Sequence[Any], arch: str, label: str) -> tuple[str, str]:
    """Compile the CUDA helpers that Numba would link (float16, reshape) and put them into the text."""
    logs = []
    for item in [*linked, *_reshape_helper(ptx)]:
        from numba.cuda.cudadrv.linkable_code import LinkableCode

        with quiet():
            code = LinkableCode.from_path_or_obj(item)
        if code.kind == "cu":
            text = code.data.decode() if isinstance(code.data, bytes) else str(code.data)
            made = _compile_helper(text, code.name, arch, _called_names(ptx))
            helper, log = made.ptx, made.log
        elif code.kind == "ptx":
            helper, log = (code.data.decode() if isinstance(code.data, bytes) else str(code.data)), ""
        else:
            raise CompileError(
                f"{label}: link={code.name} is {code.kind}, which has no PTX to run; link .cu or .ptx files"
            )
        if set(ptx_text.undefined_functions(ptx)) & set(ptx_text.defined_functions(helper)):
            ptx = ptx_text.merge(ptx, helper)
        logs.append(log)
    return ptx, "\n".join(log for log in logs if log)


def _called_names(ptx: str) -> tuple[str, ...]:
    return ptx_text.undefined_functions(ptx)


def _reshape_helper(ptx: str) -> list[str]:
    wanted = {"numba_attempt_nocopy_reshape", "nocopy_empty_reshape"} & set(ptx_text.undefined_functions(ptx))
    return [str(_package() / "reshape_funcs.cu")] if wanted else []


def _package() -> Path:
    file = cuda_module().__file__
    assert file is not None
    return Path(file).parent


@functools.lru_cache(maxsize=32)
def _compile_helper(text: str, name: str, arch: str, wanted: tuple[str, ...]) -> nvrtc.Compilation:
    own = _package() / "include" / str(nvrtc.version()[0])
    folders = [own, *toolchain().include_dirs, _package() / "memory_management"]
    options = [
        f"-arch={arch}",
        "-std=c++17",
        "-default-device",
        "-rdc=true",
        *(f"-I{folder}" for folder in folders),
    ]
    try:
        return nvrtc.compile_text(text, name, options, is_relocatable=True)
    except nvrtc.NvrtcError as error:
        first = next((row for row in error.log.splitlines() if "error" in row), error.log)
        raise CompileError(f"Numba's helper {name} does not compile: {first}", error.log) from error


def _explain(error: Exception, label: str, function: Any) -> CompileError:
    log = re.sub(r"\x1b\[[0-9;]*m", "", str(error)) or type(error).__name__
    rows = [row.strip() for row in log.splitlines() if row.strip()]
    reasons = [row for row in rows if not _CONTEXT.match(row)]
    reason = reasons[0] if reasons else type(error).__name__
    if reason.endswith("signature:"):
        reason = " ".join([reason, *(row.removeprefix(">>>").strip() for row in reasons[1:2])])
    return CompileError(f"{label}: Numba does not compile it: {reason} ({_place(log, function)})", log)


def _place(log: str, function: Any) -> str:
    """Where it went wrong: Numba's own word, else where the missing name is used, else the function."""
    code = function.__code__
    file, line = code.co_filename, code.co_firstlineno
    named = re.search(r'File "([^"]+)", line (\d+)', log)
    missing = re.search(r"name '(\w+)' is not defined", log)
    if named:
        file, line = named[1], int(named[2])
    elif missing:
        for instruction in dis.get_instructions(code):
            if instruction.argval == missing[1] and instruction.positions and instruction.positions.lineno:
                line = instruction.positions.lineno
                break
    return f"line {line} of {os.path.basename(file)}"
