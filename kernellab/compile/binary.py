"""What a compiler gives back: frozen values that the emulator, the GPU and the reports share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class Binary:
    """One translation unit: its PTX, its machine code and what went into them.

    Attributes
    ----------
    language : str
        ``"cuda-c"``, ``"numba"`` or ``"ptx"``.
    arch : str
        The architecture, such as ``"sm_90"``.
    ptx : str
        The PTX text. Line numbers of a `SassInstruction` count in this text, from 1.
    cubin : bytes or None
        Machine code with line tables; None when nothing here could assemble the PTX.
    names : mapping of str to str
        From what a caller asks for (a kernel's plain name, a name expression, a PTX entry) to the PTX entry.
    sources : mapping of str to str
        From a file name, exactly as the ``.file`` lines of `ptx` spell it, to that file's text.
    log : str
        What the compilers said; warnings included.
    key : str
        SHA-256 of everything that went in, the compilers' versions included.
    """

    language: str
    arch: str
    ptx: str
    cubin: bytes | None
    names: Mapping[str, str]
    sources: Mapping[str, str]
    log: str
    key: str


@dataclass(frozen=True, slots=True)
class SassInstruction:
    """One machine instruction.

    Attributes
    ----------
    address : int
        Offset in bytes from the start of its section.
    predicate : str or None
        Such as ``"P0"`` or ``"!P2"``.
    opcode : str
        With all modifiers, such as ``"LDG.E.128.CONSTANT"``.
    operands : str
        As nvdisasm prints them.
    ptx_line : int or None
        1-based line of `Binary.ptx`; None for code that ptxas brought along (division and root routines).
    """

    address: int
    predicate: str | None
    opcode: str
    operands: str
    ptx_line: int | None


@dataclass(frozen=True, eq=False)
class Sass:
    """The machine code of a `Binary`.

    Attributes
    ----------
    functions : mapping of str to tuple of SassInstruction
        By PTX name: entries, and device functions that ptxas kept as calls (all copies one after the other).
    """

    functions: Mapping[str, tuple[SassInstruction, ...]]


@dataclass(frozen=True)
class Resources:
    """What one entry takes on the chip, read from its cubin.

    Attributes
    ----------
    registers : int
        32-bit registers a thread.
    shared_bytes : int
        Static shared memory a block, in bytes, without what the system reserves.
    local_bytes : int
        Local memory (stack frame and spills) a thread, in bytes; callees not included.
    constant_bytes : int
        Constant bank 0 (parameters), in bytes.
    barriers : int
        Named barriers a block.
    """

    registers: int
    shared_bytes: int
    local_bytes: int
    constant_bytes: int
    barriers: int
