"""Ordinary stores and asynchronous reads see shared memory through different proxies; a fence joins them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator.in_flight import PIECE
from kernellab.emulator.lanes import Lanes
from kernellab.emulator.ptx import Function

if TYPE_CHECKING:
    from kernellab.emulator.batch import Batch

Array = npt.NDArray[Any]


def reads_asynchronously(function: Function) -> bool:
    """Say whether a function has instructions that read shared memory through the asynchronous proxy."""
    return any(
        instruction.opcode.startswith("wgmma.mma_async")
        or (instruction.opcode.startswith("cp.") and ".bulk." in instruction.opcode)
        for instruction in function.body
    )


class Proxies:
    """Which bytes of a batch's shared memory were stored to, and no ``fence.proxy.async`` has followed.

    A fence of any thread counts for its whole block: it is the fence that nobody wrote that is found.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.is_used = any(reads_asynchronously(code.function) for code in batch.launch.codes.values())
        count = batch.shared.data.size // PIECE if self.is_used else 0
        self.unfenced = np.zeros(count, np.int32)

    def reset(self) -> None:
        """Forget everything, for the next blocks."""
        self.unfenced[:] = 0

    def store(self, number: int, lanes: Lanes, flat: Array, nbytes: int) -> None:
        """Note ordinary stores; `flat` holds the address of each active lane."""
        owners, local = self.batch.owners(lanes, flat)
        inside = (local >= 0) & (local + nbytes <= self.batch.shared.size)
        self.unfenced[(owners * self.batch.shared.pitch + local)[inside] // PIECE] = number + 1

    def fence(self, lanes: Lanes) -> None:
        """``fence.proxy.async``."""
        blocks = self.batch.block_of_row[lanes.rows]
        pieces = self.batch.shared.pitch // PIECE
        self.unfenced[: self.batch.blocks * pieces].reshape(self.batch.blocks, pieces)[blocks] = 0

    def read(self, number: int, row: int, column: int, starts: Array) -> None:
        """Complain of an asynchronous read of what was stored and not fenced."""
        stores = self.unfenced[starts // PIECE]
        if stores.any():
            first = int(np.flatnonzero(stores)[0])
            byte = int(starts[first]) % self.batch.shared.pitch
            what = (
                f"missing fence: this asynchronous read touches byte {byte} of shared memory, which the "
                f"store at {self.batch.launch.where(int(stores[first]) - 1)} wrote; call fence.proxy.async "
                "between them, where it was written"
            )
            self.batch.complain(number, "missing fence", what, row, column, is_error=False)
