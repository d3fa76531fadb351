"""The machine code listing: ``nvdisasm -c -gp`` parsed, one call a cubin, kept in the disk cache."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import tempfile
import zlib
from collections.abc import Mapping

from kernellab.compile import cache, ptx_text
from kernellab.compile.binary import Binary, Sass, SassInstruction
from kernellab.compile.toolchain import require_nvdisasm, toolchain
from kernellab.errors import UnavailableError

_RECIPE = 1
_LINE = re.compile(r'^\s*//## File "\.nv_debug_ptx_txt[^"]*", line (\d+)')
_FUNCTION = re.compile(r"^\s*\.type\s+(\S+),@function")
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]+)\*/\s+(?:@(!?\w+)\s+)?([A-Z][\w.]*)\s*([^;]*?)\s*;")
_LOCAL_COPY = re.compile(r"^\$(?:__internal_\d+_|[^$]+)\$(.+)$")


def sass_of(binary: Binary) -> Sass:
    """The machine code of `binary`, each instruction tagged with the PTX line it came from.

    Parameters
    ----------
    binary : Binary
        From any compiler here; binaries that were linked together share one disassembly.

    Returns
    -------
    Sass

    Raises
    ------
    UnavailableError
        The binary has no machine code, or there is no nvdisasm.
    """
    if binary.cubin is None:
        raise UnavailableError(
            f"the {binary.language} binary for {binary.arch} has no machine code, so there is no SASS: "
            "its log says why"
        )
    found = _disassemble(binary.cubin)
    own = _functions(binary.ptx)
    return Sass({name: code for name, code in found.items() if name in own or name.startswith("__cuda_sm")})


@functools.lru_cache(maxsize=64)
def _functions(ptx: str) -> frozenset[str]:
    return frozenset((*ptx_text.entries(ptx), *ptx_text.functions(ptx)))


def disassemble(cubin: bytes) -> str:
    """The listing of a cubin by ``nvdisasm -c -gp -ndf``."""
    nvdisasm = require_nvdisasm()
    handle, name = tempfile.mkstemp(suffix=".cubin")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(cubin)
        done = subprocess.run(
            # Data flow names the targets of branches that no GPU from sm_75 on has, in a quarter of the time.
            [str(nvdisasm), "-c", "-gp", "-ndf", name],
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
    except OSError as error:
        raise UnavailableError(f"nvdisasm at {nvdisasm} does not start: {error}") from error
    finally:
        os.unlink(name)
    if done.returncode != 0:
        reason = (
            done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}"
        ).splitlines()[0]
        raise UnavailableError(
            f"nvdisasm at {nvdisasm} refuses the cubin: {reason}; install the one of NVRTC's version"
        )
    return done.stdout


def parse(listing: str) -> dict[str, tuple[SassInstruction, ...]]:
    r"""Read a listing of ``nvdisasm -c -gp``.

    Parameters
    ----------
    listing : str
        What nvdisasm printed.

    Returns
    -------
    dict of str to tuple of SassInstruction
        By function; the padding behind a function's last instruction is left out.

    Examples
    --------
    >>> listing = '.type k,@function\n//## File ".nv_debug_ptx_txt", line 7\n/*0010*/ @!P0 LDG.E R0, [R2] ;'
    >>> code = parse(listing)
    >>> code["k"][0].opcode, code["k"][0].predicate, code["k"][0].ptx_line
    ('LDG.E', '!P0', 7)
    """
    functions: dict[str, list[SassInstruction]] = {}
    current: list[SassInstruction] = []
    line: int | None = None
    for row in listing.splitlines():
        if match := _INSTRUCTION.match(row):
            address, predicate, opcode, operands = match.groups()
            current.append(SassInstruction(int(address, 16), predicate, opcode, operands, line))
        elif match := _LINE.match(row):
            line = int(match[1])
        elif match := _FUNCTION.match(row):
            name = match[1]
            copy = _LOCAL_COPY.match(name)
            current = functions.setdefault(copy[1] if copy else name, [])
            line = None
    return {name: _without_padding(code) for name, code in functions.items()}


def _without_padding(code: list[SassInstruction]) -> tuple[SassInstruction, ...]:
    end = len(code)
    while end and code[end - 1].opcode == "NOP":
        end -= 1
    # The endless branch to itself that closes every section.
    if 1 < end < len(code) and code[end - 1].opcode == "BRA":
        end -= 1
    return tuple(code[:end])


@functools.lru_cache(maxsize=32)
def _disassemble(cubin: bytes) -> Mapping[str, tuple[SassInstruction, ...]]:
    nvdisasm = toolchain().nvdisasm
    stamp = f"{nvdisasm.stat().st_size}:{nvdisasm.stat().st_mtime_ns}" if nvdisasm else ""
    key = cache.digest("sass", _RECIPE, cubin, stamp)
    entry = cache.load(key) if nvdisasm else None
    if entry is not None:
        return parse(zlib.decompress(entry.blobs["listing"]).decode())
    listing = disassemble(cubin)
    cache.store(key, {}, {"listing": zlib.compress(listing.encode(), 1)})
    return parse(listing)
