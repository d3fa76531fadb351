"""Matrices in shared memory that ``wgmma`` names by a descriptor of 64 bits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator.in_flight import PIECE
from kernellab.emulator.memory import UNSIGNED
from kernellab.tensor_map import swizzled

Array = npt.NDArray[Any]
CORE = 8
"""Rows of a core matrix, which are one piece long."""
K_BYTES = 32
"""Bytes of K that one instruction takes, whatever the type."""
_SWIZZLES = (0, 128, 64, 32)
_RESERVED = (0b11 << 14) | (0b11 << 30) | (0b111 << 46) | (0x3FF << 52)


@dataclass(frozen=True, slots=True)
class MatrixDescriptor:
    """A decoded descriptor.

    Attributes
    ----------
    start, leading, stride : int
        Bytes: the first byte, and the leading and stride dimension byte offsets.
    base : int
        Rows of 128 bytes by which the swizzle pattern is shifted.
    swizzle : int
        0, 32, 64 or 128.
    """

    start: int
    leading: int
    stride: int
    base: int
    swizzle: int

    def pieces(self, rows: int, itemsize: int, is_transposed: bool) -> npt.NDArray[np.int64]:
        """Return the addresses of the 16-byte pieces of a matrix of `rows` (M or N) times 32 bytes of K.

        The shape is (rows, 2), or, when `is_transposed` (M or N is contiguous), (rows / elements, K).
        """
        linear = _linear(self, rows, itemsize, is_transposed)
        found: npt.NDArray[np.int64] = swizzled(self.start + linear, self.swizzle, self.base)
        return found


def decode(bits: int) -> MatrixDescriptor | None:
    """Decode a descriptor; None if bits are set that must be 0.

    Examples
    --------
    >>> decode(1 << 62 | 64 << 32 | 1 << 16 | 0x400 >> 4)
    MatrixDescriptor(start=1024, leading=16, stride=1024, base=0, swizzle=128)
    """
    if bits & _RESERVED:
        return None
    start, leading, stride = ((bits >> shift & 0x3FFF) << 4 for shift in (0, 16, 32))
    return MatrixDescriptor(start, leading, stride, bits >> 49 & 7, _SWIZZLES[bits >> 62])


@lru_cache(maxsize=256)
def _offsets(
    rows: int, itemsize: int, is_transposed: bool, swizzle: int, leading: int, stride: int
) -> npt.NDArray[np.int64]:
    width = max(swizzle, PIECE)  # bytes of a row of the swizzle's pattern
    if not is_transposed:
        i, c = np.arange(rows)[:, None], np.arange(K_BYTES // PIECE)
        across = PIECE if swizzle else leading
        return (i % CORE) * width + (i // CORE) * stride + c * across
    i, k = np.arange(rows * itemsize // PIECE)[:, None], np.arange(K_BYTES // itemsize)
    if not swizzle:
        return i * stride + (k % CORE) * PIECE + (k // CORE) * leading
    per_row = width // PIECE
    return (i % per_row) * PIECE + (i // per_row) * leading + (k % CORE) * width + (k // CORE) * stride


def _linear(
    descriptor: MatrixDescriptor, rows: int, itemsize: int, is_transposed: bool
) -> npt.NDArray[np.int64]:
    return _offsets(rows, itemsize, is_transposed, descriptor.swizzle, descriptor.leading, descriptor.stride)


def matrix_of(raw: Array, rows: int, itemsize: int, is_transposed: bool) -> Array:
    """Return the bits of a matrix, shape (rows, K), from its pieces' bytes, shape (..., 16)."""
    elements = raw.reshape(-1, PIECE).view(UNSIGNED[itemsize])
    if not is_transposed:
        return elements.reshape(rows, K_BYTES // itemsize)
    per_piece = PIECE // itemsize
    return elements.reshape(rows // per_piece, -1, per_piece).swapaxes(1, 2).reshape(rows, -1)
