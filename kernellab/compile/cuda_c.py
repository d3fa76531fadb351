"""CUDA C to PTX and cubin: NVRTC first, nvcc only for texts that hold host code. Needs no driver."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernellab.compile import cache, includes, nvrtc, ptx_text
from kernellab.compile.binary import Binary
from kernellab.compile.host_code import HostCode, find_host_code
from kernellab.compile.host_headers import PRELUDE, built_in_headers, wants_prelude
from kernellab.compile.itanium import demangle
from kernellab.compile.memory import recall, remember
from kernellab.compile.options import check_name_expression, normalise_options
from kernellab.compile.toolchain import header_remedy, toolchain
from kernellab.errors import ArgumentError, CompileError, UnavailableError

_RECIPE = 1
_UNNAMED = "source.cu"


@dataclass(frozen=True)
class Request:
    """Everything that decides what a text compiles to."""

    text: str
    path: str | None
    arch: str
    options: tuple[str, ...]
    name_expressions: tuple[str, ...]
    include_dirs: tuple[str, ...]
    memory_headers: tuple[tuple[str, str], ...] = ()

    @property
    def label(self) -> str:
        """How messages call the text."""
        return os.path.basename(self.path) if self.path else "the CUDA text"

    @property
    def file_name(self) -> str:
        """The name that the compiler sees."""
        return os.path.abspath(self.path) if self.path else _UNNAMED

    @property
    def directory(self) -> str:
        """Where the text's own file lies; the current directory for a text without a file."""
        return os.path.dirname(os.path.abspath(self.path)) if self.path else os.getcwd()


def compile_cuda(
    text: str,
    *,
    path: str | os.PathLike[str] | None = None,
    arch: str = "sm_90",
    options: Sequence[str] = (),
    name_expressions: Sequence[str] = (),
    include_dirs: Sequence[str | os.PathLike[str]] = (),
) -> Binary:
    """Compile a CUDA C text to PTX and cubin with line tables.

    Parameters
    ----------
    text : str
        The text of one translation unit.
    path : str or path, optional
        The file that the text comes from: for messages, line tables and ``#include`` beside it; not read.
    arch : str
        Such as ``"sm_90"`` or ``"sm_90a"``.
    options : sequence of str
        NVRTC options such as ``"-DTILE=32"`` or ``"--use_fast_math"``; ``-std=c++17``, ``-default-device``
        and ``-lineinfo`` are set already.
    name_expressions : sequence of str
        Instances to make and look up, such as ``"tile<float, 32>"``.
    include_dirs : sequence of str or path
        Searched after the text's own folder and before ``kernels_cu/include``.

    Returns
    -------
    Binary
        Its `names` hold every entry by its PTX name, by its plain name where that is unique, and by the
        name expressions asked for.

    Raises
    ------
    CompileError
        The text does not compile (`log` has NVRTC's words), or holds host code and there is no nvcc.
    SpecError
        An architecture or option that NVRTC does not take.
    UnavailableError
        NVRTC or a toolkit header is not here.

    Examples
    --------
    >>> binary = compile_cuda('extern "C" __global__ void one(int* y) { *y = 1; }')  # doctest: +SKIP
    >>> binary.names["one"]  # doctest: +SKIP
    'one'
    """
    if not isinstance(text, str):
        raise ArgumentError(f"compile_cuda: text is the CUDA C itself, a str, not {type(text).__name__}")
    request = Request(
        text=text.removeprefix("\ufeff"),
        path=os.path.abspath(path) if path is not None else None,  # of one name in two folders: two files
        arch=arch,
        options=normalise_options(options),
        name_expressions=tuple(check_name_expression(each) for each in name_expressions),
        include_dirs=tuple(os.path.abspath(each) for each in include_dirs),
    )
    return compile_request(request)


