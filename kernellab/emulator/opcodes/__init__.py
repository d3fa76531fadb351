"""What each data operation of PTX computes, element by element, over NumPy arrays.

`semantics` maps an opcode with its modifiers to a `Semantics`. Here are no masks, no memory, no control
flow: those belong to the machine. An opcode is one small function in one of the modules by family.
"""

from __future__ import annotations

from kernellab.emulator.opcodes import (  # noqa: F401  (importing a family registers its opcodes)
    bits,
    carry,
    compare,
    convert,
    floats,
    halves,
    integer,
    logic,
    video,
)
from kernellab.emulator.opcodes.registry import Modifiers, Semantics, opcode, semantics

__all__ = ["Modifiers", "Semantics", "opcode", "semantics"]
