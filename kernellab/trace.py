"""`trace`: run anybody's kernel on the emulator, and what it counted."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernellab.compile.binary import Binary
from kernellab.emulator.counts import Diagnostic
from kernellab.emulator.summary import Line
from kernellab.errors import ArgumentError, SpecError
from kernellab.geometry import Dim3


@dataclass(frozen=True)
class Trace:
    """What a launch on the emulator counted.

    Attributes
    ----------
    kernel : str
        The kernel's name.
    language : str
        ``cuda-c``, ``numba`` or ``ptx``.
    arch : str
    grid, block : tuple of int
        As launched: x, y, z.
    shared_bytes : int
        Shared memory of a block, static and dynamic.
    totals : mapping of str to number
        Sums over the launch by name, such as ``global_load_sectors``.
    lines : tuple of Line
        The same by source line.
    diagnostics : tuple of Diagnostic
        What the kernel did wrong, in the order of first occurrence.
    source : str
        ``SASS`` when every access and branch was decided by the machine code, ``approximate`` when some are
        counted as the PTX writes them.
    mapped : float
        Share decided by the machine code.
    notes : tuple of str
        What is approximate and why; that no block ran, where the grid is empty.
    output : str
        What printf printed.
    sampled_blocks : int
        0 for all blocks; else how many were run.
    standard_errors : mapping of str to float
        Of the totals, when blocks were sampled.
    parameters : tuple of str
        Names of the kernel's parameters, where the source tells them.
    is_sanitized : bool
        Whether races in shared memory were looked for.
    """

    kernel: str
    language: str
    arch: str
    grid: Dim3
    block: Dim3
    shared_bytes: int
    totals: Mapping[str, float]
    lines: tuple[Line, ...]
    diagnostics: tuple[Diagnostic, ...] = ()
    source: str = "approximate"
    mapped: float = 0.0
    notes: tuple[str, ...] = ()
    output: str = ""
    sampled_blocks: int = 0
    standard_errors: Mapping[str, float] = field(default_factory=dict)
    parameters: tuple[str, ...] = ()
    is_sanitized: bool = False

    def line(self, number: int, file: str | None = None) -> Line:
        """Return the counts of a source line.

        Parameters
        ----------
        number : int
            1-based line number.
        file : str, optional
            End of the file's path, where several files have that line.

        Raises
        ------
        SpecError
            If no instruction comes from that line.
        """
        found = [
            line
            for line in self.lines
            if line.number == number and (file is None or line.file.endswith(file))
        ]
        if not found:
            known = ", ".join(str(line.number) for line in self.lines) or "none"
            raise SpecError(
                f"{self.kernel}: no instruction comes from line {number}; lines with code: {known}"
            )
        return found[0]

    def __str__(self) -> str:
        from kernellab.report.text import trace_text

        return trace_text(self)


def trace(
    source: Any,
    *call: Any,
    shared_mem: int = 0,
    options: Sequence[str] = (),
    globals: Mapping[str, Any] | None = None,
    blocks: int | None = None,
    sanitize: bool = False,
    arch: str = "sm_90",
    seed: int | None = None,
    budget: int | None = None,
    errors: str = "raise",
) -> Trace:
    """Run a kernel on the emulator and count what the hardware would count.

    Parameters
    ----------
    source : str, path, or function
        A ``.cu`` or ``.ptx`` file, CUDA C or PTX text, or a Numba kernel (a plain function or ``@cuda.jit``).
    *call
        ``entry, grid, block, args`` for CUDA C and PTX; ``grid, block, args`` for a Numba function. An entry
        may be a name expression such as ``"tile<float, 32>"``. Grid and block are in CUDA's order (x, y, z):
        x is the last axis of an array. `args` is a tuple: a NumPy array for a pointer (results are written
        into it), a NumPy scalar for a scalar, None for a null pointer, a `TensorMap` for a tensor map; a plain
        Python number takes the parameter's own type.
    shared_mem : int
        Dynamic shared memory, bytes.
    options : sequence of str
        Compiler options such as ``"-DTILE=32"`` or ``"--use_fast_math"``.
    globals : mapping, optional
        Values of ``__constant__`` and ``__device__`` variables by name.
    blocks : int, optional
        Run only about this many blocks of a large grid: corners, edges and a seeded choice inside. The
        counts are scaled up, each stratum apart, with their standard errors; outputs are then incomplete.
    sanitize : bool
        Also look for races in shared memory. Those found are in the trace's ``.diagnostics`` and in its text;
        they are no errors, so nothing is raised.
    arch : str
        What to compile for, of what the NVRTC here knows (``kernellab doctor`` lists it); ``sm_90a`` for
        ``wgmma`` and ``setmaxnreg``.
    seed : int, optional
        Serve the lanes of each atomic in a random order, which shows what depends on it; let asynchronous
        copies arrive at once or as late as they may.
    budget : int, optional
        Instructions that one wave of blocks may execute; by default it may take 10 seconds of processor time.
    errors : {"raise", "record"}
        Raise at the end when the kernel went out of bounds and the like, or only record it.

    Returns
    -------
    Trace

    Raises
    ------
    ArgumentError, SpecError
        For a wrong argument; before anything runs.
    CompileError
        If the source does not compile; ``.log`` has the compiler's words.
    UnsupportedPTXError
        For an instruction that the emulator does not know.
    ExecutionError
        If the kernel went wrong: out of bounds, misaligned, a divergent barrier, a deadlock, the budget.
        Its attribute ``trace`` holds the counts, where the launch came to its end.

    Examples
    --------
    >>> import numpy as np
    >>> import kernellab as kl
    >>> code = '''extern "C" __global__ void twice(const float* x, float* y, int n) {
    ...     int i = blockIdx.x * blockDim.x + threadIdx.x;
    ...     if (i < n) y[i] = 2 * x[i];
    ... }'''
    >>> x, y = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    >>> t = kl.trace(code, "twice", 4, 256, (x, y, 1000))
    >>> bool((y == 2 * x).all()), t.totals["global_load_sectors"]
    (True, 125)
    """
    from kernellab.compile.entry import find_entry
    from kernellab.emulation import run_binary

    if errors not in ("raise", "record"):
        raise SpecError(f"trace: errors is {errors!r}, it must be 'raise' or 'record'")
    if callable(source):
        who = getattr(source, "__name__", type(source).__name__)
        grid, block, arguments = _call(who, call, ("grid", "block", "args"))
        check_arguments(who, arguments)
        if options:
            raise SpecError(f"{who}: options are for CUDA C, and this is Python; leave them out")
        binary, arguments = _compile_numba(who, source, arguments, arch)
        entry = next(iter(binary.names.values()))
        names = _argument_names(source)
    else:
        text, path = _text_of(source)
        entry, grid, block, arguments = _call("trace", call, ("entry", "grid", "block", "args"))
        who = str(entry)
        check_arguments(who, arguments)
        binary = _compile_text(text, path, who, options, arch)
        entry = find_entry(binary, who)
        names = ()
    return run_binary(
        binary, entry, grid, block, arguments, name=who, shared_mem=shared_mem, variables=globals,
        blocks=blocks, sanitize=sanitize, seed=seed, budget=budget, errors=errors,
        names=names,
    )  # fmt: skip


def _call(who: str, call: Sequence[Any], names: Sequence[str]) -> Sequence[Any]:
    if len(call) != len(names):
        raise ArgumentError(
            f"trace: {who} takes {', '.join(names)} after the source ({len(names)} arguments), "
            f"got {len(call)}"
        )
    return call


def check_arguments(who: str, arguments: Any) -> None:
    """Refuse an argument list that is not a tuple or list, such as the one array itself."""
    if not isinstance(arguments, (tuple, list)):
        raise ArgumentError(
            f"{who}: args is a {type(arguments).__name__}, it must be a tuple of arguments; "
            "write (x,) for one"
        )


def _text_of(source: Any) -> tuple[str, str | None]:
    if isinstance(source, str) and not source.strip():
        raise SpecError("trace: the source is empty; pass a .cu or .ptx file, a text or a Numba function")
    if isinstance(source, os.PathLike) or (
        isinstance(source, str) and "\n" not in source and "{" not in source and ";" not in source
    ):
        path = Path(source)
        try:
            text = path.read_text(encoding="utf-8", errors="replace")  # older encodings in comments
        except OSError as error:
            raise SpecError(f"trace: {path} cannot be read: {error.strerror}") from error
        if "\0" in text:
            raise SpecError(f"trace: {path} is not text; pass a .cu or .ptx file")
        return text, str(path)
    if isinstance(source, str):
        return source, None
    raise ArgumentError(
        f"trace: the source is a {type(source).__name__}, it must be a .cu or .ptx file, a text or "
        "a Numba function"
    )


def _argument_names(function: Any) -> tuple[str, ...]:
    code = getattr(getattr(function, "py_func", function), "__code__", None)
    return tuple(code.co_varnames[: code.co_argcount]) if code is not None else ()


def is_ptx(text: str) -> bool:
    """Say whether a text is PTX."""
    return (
        re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
        .lstrip("\ufeff \t\r\n")
        .startswith(".version")
    )


def _compile_text(text: str, path: str | None, entry: str, options: Sequence[str], arch: str) -> Binary:
    from kernellab.compile.assembly import assemble_ptx
    from kernellab.compile.cuda_c import compile_cuda

    if is_ptx(text):
        if options:
            raise SpecError(f"{entry}: options are for CUDA C, and this is PTX; leave them out")
        return assemble_ptx(text, path=path)
    expressions = (entry,) if not entry.isidentifier() else ()
    return compile_cuda(text, path=path, arch=arch, options=options, name_expressions=expressions)


def _compile_numba(
    who: str, function: Callable[..., Any], arguments: Sequence[Any], arch: str
) -> tuple[Binary, Sequence[Any]]:
    from kernellab.compile.numba_arguments import as_declared, numba_types
    from kernellab.compile.numba_kernels import compile_numba

    arguments = as_declared(who, function, arguments)
    return compile_numba(function, numba_types(arguments, function), arch=arch), arguments
