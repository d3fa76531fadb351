"""What each data operation of PTX computes, element by element, over NumPy arrays.

`semantics` maps an opcode with its modifiers to a `Semantics`. Here are no masks, no memory, no control
flow: those belong to the machine. An opcode is one small function in one of the modules by family.
"""

from __future__ import annotations

import numpy as np

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

# Once glibc has freed one large block it keeps smaller ones that are freed; otherwise it gives the
# temporaries of each operation back to the system and faults their pages in again (fma.rn.f32 on 512 warps:
# 420 us, not 45).
np.empty(1 << 24, np.uint8)

__all__ = ["Modifiers", "Semantics", "opcode", "semantics"]
