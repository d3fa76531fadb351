"""CUDA C that also holds host code: through nvcc, to the same PTX and cubin with line tables."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.compile import ptx_text
from kernellab.compile.itanium import demangle
from kernellab.errors import CompileError, UnavailableError

if TYPE_CHECKING:
    from kernellab.compile.cuda_c import Request

_SECONDS = 600


def compile_with_nvcc(
    request: Request, nvcc: Path, search: Sequence[str]
) -> tuple[str, bytes, Mapping[str, str], str]:
    """Compile `request` with nvcc.

    Returns
    -------
    (str, bytes, mapping, str)
        PTX, cubin, PTX names of the name expressions, and the log.
    """
    with tempfile.TemporaryDirectory(prefix="kernellab-") as folder:
        # A plain name in a plain place: nvcc's tools trip over spaces and other alphabets.
        source = Path(folder) / "kernel.cu"
        source.write_text(_with_instances(request), encoding="utf-8")
        log = _run(request, [str(nvcc), *_options(request, folder, search), str(source)])
        ptx = (Path(folder) / "kernel.ptx").read_text(encoding="utf-8", errors="replace")
        cubin = (Path(folder) / "kernel.cubin").read_bytes()
    ptx = ptx_text.rename_files(ptx, lambda name: request.file_name if name == str(source) else name)
    return ptx, cubin, _lowered(request, ptx), log


def _with_instances(request: Request) -> str:
    name = request.file_name.replace("\\", "\\\\").replace('"', '\\"')
    kept = "\n".join(
        f"__attribute__((used)) static const void* const kernellab_{index} = (const void*)({expression});"
        for index, expression in enumerate(request.name_expressions)
    )
    return f'#line 1 "{name}"\n{request.text}\n{kept}\n'


def _options(request: Request, folder: str, search: Sequence[str]) -> list[str]:
    number = request.arch[3:]
    chosen = [
        "-cubin",
        "-lineinfo",
        "-keep",
        f"--keep-dir={folder}",
        "-o",
        os.path.join(folder, "kernel.cubin"),
    ]
    chosen += [
        f"-gencode=arch=compute_{number},code=sm_{number}",
        "--expt-relaxed-constexpr",
        "--extended-lambda",
    ]
    if not any(option.startswith(("-std=", "--std=")) for option in request.options):
        chosen.append("-std=c++17")
    chosen += [option for option in request.options if not option.startswith("-I")]
    return chosen + [f"-I{each}" for each in dict.fromkeys([request.directory, *search])]


def _run(request: Request, command: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, encoding="utf-8", errors="replace", timeout=_SECONDS
        )
    except OSError as error:
        raise UnavailableError(f"nvcc at {command[0]} does not start: {error}") from error
    except subprocess.TimeoutExpired as error:
        raise CompileError(f"{request.label}: nvcc took over {_SECONDS} seconds; it was stopped") from error
    log = _once((done.stdout + done.stderr).strip().replace(command[-1], request.file_name))
    if done.returncode != 0:
        first = re.search(r"^.*(?:error|fatal)\b.*$", log, re.MULTILINE)
        shown = first[0].strip() if first else f"exit status {done.returncode}"
        raise CompileError(f"{request.label} does not compile with nvcc (it holds host code): {shown}", log)
    return log


def _once(log: str) -> str:
    """Leave out what nvcc says again: it reads a file once for the host and once for each device."""
    parts = re.split(r"\n(?=\S)", log)
    return "\n".join(dict.fromkeys(part.rstrip() for part in parts))


def _lowered(request: Request, ptx: str) -> dict[str, str]:
    readable = {entry: demangle(entry) or entry for entry in ptx_text.entries(ptx)}
    found = {}
    for expression in request.name_expressions:
        exact = [entry for entry, name in readable.items() if _squeeze(name) == _squeeze(expression)]
        base = _squeeze(expression).partition("<")[0]
        loose = [entry for entry, name in readable.items() if _squeeze(name).partition("<")[0] == base]
        chosen = exact or loose
        if len(chosen) != 1:
            raise CompileError(
                f"{request.label}: {expression!r} is {'no' if not chosen else 'not one'} kernel; the PTX has "
                f"{', '.join(readable.values()) or 'none'}"
            )
        found[expression] = chosen[0]
    return found


def _squeeze(name: str) -> str:
    plain = re.sub(r"\bunsigned\b(?!\s+(?:char|short|int|long))", "unsigned int", name.strip().lstrip("&"))
    return re.sub(r"\s+", "", plain.strip("()")).removeprefix("::")