def compile_request(request: Request) -> Binary:
    """Compile `request`, or take it from the memory or disk cache."""
    nvrtc.check_architecture_name(request.arch)
    found = scan_request(request)
    key = request_key(request, found)
    if not found.has_computed:
        kept = recall(key) or _load(key)
        if kept is not None:
            return remember(kept)
    binary = _compile(request, found, key)
    if not found.has_computed:
        _store(binary)
    return remember(binary)


def scan_request(request: Request) -> includes.Includes:
    """What the text of `request` includes from the user's files."""
    memory = dict(request.memory_headers)
    whole = "\n".join([request.text, *memory.values()])
    return includes.scan(whole, request.directory, _search(request), memory)


def _search(request: Request) -> tuple[str, ...]:
    """The user's directories and the shared one; a toolkit among them comes after ours (one header set)."""
    named = [option[2:] for option in request.options if option.startswith("-I")]
    shared = includes.shared_include_dir()
    folders = [*request.include_dirs, *named, *([shared] if shared else [])]
    return tuple(folder for folder in folders if not _is_toolkit(folder))


def _is_toolkit(folder: str) -> bool:
    return any(
        os.path.isfile(os.path.join(folder, name))
        for name in ("cuda_runtime_api.h", "cuda_fp16.h", "cuda_fp16.hpp")
    )


def _nvrtc_options(request: Request) -> list[str]:
    chosen = [f"-arch={request.arch}", "-default-device", "-lineinfo"]
    if not any(option.startswith(("-std=", "--std=")) for option in request.options):
        chosen.append("-std=c++17")
    chosen += [option for option in request.options if not option.startswith("-I")]
    everything = [
        request.directory,
        *request.include_dirs,
        *(option[2:] for option in request.options if option.startswith("-I")),
    ]
    late = [folder for folder in everything if _is_toolkit(folder)]
    own = [] if _is_toolkit(request.directory) else [request.directory]
    ordered = [*own, *_search(request), *map(str, toolchain().include_dirs), *late]
    return chosen + [f"-I{folder}" for folder in dict.fromkeys(ordered)]


def request_key(request: Request, found: includes.Includes) -> str:
    """SHA-256 of everything that decides what `request` compiles to."""
    tools = toolchain()
    nvcc = tools.nvcc
    version: object = "" if tools.nvrtc is not None else nvrtc.version()
    return cache.digest(
        "cuda-c", _RECIPE, request, sorted(found.files.items()), _headers_digest(), tools.stamp, version,
        f"{nvcc}:{nvcc.stat().st_mtime_ns}" if nvcc else "", list(map(str, tools.include_dirs)),
        includes.shared_include_dir(),
    )  # fmt: skip


def _headers_digest() -> str:
    global _known_headers_digest
    if _known_headers_digest is None:
        _known_headers_digest = cache.digest(sorted(built_in_headers().items()))
    return _known_headers_digest


_known_headers_digest: str | None = None


def _compile(request: Request, found: includes.Includes, key: str) -> Binary:
    nvrtc.check_architecture(request.arch)
    host = find_host_code(request.text)
    nvcc = toolchain().nvcc
    refused: CompileError | UnavailableError | None = None
    if nvcc is None or host is None or not host.is_certain or "__CUDACC_RTC__" in request.text:
        try:
            made = _run_nvrtc(request, found)
        except nvrtc.NvrtcError as error:
            if host is None or not (nvcc or host.is_certain or _misses_host_names(error.log)):
                raise _explain(request, error.log) from None
            if nvcc is None:
                raise _refuse(request, host, error.log) from None
            refused = _explain(request, error.log)
        else:
            return _finish(request, found, key, made.ptx, made.cubin, made.lowered, made.log)
    from kernellab.compile.nvcc import compile_with_nvcc

    assert nvcc is not None
    try:
        return _finish(request, found, key, *compile_with_nvcc(request, nvcc, _search(request)))
    except CompileError:
        # What NVRTC said is nearer to the point where nothing shows that the text needs a host compiler.
        if refused is not None and host is not None and not host.is_certain:
            raise refused from None
        raise


