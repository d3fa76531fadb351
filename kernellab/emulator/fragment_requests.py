"""Which requests a ``wmma.load`` or ``wmma.store`` becomes, as ptxas compiles them for sm_80 to sm_90.

A and B of 8- and 16-bit elements come from shared memory by LDSM, with a transpose where 16-bit elements lie
the other way. Everything else is one access of each lane a register, or two registers where these hold
neighbours; 16-bit elements that lie the other way are read as their transpose and turned by MOVM; other
elements that lie the other way are read one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator.fragments import Fragment, fragment
from kernellab.emulator.lanes import WARP
from kernellab.emulator.syntax import TYPE_BYTES
from kernellab.errors import UnsupportedPTXError

Array = npt.NDArray[Any]
_GROUP, _PLACE = np.arange(WARP) >> 2, np.arange(WARP) & 3


@dataclass(frozen=True, eq=False, slots=True)
class Request:
    """One access of each lane.

    Attributes
    ----------
    across, along : numpy.ndarray of int, shape (32,)
        The first element of each lane: its row (column, of a matrix that is stored by columns), and its
        place in that.
    width : int
        Bytes a lane.
    registers : range
        Those that it fills or empties.
    part : int or None
        The only element of the register; None for all.
    is_transposed : bool
        The register holds the transpose of what the lanes access.
    """

    across: Array
    along: Array
    width: int
    registers: range
    part: int | None = None
    is_transposed: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class FragmentAccess:
    """What a ``wmma.load`` or ``wmma.store`` moves.

    Attributes
    ----------
    space : str
        ``global``, ``shared`` or ``generic``.
    is_store : bool
    fragment : Fragment
    is_by_rows : bool
    requests : tuple of Request
    matrices : tuple of range
        The registers of each LDSM, which is then what is issued in place of the requests.
    """

    space: str
    is_store: bool
    fragment: Fragment
    is_by_rows: bool
    requests: tuple[Request, ...]
    matrices: tuple[range, ...]

    @property
    def width(self) -> int:
        """Bytes of a lane in each access that is issued."""
        return 16 if self.matrices else self.requests[0].width

    @property
    def issued(self) -> int:
        """Accesses that are issued."""
        return len(self.matrices) or len(self.requests)

    @property
    def stride(self) -> int:
        """Elements from one row or column to the next, where the instruction does not say it."""
        return self.fragment.shape[1 if self.is_by_rows else 0]

    @property
    def alignment(self) -> int:
        """Bytes of which every row or column has to start at a multiple."""
        held = self.fragment
        return max(self.width, min(16, held.registers * held.register_bytes))


@lru_cache(maxsize=256)
def fragment_access(opcode: str) -> FragmentAccess | None:
    """Read what a ``wmma.load`` or ``wmma.store`` moves, and how; None for another opcode.

    Examples
    --------
    >>> found = fragment_access("wmma.load.a.sync.aligned.row.m16n16k16.shared.f16")
    >>> found.width, found.issued, found.fragment.shape
    (16, 1, (16, 16))
    >>> found = fragment_access("wmma.store.d.sync.aligned.col.m16n16k16.global.f32")
    >>> found.width, found.issued
    (4, 8)
    """
    head, _, tail = opcode.replace("::cta", "").partition(".sync.aligned.")
    if head not in ("wmma.load.a", "wmma.load.b", "wmma.load.c", "wmma.store.d"):
        return None
    layout, shape, *space, kind = tail.split(".")
    if layout not in ("row", "col") or len(space) > 1 or kind not in TYPE_BYTES:
        raise UnsupportedPTXError(f"{opcode}: the emulator does not know this form of {head}")
    m, n, k = (int(word) for word in shape[1:].replace("n", "k").split("k"))
    role = "c" if head.endswith(("c", "d")) else head[-1]
    held = fragment(role, m, n, k, kind)
    requests = _requests(held, layout == "row")
    is_matrix = role != "c" and space == ["shared"] and held.size < 4 and requests[0].part is None
    return FragmentAccess(
        space[0] if space else "generic", ".store." in head, held, layout == "row", requests,
        _matrices(held) if is_matrix else (),
    )  # fmt: skip


def _requests(held: Fragment, is_by_rows: bool) -> tuple[Request, ...]:
    across, along = (held.rows, held.columns) if is_by_rows else (held.columns, held.rows)
    per = held.per_register
    for count in (2 * per, per):
        if _are_neighbours(across, along, count):
            size, registers = count * held.size, count // per
            return tuple(
                Request(across[i], along[i], size, range(i // per, i // per + registers))
                for i in range(0, len(across), count)
            )
    if held.size == 2:
        return tuple(
            Request(across[i].min() + _GROUP, along[i].min() + 2 * _PLACE, 4, _one(i // per), None, True)
            for i in range(0, len(across), per)
        )
    return tuple(
        Request(across[i], along[i], held.size, _one(i // per), i % per if per > 1 else None)
        for i in range(len(across))
    )


def _one(register: int) -> range:
    return range(register, register + 1)


def _are_neighbours(across: Array, along: Array, count: int) -> bool:
    """Say whether each `count` elements lie side by side in memory."""
    if len(across) % count:
        return False
    across, along = (each.reshape(-1, count, WARP) for each in (across, along))
    steps = np.arange(count)[None, :, None]
    return bool((across == across[:, :1]).all() and (along == along[:, :1] + steps).all())


def _matrices(held: Fragment) -> tuple[range, ...]:
    """Cut registers into those of one LDSM: a tile of 16 rows (or of the whole right operand)."""
    tiles = max(max(held.shape) // 16, 1)
    each = held.registers // tiles
    return tuple(range(i, i + each) for i in range(0, held.registers, each))
