"""Compilers: CUDA C, Numba and foreign PTX to `Binary`; the machine code's listing; one disk cache.

Importing this loads none of the compilers and touches no disk.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernellab.compile.assembly import assemble_ptx, link
    from kernellab.compile.binary import Binary, Resources, Sass, SassInstruction
    from kernellab.compile.cache import CacheWarning
    from kernellab.compile.cuda_c import compile_cuda
    from kernellab.compile.cuda_units import CudaUnit, compile_cuda_many, try_cuda_many
    from kernellab.compile.elf import resource_usage
    from kernellab.compile.entry import find_entry, global_symbols
    from kernellab.compile.inventory import Part, survey
    from kernellab.compile.numba_arguments import ArgumentType, flatten_numba_arguments, numba_types
    from kernellab.compile.numba_kernels import NumbaJob, compile_numba, compile_numba_many
    from kernellab.compile.ptx_text import f64_arithmetic
    from kernellab.compile.sass import sass_of

_HOMES = {
    "ArgumentType": "numba_arguments",
    "Binary": "binary",
    "CacheWarning": "cache",
    "CudaUnit": "cuda_units",
    "NumbaJob": "numba_kernels",
    "Part": "inventory",
    "Resources": "binary",
    "Sass": "binary",
    "SassInstruction": "binary",
    "assemble_ptx": "assembly",
    "compile_cuda": "cuda_c",
    "compile_cuda_many": "cuda_units",
    "compile_numba": "numba_kernels",
    "compile_numba_many": "numba_kernels",
    "f64_arithmetic": "ptx_text",
    "find_entry": "entry",
    "global_symbols": "entry",
    "flatten_numba_arguments": "numba_arguments",
    "link": "assembly",
    "numba_types": "numba_arguments",
    "resource_usage": "elf",
    "sass_of": "sass",
    "survey": "inventory",
    "try_cuda_many": "cuda_units",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_HOMES)


__all__ = [
    "ArgumentType",
    "Binary",
    "CacheWarning",
    "CudaUnit",
    "NumbaJob",
    "Part",
    "Resources",
    "Sass",
    "SassInstruction",
    "assemble_ptx",
    "compile_cuda",
    "compile_cuda_many",
    "compile_numba",
    "compile_numba_many",
    "f64_arithmetic",
    "find_entry",
    "flatten_numba_arguments",
    "global_symbols",
    "link",
    "numba_types",
    "resource_usage",
    "sass_of",
    "survey",
    "try_cuda_many",
]