def _misses_host_names(log: str) -> bool:
    """Whether what is missing are names that only a host compiler's library has."""
    pattern = r'namespace "(?:std|thrust)" has no member|identifier "(?:s?rand|fprintf|fopen)"'
    return re.search(pattern, log) is not None


def _refuse(request: Request, host: HostCode, log: str) -> CompileError:
    return CompileError(
        f"{request.label}: line {host.line} holds host code ({host.what}), which NVRTC does not compile; "
        "install nvcc (CUDA toolkit) or move the kernels to a file of their own",
        log,
    )


def _run_nvrtc(request: Request, found: includes.Includes) -> nvrtc.Compilation:
    headers = built_in_headers(hidden=found.provided) | dict(request.memory_headers)
    options = _nvrtc_options(request)

    def run(extra: Sequence[str]) -> nvrtc.Compilation:
        return nvrtc.compile_text(
            request.text,
            request.file_name,
            [*options, *extra],
            headers=headers,
            name_expressions=request.name_expressions,
        )

    try:
        return run([])
    except nvrtc.NvrtcError as error:
        if not wants_prelude(error.log):
            raise
        try:
            return run([f"--pre-include={PRELUDE}"])
        except nvrtc.NvrtcError:
            raise error from None


def _finish(
    request: Request,
    found: includes.Includes,
    key: str,
    ptx: str,
    cubin: bytes | None,
    lowered: Mapping[str, str],
    log: str,
) -> Binary:
    unnamed = os.path.abspath(_UNNAMED)
    ptx = ptx_text.rename_files(
        ptx, lambda name: _UNNAMED if request.path is None and name == unnamed else name
    )
    names = dict(ptx_text.plain_names(ptx, demangle)) | dict(lowered)
    texts = {os.path.abspath(path): text for path, text in found.files.items()}
    texts[request.file_name] = request.text
    sources = {
        name: text
        for name, text in texts.items()
        if name in set(ptx_text.files(ptx)) or name == request.file_name
    }
    return Binary("cuda-c", request.arch, ptx, cubin, names, sources, log, key)


def _explain(request: Request, log: str) -> CompileError | UnavailableError:
    missing = re.search(r'cannot open source file "([^"]+)"', log)
    if missing:
        remedy = header_remedy(missing[1])
        if remedy is not None:
            return UnavailableError(
                f"{request.label} needs <{missing[1]}>, which no include directory here has: {remedy}"
            )
    wide = re.search(r"function '([^']+)' uses too much shared data \(0x(\w+) bytes, 0x(\w+) max\)", log)
    if wide:
        return CompileError(
            f"{demangle(wide[1]) or wide[1]}: its __shared__ arrays have {int(wide[2], 16)} bytes, the limit "
            f"is {int(wide[3], 16)}; make them smaller, or take dynamic shared memory: extern __shared__, "
            "and shared_mem= at the launch"
        )
    first = re.search(r"^.*?(?:error|catastrophic error)\s*(?:#[\w-]+)?\s*:.*$", log, re.MULTILINE)
    shown = first[0].strip() if first else log.strip().split("\n")[0]
    return CompileError(f"{request.label} does not compile: {shown}", log)


def _load(key: str) -> Binary | None:
    entry = cache.load(key)
    if entry is None:
        return None
    fields = entry.fields
    return Binary(
        language=fields["language"],
        arch=fields["arch"],
        ptx=entry.blobs["ptx"].decode("utf-8", "surrogatepass"),
        cubin=entry.blobs.get("cubin"),
        names=fields["names"],
        sources=fields["sources"],
        log=fields["log"],
        key=key,
    )


def _store(binary: Binary) -> None:
    fields = {name: getattr(binary, name) for name in ("language", "arch", "log")}
    fields |= {"names": dict(binary.names), "sources": dict(binary.sources)}
    blobs = {"ptx": binary.ptx.encode("utf-8", "surrogatepass")}
    if binary.cubin is not None:
        blobs["cubin"] = binary.cubin
    cache.store(binary.key, fields, blobs)
