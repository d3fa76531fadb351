"""What a launch counted, by instruction; and what went wrong in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]

REQUESTS, UNITS, SECOND, IDEAL, LANES = range(5)
"""Columns of an access: requests; sectors or wavefronts; lines or bank conflicts; ideal units; lanes."""


@dataclass(slots=True)
class Counts:
    """Raw counters of a launch, or of a part of it.

    Attributes
    ----------
    block_warps, block_lanes : numpy.ndarray of int64
        Executions of each basic block by warps, and active lanes summed over them.
    guarded : numpy.ndarray of int64
        For each instruction, lanes that its predicate switched off.
    branches, divergent : numpy.ndarray of int64
        For each instruction, executions as a branch, and how many of them split a warp.
    splits : numpy.ndarray of int64
        For each basic block, parts of warps that reached it apart from the rest, to join it there.
    accesses : dict
        (instruction, space, ``load`` | ``store`` | ``atomic``) -> the five columns.
    """

    block_warps: Int64
    block_lanes: Int64
    guarded: Int64
    branches: Int64
    divergent: Int64
    splits: Int64
    accesses: dict[tuple[int, str, str], Int64] = field(default_factory=dict)

    @classmethod
    def empty(cls, blocks: int, instructions: int) -> Counts:
        """Return zeros."""
        warps, lanes, splits = (np.zeros(blocks, np.int64) for _ in range(3))
        guarded, branches, divergent = (np.zeros(instructions, np.int64) for _ in range(3))
        return cls(warps, lanes, guarded, branches, divergent, splits)

    def add_access(self, key: tuple[int, str, str], values: tuple[int, ...]) -> None:
        """Add to the columns of an access."""
        row = self.accesses.get(key)
        if row is None:
            row = self.accesses[key] = np.zeros(5, np.int64)
        row += values

    def add(self, other: Counts) -> None:
        """Add another part's counters."""
        for name in ("block_warps", "block_lanes", "guarded", "branches", "divergent", "splits"):
            getattr(self, name)[...] += getattr(other, name)
        for key, row in other.accesses.items():
            self.add_access(key, tuple(row))


@dataclass(slots=True)
class Diagnostic:
    """Something that a kernel did wrong.

    Attributes
    ----------
    kind : str
        Of memory: ``out of bounds``, ``misaligned``, ``read-only``, ``unwritten shared memory``, ``race``.
        Of warps and blocks: ``divergent barrier``, ``divergent``, ``absent lane``, ``lane outside its mask``,
        ``lanes disagree``, ``cluster barrier``, ``ended block``, ``warpgroup``. Of asynchronous operations: ``in flight``,
        ``copy size``, ``mbarrier``, ``tensor map``, ``matrix descriptor``, ``missing fence``, ``released too
        early``. Of the whole: ``deadlock``, ``endless loop``, ``instruction budget``, ``assertion``, ``trap``.
    is_error : bool
        True where a GPU would fault, hang or be undefined; False for what merely looks wrong.
    message : str
        One sentence: what, where, who.
    file, line : str, int
        Source line (empty and 0 when unknown).
    ptx_line : int
    block, thread : tuple of int
        The first thread that did it.
    count : int
        How many lanes did it at this instruction.
    """

    kind: str
    is_error: bool
    message: str
    file: str
    line: int
    ptx_line: int
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    count: int = 1

    def __str__(self) -> str:
        return self.message


def as_tuple(values: Any) -> tuple[int, int, int]:
    """Return three plain integers."""
    x, y, z = (int(v) for v in values)
    return x, y, z
