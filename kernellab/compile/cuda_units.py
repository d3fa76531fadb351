"""Several CUDA C files as one translation unit: one NVRTC compile and one disassembly for a whole problem."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kernellab.compile import cache, nvrtc, ptx_text
from kernellab.compile.binary import Binary
from kernellab.compile.cuda_c import Request, compile_request, request_key, scan_request
from kernellab.compile.kernel_text import kernel_names, macro_names
from kernellab.compile.options import normalise_options
from kernellab.errors import CompileError, LabError, SpecError, UnavailableError


@dataclass(frozen=True)
class CudaUnit:
    """One file and the constants that it is compiled with.

    Attributes
    ----------
    text : str
        The file's text.
    path : str
        The file; line tables point there.
    constants : mapping of str to int, float or str
        Macros, defined before the text and gone after it.
    """

    text: str
    path: str
    constants: Mapping[str, int | float | str] = field(default_factory=dict)


def compile_cuda_many(
    units: Sequence[CudaUnit],
    *,
    arch: str = "sm_90",
    options: Sequence[str] = (),
    include_dirs: Sequence[str] = (),
) -> tuple[Binary, ...]:
    """Compile `units` together, so that they share one PTX, one cubin and one disassembly.

    Units are put one after the other; constants and macros of one do not reach the next, and a kernel that
    comes twice (one file with two sets of constants) is renamed. Where the units do not compile together,
    each is compiled alone, and the error is that of the unit at fault.

    Parameters
    ----------
    units : sequence of CudaUnit
        The files.
    arch : str
        Such as ``"sm_90"``.
    options, include_dirs : sequence of str
        For all units, as for `compile_cuda`.

    Returns
    -------
    tuple of Binary
        In the order of `units`; `names` of each hold that unit's kernels only.

    Raises
    ------
    CompileError, SpecError, UnavailableError
        As `compile_cuda`.
    """
    found = try_cuda_many(units, arch=arch, options=options, include_dirs=include_dirs)
    for each in found:
        if isinstance(each, LabError):
            raise each
    return tuple(each for each in found if isinstance(each, Binary))


def try_cuda_many(
    units: Sequence[CudaUnit],
    *,
    arch: str = "sm_90",
    options: Sequence[str] = (),
    include_dirs: Sequence[str] = (),
) -> tuple[Binary | LabError, ...]:
    """As `compile_cuda_many`, but a unit that fails has its error in its place and spoils no other.

    Returns
    -------
    tuple of Binary or LabError
        A `CompileError`, or an `UnavailableError` such as for a header that is not here.
    """
    normal = normalise_options(options)
    folders = tuple(os.path.abspath(each) for each in include_dirs)
    for unit in units:
        _check_constants(unit)
    if len(units) > 1:
        together = _together(units, arch, normal, folders)
        if together is not None:
            return together
    return tuple(_attempt(unit, arch, normal, folders) for unit in units)


def _attempt(
    unit: CudaUnit, arch: str, options: tuple[str, ...], folders: tuple[str, ...]
) -> Binary | LabError:
    try:
        return _alone(unit, arch, options, folders)
    except (CompileError, UnavailableError) as error:
        return error


def _alone(unit: CudaUnit, arch: str, options: tuple[str, ...], folders: tuple[str, ...]) -> Binary:
    constants = tuple(f"-D{name}={value}" for name, value in unit.constants.items())
    return compile_request(Request(unit.text, unit.path, arch, (*options, *constants), (), folders))


def _together(
    units: Sequence[CudaUnit], arch: str, options: tuple[str, ...], folders: tuple[str, ...]
) -> tuple[Binary, ...] | None:
    """The units as one, or None where they do not compile so; that is remembered, too."""
    request, renamed = _joined(units, arch, options, folders)
    marker = cache.digest("units apart", request_key(request, scan_request(request)))
    if cache.load(marker) is not None:
        return None
    try:
        binary = compile_request(request)
    except (CompileError, UnavailableError):
        nvrtc.library()  # no NVRTC at all is no property of these units
        cache.store(marker, {}, {})
        return None
    return tuple(_part(binary, unit, names) for unit, names in zip(units, renamed, strict=True))


def _joined(
    units: Sequence[CudaUnit], arch: str, options: tuple[str, ...], folders: tuple[str, ...]
) -> tuple[Request, list[dict[str, str]]]:
    rows: list[str] = []
    headers: list[tuple[str, str]] = []
    renamed: list[dict[str, str]] = []
    taken: set[str] = set()
    for index, unit in enumerate(units):
        new_names = {name: f"{name}__unit{index}" for name in kernel_names(unit.text) if name in taken}
        taken |= {new_names.get(name, name) for name in kernel_names(unit.text)}
        renamed.append(new_names)
        path = os.path.abspath(unit.path)
        header = f"kernellab_unit{index}.cu"
        headers.append((header, f'#line 1 "{_escape(path)}"\n{unit.text}\n'))
        macros = {**{name: str(value) for name, value in unit.constants.items()}, **new_names}
        rows += [f"#define {name} {value}" for name, value in macros.items()]
        rows.append(f'#include "{header}"')
        rows += [f"#undef {name}" for name in dict.fromkeys([*macros, *macro_names(unit.text)])]
    beside = tuple(dict.fromkeys(os.path.dirname(os.path.abspath(unit.path)) for unit in units))
    text = "\n".join(rows) + "\n"
    return Request(text, None, arch, options, (), (*beside, *folders), tuple(headers)), renamed


def _part(binary: Binary, unit: CudaUnit, renamed: Mapping[str, str]) -> Binary:
    names: dict[str, str] = {}
    for name in kernel_names(unit.text):
        entry = binary.names.get(renamed.get(name, name))
        if entry is not None:
            names |= {name: entry, entry: entry}
    path = os.path.abspath(unit.path)
    files = set(ptx_text.files(binary.ptx))
    sources = {file: text for file, text in binary.sources.items() if file in files} | {path: unit.text}
    return replace(binary, names=names, sources=sources)


def _check_constants(unit: CudaUnit) -> None:
    for name, value in unit.constants.items():
        if not re.fullmatch(r"[A-Za-z_]\w*", name) or "\n" in str(value):
            raise SpecError(
                f"{os.path.basename(unit.path)}: constant {name}={value!r} is no macro; name it like TILE=32"
            )


def _escape(path: str) -> str:
    return path.replace("\\", "\\\\").replace('"', '\\"')
