"""How the lanes of a warp hold a matrix in registers: the fragments of ``mma``, ``wmma`` and what moves them.

With g = lane / 4 and t = lane % 4, a register of the left operand holds 4 / size neighbours of row g from
column t * 4 / size on, one of the right operand the same with rows and columns exchanged, and two elements
of the accumulator lie at row g, columns 2t and 2t + 1. Larger matrices are tiles of these. The PTX ISA fixes
this for ``mma``. It leaves ``wmma`` open; there it is what sm_80 to sm_90 do: an instruction of 16 x 16 is two
of 16 x 8, one of 8 x 32 multiplies the transposed matrices, and registers that are left over repeat the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator.lanes import WARP
from kernellab.emulator.memory import UNSIGNED
from kernellab.emulator.syntax import TYPE_BYTES
from kernellab.errors import UnsupportedPTXError

Array = npt.NDArray[Any]
Coordinates = tuple[Array, Array]
_GROUP, _PLACE = np.arange(WARP) >> 2, np.arange(WARP) & 3


@dataclass(frozen=True, eq=False)
class Fragment:
    """Where the elements of a matrix are: in which lane, in which part of which register.

    Attributes
    ----------
    role : str
        ``a``, ``b`` or ``c`` (also the result).
    shape : tuple of int
        Rows and columns of the matrix.
    size : int
        Bytes of an element.
    rows, columns : numpy.ndarray of int, shape (elements, 32)
        Which matrix element each element of each lane is, in the order of registers.
    """

    role: str
    shape: tuple[int, int]
    size: int
    rows: Array
    columns: Array

    @property
    def register_bytes(self) -> int:
        """Bytes of a register: 8 for float64, else 4."""
        return max(self.size, 4)

    @property
    def per_register(self) -> int:
        """Elements in a register."""
        return self.register_bytes // self.size

    @property
    def registers(self) -> int:
        """Registers that a lane needs; an instruction may name a multiple, which repeats them."""
        return len(self.rows) // self.per_register

    @cached_property
    def _order(self) -> Array:
        """For each matrix element, row by row, its place among (register, lane, part)."""
        place = np.empty(self.shape, np.intp)
        parts = np.arange(len(self.rows) * WARP).reshape(self.registers, WARP, self.per_register)
        place[self._by_part(self.rows), self._by_part(self.columns)] = parts
        return place.reshape(-1)

    @cached_property
    def _inverse(self) -> Array:
        """For each (register, lane, part) the matrix element there."""
        found: Array = (self._by_part(self.rows) * self.shape[1] + self._by_part(self.columns)).reshape(-1)
        return found

    def _by_part(self, values: Array) -> Array:
        return values.reshape(self.registers, self.per_register, WARP).swapaxes(1, 2)

    def matrix(self, words: Array) -> Array:
        """Take the matrix of each warp out of registers.

        Parameters
        ----------
        words : numpy.ndarray of unsigned integers, shape (R, registers, 32)

        Returns
        -------
        numpy.ndarray of unsigned integers, shape (R, rows, columns)
            The bits of the elements.
        """
        elements = words.view(UNSIGNED[self.size]).reshape(len(words), -1)
        return elements.take(self._order, axis=1).reshape(-1, *self.shape)

    def words(self, matrix: Array) -> Array:
        """Put a matrix a warp into registers: the inverse of `matrix`."""
        elements = matrix.reshape(len(matrix), -1).take(self._inverse, axis=1)
        found: Array = elements.view(UNSIGNED[self.register_bytes]).reshape(len(matrix), -1, WARP)
        return found


def _coordinates(m: int, n: int, place: Callable[[int, int], list[Coordinates]]) -> Coordinates:
    found = [pair for i in range(0, m, 16) for j in range(0, n, 8) for pair in place(i, j)]
    rows, columns = zip(*found, strict=True)
    return np.stack(rows), np.stack(columns)


def _left(m: int, k: int, per: int) -> Coordinates:
    def place(i: int, _: int) -> list[Coordinates]:
        return [
            (i + half + _GROUP, start + per * _PLACE + e)
            for start in range(0, k, 4 * per)
            for half in range(0, min(m, 16), 8)
            for e in range(per)
        ]

    return _coordinates(m, 8, place)


def _right(k: int, n: int, per: int) -> Coordinates:
    def place(_: int, j: int) -> list[Coordinates]:
        return [(start + per * _PLACE + e, j + _GROUP) for start in range(0, k, 4 * per) for e in range(per)]

    return _coordinates(16, n, place)


def _accumulator(m: int, n: int) -> Coordinates:
    def place(i: int, j: int) -> list[Coordinates]:
        return [(i + half + _GROUP, j + 2 * _PLACE + e) for half in range(0, min(m, 16), 8) for e in range(2)]

    return _coordinates(m, n, place)


@lru_cache(maxsize=256)
def fragment(role: str, m: int, n: int, k: int, kind: str) -> Fragment:
    """Return the fragment of a matrix.

    Parameters
    ----------
    role : str
        ``a`` (m x k), ``b`` (k x n) or ``c`` (m x n; also the result).
    m, n, k : int
        Shape of the operation.
    kind : str
        PTX type of the elements.

    Returns
    -------
    Fragment

    Raises
    ------
    UnsupportedPTXError
        For shapes that do not consist of tiles of 8 rows with 4 registers.

    Examples
    --------
    >>> a = fragment("a", 16, 8, 16, "f16")
    >>> a.registers, a.rows[:, 5].tolist(), a.columns[:, 5].tolist()
    (4, [1, 1, 9, 9, 1, 1, 9, 9], [2, 3, 2, 3, 10, 11, 10, 11])
    """
    size = TYPE_BYTES[kind]
    per = max(size, 4) // size
    if role != "c" and k % (4 * per):
        raise UnsupportedPTXError(f"m{m}n{n}k{k} with .{kind}: the emulator does not know this shape")
    if m < n and m == 8 and n > 8:  # as its transpose
        other = {"a": "b", "b": "a", "c": "c"}[role]
        turned = fragment(other, n, m, k, kind)
        return Fragment(role, turned.shape[::-1], size, turned.columns, turned.rows)
    if role == "a":
        return Fragment(role, (m, k), size, *_left(m, k, per))
    if role == "b":
        return Fragment(role, (k, n), size, *_right(k, n, per))
    return Fragment(role, (m, n), size, *_accumulator(m, n))
