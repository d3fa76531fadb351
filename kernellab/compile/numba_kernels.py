"""Numba kernels to `Binary`, one or many at a time. One found in the disk cache costs no import of numba."""

from __future__ import annotations

import functools
import inspect
import linecache
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernellab.compile import assembly, cache, nvrtc, ptx_text
from kernellab.compile.binary import Binary
from kernellab.compile.fingerprint import UnstableError, fingerprint
from kernellab.compile.memory import recall, remember
from kernellab.compile.numba_arguments import ArgumentType
from kernellab.compile.toolchain import toolchain
from kernellab.errors import ArgumentError, SpecError

_RECIPE = 2
_OPTIONS = frozenset({"fastmath", "opt", "max_registers", "launch_bounds", "link"})


@dataclass(frozen=True)
class NumbaJob:
    """One kernel to compile.

    Attributes
    ----------
    make : callable
        Gives the Python function or dispatcher. It is called only when the cache does not know the job.
    argument_types : tuple
        `ArgumentType` (see `numba_types`), strings such as ``"float32[:,::1]"``, or Numba types.
    name : str
        What the kernel is asked for in `Binary.names`.
    key_parts : tuple of str, optional
        Everything that decides what `make` gives: the text of the module that defines it (line numbers count)
        and its constants. Left out, `make` is called and its function is looked through.
    options : mapping
        ``fastmath``, ``opt``, ``max_registers``, ``launch_bounds``, ``link``; a dispatcher's count too.
    """

    make: Callable[[], Any]
    argument_types: tuple[Any, ...]
    name: str
    key_parts: tuple[str, ...] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def compile_numba(
    function: Any,
    argument_types: Sequence[Any],
    *,
    arch: str = "sm_90",
    name: str | None = None,
    **options: Any,
) -> Binary:
    """Compile a Numba kernel to PTX and cubin; needs no GPU and no driver.

    Parameters
    ----------
    function : callable
        A plain Python function or a ``@cuda.jit`` dispatcher; it may call device functions.
    argument_types : sequence
        From `numba_types`; also strings such as ``"float32[:,::1]"`` and Numba types.
    arch : str
        Such as ``"sm_90"``.
    name : str, optional
        What the kernel is asked for in `Binary.names`; the function's own name when left out.
    **options
        ``fastmath``, ``opt``, ``max_registers``, ``launch_bounds``, ``link``, as ``cuda.jit`` takes them.

    Returns
    -------
    Binary
        The entry takes the parameters that `flatten_numba_arguments` makes.

    Raises
    ------
    CompileError
        Numba refuses the function; `log` has its words.
    ArgumentError
        Another number of types than the function has parameters.
    UnavailableError
        numba-cuda is not here.
    """
    python_function = getattr(function, "py_func", function)
    if not callable(python_function) or not hasattr(python_function, "__code__"):
        raise ArgumentError(
            f"a Numba kernel is a Python function or a @cuda.jit dispatcher, not {type(function).__name__}"
        )
    if (getattr(function, "targetoptions", None) or {}).get("device"):
        raise ArgumentError(f"{python_function.__name__} is a device function; pass the kernel that calls it")
    called = name or str(python_function.__name__)
    job = NumbaJob(lambda: function, tuple(argument_types), called, None, options)
    return compile_numba_many([job], arch=arch)[0]


def compile_numba_many(jobs: Sequence[NumbaJob], *, arch: str = "sm_90") -> tuple[Binary, ...]:
    """Compile several kernels and link them into one cubin, so that they share one disassembly.

    Parameters
    ----------
    jobs : sequence of NumbaJob
        The kernels.
    arch : str
        Such as ``"sm_90"``.

    Returns
    -------
    tuple of Binary
        In the order of `jobs`, each with its own PTX and names.
    """
    nvrtc.check_architecture_name(arch)
    keys = [_key(job, arch) for job in jobs]
    group = cache.digest("numba group", [key or id(job) for key, job in zip(keys, jobs, strict=True)])
    kept = [recall(_member(group, index)) for index in range(len(jobs))]
    if None not in keys and all(kept):
        return tuple(binary for binary in kept if binary is not None)
    texts = [_text_of(job, key, arch) for job, key in zip(jobs, keys, strict=True)]
    registers = {dict(text.options).get("max_registers") for text in texts}
    linked = (
        assembly.link([text.binary for text in texts], max_registers=registers.pop())
        if len(registers) == 1
        else tuple(
            assembly.link([text.binary], max_registers=dict(text.options).get("max_registers"))[0]
            for text in texts
        )
    )
    if None not in keys:
        for index, binary in enumerate(linked):
            remember(binary, _member(group, index))
    return linked


@dataclass(frozen=True)
class _Text:
    binary: Binary
    options: tuple[tuple[str, Any], ...]


