"""What this machine can compile, as plain data for ``kernellab doctor``."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from kernellab.compile import cache, nvrtc
from kernellab.compile.toolchain import install_command, toolchain
from kernellab.errors import LabError


@dataclass(frozen=True)
class Part:
    """One part of the toolchain.

    Attributes
    ----------
    name : str
        Such as ``"NVRTC"``.
    value : str or None
        Version or place; None when it is not here.
    purpose : str
        What it is for.
    remedy : str
        How to get it; empty when it is here.
    """

    name: str
    value: str | None
    purpose: str
    remedy: str = ""


def survey() -> tuple[Part, ...]:
    """Look at every part; loads NVRTC and nvJitLink, imports no numba, compiles nothing.

    Returns
    -------
    tuple of Part
    """
    tools = toolchain()
    install = install_command()
    headers = "; ".join(map(str, tools.include_dirs)) or None
    lacking = f"without {', '.join(tools.missing_headers)}: {install}" if tools.missing_headers else ""
    return (
        *_nvrtc_parts(),
        Part("headers", headers, "#include <cuda_fp16.h>, <mma.h>, <cub/...>", lacking),
        _linker_part(),
        _path_part("nvdisasm", tools.nvdisasm, "exact counts from machine code", install),
        _path_part(
            "nvcc", tools.nvcc, "files that also hold host code (optional)", "install the CUDA toolkit"
        ),
        _numba_part(install),
        Part("cache", str(cache.directory()), "compiled kernels", cache.complaint() or ""),
    )


def _nvrtc_parts() -> tuple[Part, ...]:
    try:
        version = ".".join(map(str, nvrtc.version()))
        architectures = ", ".join(f"sm_{each}" for each in nvrtc.architectures())
    except LabError as error:
        return (Part("NVRTC", None, "CUDA C", str(error)),)
    return (
        Part("NVRTC", version, "CUDA C"),
        Part("architectures", architectures, "what arch= may be"),
    )


def _linker_part() -> Part:
    from kernellab.compile.assembly import linker

    try:
        version = ".".join(map(str, linker().version()))
    except LabError as error:
        return Part("nvJitLink", None, "Numba kernels and foreign PTX to machine code", str(error))
    return Part("nvJitLink", version, "Numba kernels and foreign PTX to machine code")


def _numba_part(install: str) -> Part:
    from importlib import metadata

    try:
        version = metadata.version("numba-cuda") if importlib.util.find_spec("numba") else None
    except metadata.PackageNotFoundError:
        version = None
    return Part("numba-cuda", version, "the Numba twins", "" if version else install)


def _path_part(name: str, path: object, purpose: str, remedy: str) -> Part:
    return Part(name, str(path) if path else None, purpose, "" if path else remedy)
