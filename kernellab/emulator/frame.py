"""The registers and variables of a function while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator.code import Code, Slot, Views, storage_dtype
from kernellab.emulator.lanes import WARP

if TYPE_CHECKING:
    from kernellab.emulator.batch import Batch

Array = npt.NDArray[Any]


class Frame:
    """The registers and variables of one function at one depth of calls, for all warps of a batch."""

    def __init__(self, batch: Batch, code: Code, depth: int, local_base: int) -> None:
        self.code = code
        self.depth = depth
        self.local_base = local_base
        height = batch.height
        self.registers = _registers(code, height)
        self.parameters = {
            name: np.zeros((height, WARP, -(-nbytes // 8) * 8), np.uint8)
            for name, nbytes in code.parameter_bytes.items()
        }
        self.views: Views = [self._view(batch, slot) for slot in code.slots]

    def _view(self, batch: Batch, slot: Slot) -> Any:
        if slot.kind == "constant":
            return slot.value
        if slot.kind == "local":
            offset = self.local_base + self.code.local_offsets[slot.name] + slot.part
            return slot.dtype.type(offset)
        if slot.kind == "parameter":
            raw = self.parameters[slot.name][:, :, slot.part : slot.part + slot.dtype.itemsize]
            return raw.view(slot.dtype)[:, :, 0]
        storage = batch.special(slot.name) if slot.kind == "special" else self.registers[slot.name]
        if storage.dtype.itemsize == slot.dtype.itemsize:
            return storage if storage.dtype == slot.dtype else storage.view(slot.dtype)
        parts = storage.view(slot.dtype).reshape(batch.height, WARP, -1)
        return parts[:, :, slot.part]


def _registers(code: Code, height: int) -> dict[str, Array]:
    """Return zeroed registers by name, those of one size in one allocation."""
    by_dtype: dict[np.dtype[Any], list[str]] = {}
    for name in dict.fromkeys(slot.name for slot in code.slots if slot.kind == "register"):
        by_dtype.setdefault(storage_dtype(code.register_types[name]), []).append(name)
    blocks = [(names, np.zeros((len(names), height, WARP), dtype)) for dtype, names in by_dtype.items()]
    return {name: row for names, block in blocks for name, row in zip(names, block, strict=True)}
