"""A thin layer over cuda.bindings' NVRTC: one call compiles a text to PTX and cubin. Needs no driver."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernellab.compile.toolchain import explain_missing_nvrtc
from kernellab.errors import CompileError, SpecError


@dataclass(frozen=True)
class Compilation:
    """What NVRTC gave for one translation unit."""

    ptx: str
    cubin: bytes
    lowered: Mapping[str, str]
    log: str


class NvrtcError(CompileError):
    """NVRTC refused the text; `log` holds its words."""


@functools.cache
def library() -> Any:
    """The module ``cuda.bindings.nvrtc`` with a library behind it, or `UnavailableError`."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except Exception as error:
        raise explain_missing_nvrtc(error) from error
    return nvrtc


@functools.cache
def version() -> tuple[int, int]:
    """NVRTC's version."""
    _, major, minor = library().nvrtcVersion()
    return int(major), int(minor)


@functools.cache
def architectures() -> tuple[int, ...]:
    """The architectures that this NVRTC compiles for, such as ``(75, 80, ..., 121)``."""
    _, found = library().nvrtcGetSupportedArchs()
    return tuple(int(number) for number in found)


def check_architecture(arch: str) -> None:
    """Refuse an `arch` that is misspelt or that this NVRTC does not know."""
    check_architecture_name(arch)
    number = int(arch[3:].rstrip("af"))
    if number not in architectures():
        known = ", ".join(f"sm_{each}" for each in architectures())
        raise SpecError(
            f"arch {arch}: NVRTC {'.'.join(map(str, version()))} compiles for {known} (from sm_90 on also "
            "with 'a'); choose one of these or install another NVRTC"
        )


def check_architecture_name(arch: str) -> None:
    """Refuse what is not spelt like ``sm_90`` or ``sm_90a``."""
    if not isinstance(arch, str) or not re.fullmatch(r"sm_\d{2,3}[af]?", arch):
        raise SpecError(f"arch {arch!r} is not an architecture; write it like 'sm_90' or 'sm_90a'")


def compile_text(
    text: str,
    name: str,
    options: Sequence[str],
    *,
    headers: Mapping[str, str] | None = None,
    name_expressions: Sequence[str] = (),
    is_relocatable: bool = False,
) -> Compilation:
    """Compile `text`, known to the compiler as file `name`.

    Raises
    ------
    NvrtcError
        With NVRTC's log.
    SpecError
        An option that NVRTC does not know.
    """
    nvrtc = library()
    pairs = [(content.encode(), include.encode()) for include, content in (headers or {}).items()]
    result, program = nvrtc.nvrtcCreateProgram(
        text.encode(), name.encode(), len(pairs), [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    )
    _expect(nvrtc, result, "nvrtcCreateProgram")
    try:
        for expression in name_expressions:
            (result,) = nvrtc.nvrtcAddNameExpression(program, expression.encode())
            _expect(nvrtc, result, f"name expression {expression!r}")
        (result,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        log = _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).strip()
        if result == nvrtc.nvrtcResult.NVRTC_ERROR_INVALID_OPTION:
            raise SpecError(f"options: NVRTC does not take {_refused_option(log)}; leave it out of options=")
        if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise NvrtcError(f"NVRTC: {result.name}", log)
        lowered = {each: _lowered(nvrtc, program, each) for each in name_expressions}
        ptx = _text(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program)
        cubin = b"" if is_relocatable else _bytes(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
        return Compilation(ptx, cubin, lowered, log)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _refused_option(log: str) -> str:
    match = re.search(r"(?:unrecognized option|option)\s+'?(\S+?)'?\s", log + " ")
    return f"{match.group(1)} ({log})" if match else f"one of them ({log})"


def _lowered(nvrtc: Any, program: Any, expression: str) -> str:
    result, name = nvrtc.nvrtcGetLoweredName(program, expression.encode())
    _expect(nvrtc, result, f"lowered name of {expression!r}")
    return str(name.decode())


def _bytes(size_of: Any, read: Any, program: Any) -> bytes:
    _, size = size_of(program)
    # NVRTC writes into this object, so it must be nobody else's: Python shares bytes of length 0 and 1.
    buffer = bytes(size + 2)
    read(program, buffer)
    return buffer[:size]


def _text(size_of: Any, read: Any, program: Any) -> str:
    return _bytes(size_of, read, program).decode("utf-8", "replace").rstrip("\0")


def _expect(nvrtc: Any, result: Any, what: str) -> None:
    if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise CompileError(f"NVRTC: {what} failed with {result.name}", str(result))
