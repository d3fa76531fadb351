"""PTX text as data: parse a module into functions, variables and instructions.

Every dialect that NVRTC, nvcc, Numba and Triton write is read: old typed loads and the ``.b32``-typed
loads of compute_100 and later, nested scopes, call prototypes, inline assembly with several
instructions a line. Nothing is executed here.
"""

from __future__ import annotations

from kernellab.emulator.parser import Parser
from kernellab.emulator.syntax import (
    TYPE_BYTES,
    Function,
    Group,
    Guard,
    Immediate,
    Instruction,
    Memory,
    Module,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Variable,
    Vector,
    render,
)

__all__ = [
    "TYPE_BYTES", "Function", "Group", "Guard", "Immediate", "Instruction", "Memory", "Module", "Operand",
    "Pair", "Register", "Sink", "Special", "Symbol", "Variable", "Vector", "parse", "render",
]  # fmt: skip


def parse(text: str) -> Module:
    """Parse PTX text.

    Parameters
    ----------
    text : str
        A whole PTX module.

    Returns
    -------
    Module

    Raises
    ------
    UnsupportedPTXError
        For a directive, type or shape of statement that is not known; names the line.

    Examples
    --------
    >>> module = parse(".version 8.0 .target sm_90 .address_size 64 .visible .entry f() { ret; }")
    >>> module.entries, str(module.functions["f"].body[0])
    (('f',), 'ret')
    """
    return Parser(text).module()