def _member(group: str, index: int) -> str:
    return f"{group}:{index}"


def _key(job: NumbaJob, arch: str) -> str | None:
    """The key of a job's PTX; None when something in its reach cannot be described."""
    unknown = set(job.options) - _OPTIONS
    if unknown:
        raise SpecError(f"{job.name}: option {sorted(unknown)[0]!r} is none of {', '.join(sorted(_OPTIONS))}")
    try:
        origin = (
            "parts " + cache.digest(*job.key_parts) if job.key_parts is not None else fingerprint(job.make())
        )
    except UnstableError:
        return None
    types_ = [
        str(each) if isinstance(each, ArgumentType) else f"{type(each).__name__} {each}"
        for each in map(_plain_type, job.argument_types)
    ]
    options = sorted(job.options.items(), key=str)
    return cache.digest("numba", _RECIPE, origin, types_, arch, options, job.name, _versions())


def _plain_type(description: Any) -> Any:
    """One spelling for one type: a string that NumPy's dtypes cover becomes an `ArgumentType`."""
    if isinstance(description, str):
        try:
            return ArgumentType.parse(description)
        except ArgumentError:
            return description
    return description


@functools.cache
def _versions() -> str:
    """numba-cuda's and the compilers' versions, from names on disk: nothing is imported."""
    import sys

    names = []
    for site in dict.fromkeys(sys.path):
        if site and os.path.isdir(site):
            names += [
                entry.name
                for pattern in (
                    "numba_cuda-*.dist-info",
                    "numba-*.dist-info",
                    "nvidia_nvvm*.dist-info",
                    "llvmlite-*.dist-info",
                )
                for entry in Path(site).glob(pattern)
            ]
    return ";".join([*sorted(names), toolchain().stamp])


def _text_of(job: NumbaJob, key: str | None, arch: str) -> _Text:
    entry = cache.load(key) if key is not None else None
    if entry is not None:
        binary = _binary(
            job, arch, entry.blobs["ptx"].decode(), entry.fields["entry"], entry.fields["log"], key or ""
        )
        return _Text(binary, tuple(map(tuple, entry.fields["options"])))
    from kernellab.compile import numba_cuda

    function = job.make()
    options = {**_dispatcher_options(function), **job.options}
    _check_count(function, job)
    made = numba_cuda.compile_ptx(function, [*map(_plain_type, job.argument_types)], arch, options, job.name)
    short = f"{re.sub(r'[^0-9A-Za-z_]', '_', job.name)}_{(key or cache.digest(made.ptx))[:8]}"
    ptx = _rename_symbols(made.ptx, made.entry, short)
    kept = {name: value for name, value in options.items() if name == "max_registers" and value}
    if key is not None:
        cache.store(
            key, {"entry": short, "log": made.log, "options": sorted(kept.items())}, {"ptx": ptx.encode()}
        )
    binary = _binary(job, arch, ptx, short, made.log, key or cache.digest(ptx))
    return _Text(binary, tuple(kept.items()))


def _binary(job: NumbaJob, arch: str, ptx: str, entry: str, log: str, key: str) -> Binary:
    ptx = ptx_text.rename_files(ptx, lambda name: name)
    names = {job.name: entry, entry: entry}
    sources = {}
    for name in ptx_text.files(ptx):
        lines = linecache.getlines(name)
        if lines:
            sources[name] = "".join(lines)
    return Binary("numba", arch, ptx, None, names, sources, log, key)


def _rename_symbols(ptx: str, entry: str, short: str) -> str:
    """Give the entry a short name and the functions and variables beside it names of their own.

    Numba numbers its symbols in each process anew, so texts of two processes may use one name for two things.
    """
    prefix = short.rpartition("_")[2]
    ptx = ptx.replace(entry, short)
    for name in (*ptx_text.defined_functions(ptx), *ptx_text.linker_variables(ptx)):
        ptx = re.sub(rf"(?<![\w$]){re.escape(name)}(?![\w$])", f"{name}_{prefix}", ptx)
    return ptx


def _dispatcher_options(function: Any) -> dict[str, Any]:
    found = getattr(function, "targetoptions", None) or {}
    return {name: value for name, value in found.items() if name in _OPTIONS and value is not None}


def _check_count(function: Any, job: NumbaJob) -> None:
    python_function = getattr(function, "py_func", function)
    parameters = list(inspect.signature(python_function).parameters.values())
    if any(each.kind is inspect.Parameter.VAR_POSITIONAL for each in parameters):
        return
    wanted, given = len(parameters), len(job.argument_types)
    optional = sum(each.default is not inspect.Parameter.empty for each in parameters)
    if not wanted - optional <= given <= wanted:
        raise ArgumentError(f"{job.name}: it takes {wanted} arguments, {given} are given; its parameters are "
                            f"({', '.join(each.name for each in parameters)})")  # fmt: skip
