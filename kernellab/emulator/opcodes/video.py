"""SIMD video operations: bytes or 16-bit halves of a word at once (from __vabsdiffu4 and the like)."""

from __future__ import annotations

import numpy as np

from kernellab.emulator.opcodes.integer import part_of
from kernellab.emulator.opcodes.registry import DTYPES, Array, Compute, Modifiers, Semantics, opcode

LANES: dict[str, Compute] = {
    "vadd": np.add,
    "vsub": np.subtract,
    "vabsdiff": lambda a, b: np.abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
    "vavrg": lambda a, b: (a + b + (a + b >= 0)) >> 1,
}


@opcode(" ".join(f"{name}{count}" for name in LANES for count in (2, 4)), "u32 s32")
def video(m: Modifiers) -> Semantics:
    """Apply the operation to each part of a and b; .add sums the parts and adds c, .sat clamps each."""
    count, function = int(m.name[-1]), LANES[m.name[:-1]]
    is_summed, is_saturated = m.has("add"), m.has("sat")
    kinds = [DTYPES[t].kind for t in m.types]
    bits = 32 // count
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kinds[0] == "i" else (0, (1 << bits) - 1)

    def compute(a: Array, b: Array, c: Array) -> Array:
        out = c if is_summed else c & np.uint32(0)
        for i in range(count):
            x, y = (part_of(v, i, bits, k).view(np.int32) for v, k in ((a, kinds[1]), (b, kinds[2])))
            part = function(x, y)
            if is_saturated:
                part = np.minimum(np.maximum(part, np.int32(low)), np.int32(high))
            part = part.view(np.uint32)
            out = (
                out + part if is_summed else out | (part & np.uint32((1 << bits) - 1)) << np.uint32(bits * i)
            )
        return out

    return Semantics((DTYPES["b32"],) * 3, (DTYPES["b32"],), compute)
