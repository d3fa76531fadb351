"""Where the lanes of a call meet again, and how lanes wait."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kernellab.emulator.lanes import WARP, Mask

if TYPE_CHECKING:
    from kernellab.emulator.flow import Block
    from kernellab.emulator.frame import Frame

Rows = npt.NDArray[np.intp]


class Join:
    """Where the lanes that called a function together meet when they return.

    Attributes
    ----------
    frame, block
        Where its lanes go on once they are together.
    parent : Join or None
        That of the call around it.
    returns : tuple of str
        The caller's ``.param`` variables that get the function's results.
    expected, arrived : numpy.ndarray of bool, shape (height, 32)
    """

    __slots__ = ("arrived", "block", "depth", "expected", "frame", "parent", "returns")

    def __init__(
        self, frame: Frame, block: int, parent: Join | None, height: int, returns: tuple[str, ...]
    ) -> None:
        self.frame = frame
        self.block = block
        self.parent = parent
        self.depth: int = parent.depth + 1 if parent else 0
        self.returns = returns
        self.expected = np.zeros((height, WARP), np.bool_)
        self.arrived = np.zeros((height, WARP), np.bool_)


@dataclass(slots=True)
class Waiter:
    """Lanes that wait at a barrier or for other lanes of their warp."""

    frame: Frame
    block: Block
    stack: Join | None
    rows: Rows
    mask: Mask

    def part(self, chosen: npt.NDArray[np.bool_]) -> Waiter:
        """Return the warps that `chosen` marks among its rows."""
        return Waiter(self.frame, self.block, self.stack, self.rows[chosen], self.mask[chosen])

    def only(self, mask: Mask) -> Waiter | None:
        """Return its lanes that `mask`, of the shape of its own, marks; None if there is none."""
        kept = self.mask & mask
        some = kept.any(axis=1)
        if not some.any():
            return None
        return Waiter(self.frame, self.block, self.stack, self.rows[some], kept[some])
