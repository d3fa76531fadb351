"""PTX to cubin by nvJitLink: foreign PTX, and several Numba kernels as one cubin. Needs no driver."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kernellab.compile import cache, nvrtc, ptx_text
from kernellab.compile.binary import Binary
from kernellab.compile.itanium import demangle
from kernellab.compile.toolchain import install_command, toolchain
from kernellab.errors import CompileError, SpecError, UnavailableError

_RECIPE = 1
# What the device runtime library brings: grid-wide synchronisation and launches from a kernel.
_DEVICE_RUNTIME = re.compile(r"^cuda(?:CG|Launch|Get|Device|Stream|Event|Malloc|Free|Memcpy|Memset)\w*$")


@functools.cache
def linker() -> Any:
    """The module ``cuda.bindings.nvjitlink`` with a library behind it, or `UnavailableError`."""
    try:
        from cuda.bindings import nvjitlink

        nvjitlink.version()
    except Exception as error:
        raise UnavailableError(
            f"nvJitLink is not here, so PTX cannot be assembled: {install_command()} brings it"
        ) from error
    return nvjitlink


def assemble(modules: Sequence[str], arch: str, *, max_registers: int | None = None) -> tuple[bytes, str]:
    """Assemble PTX texts into one cubin with line tables.

    Returns
    -------
    (bytes, str)
        The cubin and nvJitLink's log.

    Raises
    ------
    CompileError
        With nvJitLink's words in `log`.
    """
    library = linker()
    options = [f"-arch={arch}", "-lineinfo"] + ([f"-maxrregcount={max_registers}"] if max_registers else [])
    try:
        handle = library.create(len(options), options)
    except Exception as error:
        raise CompileError(f"nvJitLink does not take {' '.join(options)}: {error}", str(error)) from error
    try:
        for index, text in enumerate(modules):
            data = text.encode() + b"\0"
            library.add_data(handle, library.InputType.PTX, data, len(data), f"module{index}.ptx")
        if any(
            _DEVICE_RUNTIME.match(name) for text in modules for name in ptx_text.undefined_functions(text)
        ):
            _add_device_runtime(library, handle)
        library.complete(handle)
        cubin = bytearray(library.get_linked_cubin_size(handle))
        library.get_linked_cubin(handle, cubin)
        return bytes(cubin), _log(library, handle, "info")
    except library.nvJitLinkError as error:
        log = _log(library, handle, "error") or str(error)
        raise CompileError(
            f"the PTX does not assemble for {arch}: {log.strip().splitlines()[0]}", log
        ) from error
    finally:
        library.destroy(handle)


def _add_device_runtime(library: Any, handle: Any) -> None:
    path = toolchain().cudadevrt
    if path is not None:
        library.add_file(handle, library.InputType.LIBRARY, str(path))


def _log(library: Any, handle: Any, kind: str) -> str:
    size = getattr(library, f"get_{kind}_log_size")(handle)
    buffer = bytearray(size)
    getattr(library, f"get_{kind}_log")(handle, buffer)
    return bytes(buffer).decode("utf-8", "replace").replace("\0", "")


def assemble_ptx(text: str, *, arch: str | None = None, path: str | os.PathLike[str] | None = None) -> Binary:
    """Take PTX from anybody: nvcc, Triton, a file.

    Parameters
    ----------
    text : str
        The PTX.
    arch : str, optional
        What to assemble for; the text's own ``.target`` when left out.
    path : str or path, optional
        Where the text comes from, for messages.

    Returns
    -------
    Binary
        With `cubin` None, and the reason in `log`, when it cannot be assembled here.

    Raises
    ------
    SpecError
        The text is no PTX or holds no kernel.
    """
    label = os.path.basename(os.fspath(path)) if path is not None else "the PTX text"
    target = re.search(r"^\s*\.target\s+(sm_\d+[af]?)", text, re.MULTILINE)
    if target is None or not ptx_text.entries(text):
        lack = "a .target line" if target is None else "an .entry"
        raise SpecError(
            f"{label} lacks {lack}, so it is no PTX kernel; pass the text that nvcc -ptx or Triton writes"
        )
    chosen = arch or _assembled_for(target[1])
    tidy = ptx_text.rename_files(text.replace("\r\n", "\n"), lambda name: name)
    key = cache.digest("ptx", _RECIPE, text, chosen, _stamp())
    cubin, log = _cached_cubin([text.replace("\r\n", "\n")], chosen, key)
    sources = {name: content for name in ptx_text.files(text) if (content := _read(name)) is not None}
    return Binary("ptx", chosen, tidy, cubin, ptx_text.plain_names(tidy, demangle), sources, log, key)


def _assembled_for(target: str) -> str:
    """The architecture of the text, or the next one that the tools here still know."""
    try:
        known = nvrtc.architectures()
    except UnavailableError:
        return target
    number = int(target[3:].rstrip("af"))
    if number in known:
        return target
    return next((f"sm_{each}" for each in known if each > number), target)


def link(binaries: Sequence[Binary], *, max_registers: int | None = None) -> tuple[Binary, ...]:
    """Assemble several binaries into one cubin, so that one disassembly serves all of them.

    Parameters
    ----------
    binaries : sequence of Binary
        Of one architecture, with different entry names. Each keeps its PTX; `sass_of` gives its own lines.

    Returns
    -------
    tuple of Binary
        In the same order; assembled one by one where they do not link together.
    """
    archs = {binary.arch for binary in binaries}
    if len(archs) != 1:
        raise SpecError(
            f"link: the binaries are for {', '.join(sorted(archs)) or 'nothing'}; compile them for one arch"
        )
    keys = [binary.key for binary in binaries]
    if len(binaries) > 1 and _clash(binaries):
        return tuple(each for binary in binaries for each in link([binary], max_registers=max_registers))
    key = cache.digest("linked", _RECIPE, keys, max_registers, _stamp())
    cubin, log = _cached_cubin([binary.ptx for binary in binaries], archs.pop(), key, max_registers)
    if cubin is None and len(binaries) > 1:
        return tuple(each for binary in binaries for each in link([binary], max_registers=max_registers))
    return tuple(
        replace(
            binary,
            cubin=cubin,
            log="\n".join(filter(None, [binary.log, log])),
            key=cache.digest(key, binary.key),
        )
        for binary in binaries
    )


def _clash(binaries: Sequence[Binary]) -> bool:
    """Whether two texts define one name: nvJitLink makes a broken cubin of them without a word."""
    names = [
        name
        for binary in binaries
        for name in (
            *ptx_text.entries(binary.ptx),
            *ptx_text.defined_functions(binary.ptx),
            *ptx_text.linker_variables(binary.ptx),
        )
    ]
    return len(names) != len(set(names))


def _cached_cubin(
    modules: Sequence[str], arch: str, key: str, max_registers: int | None = None
) -> tuple[bytes | None, str]:
    entry = cache.load(key)
    if entry is not None:
        return entry.blobs["cubin"], str(entry.fields["log"])
    try:
        cubin, log = assemble(modules, arch, max_registers=max_registers)
    except (CompileError, UnavailableError) as error:
        return None, f"{error}\n{getattr(error, 'log', '')}".strip()
    cache.store(key, {"log": log}, {"cubin": cubin})
    return cubin, log


@functools.cache
def _stamp() -> str:
    folder = toolchain().nvrtc
    libraries = sorted(folder.parent.glob("*nvJitLink*")) if folder else []
    return ";".join(f"{path.name}:{path.stat().st_size}" for path in libraries) + str(toolchain().cudadevrt)


def _read(name: str) -> str | None:
    try:
        with open(name, encoding="utf-8", errors="replace") as file:
            return file.read()
    except (OSError, ValueError):
        return None
