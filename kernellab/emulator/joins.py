"""Where the splits of a diverged warp meet again, and how lanes wait."""

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
    """Where the splits of diverged warps meet, or where a called function returns to.

    Attributes
    ----------
    frame, block
        Where its lanes go on once they are together.
    parent : Join or None
        The join around it.
    is_return : bool
        True for the end of a call: lanes reach it by ``ret``.
    returns : tuple of str
        The caller's ``.param`` variables that get the function's results.
    expected, arrived : numpy.ndarray of bool, shape (height, 32)
    """

    __slots__ = ("arrived", "block", "depth", "expected", "frame", "is_return", "parent", "returns")

    def __init__(
        self, frame: Frame, block: int, parent: Join | None, height: int, returns: tuple[str, ...] | None
    ) -> None:
        self.frame = frame
        self.block = block
        self.parent = parent
        self.depth: int = parent.depth + 1 if parent else 0
        self.is_return = returns is not None
        self.returns = returns or ()
        self.expected = np.zeros((height, WARP), np.bool_)
        self.arrived = np.zeros((height, WARP), np.bool_)

    def is_at(self, frame: Frame, block: int) -> bool:
        """Say whether lanes that come to a block have come to this join."""
        return self.block == block and self.frame is frame and not self.is_return


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
