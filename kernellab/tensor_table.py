"""Tensor tables: many arrays as one argument of a kernel, a structure of pointers and lengths by value.

The counterpart of ``kernels_cu/include/tensors.cuh``. By value, so that a launch needs no copy of a table to
the device and nothing that has to stay alive there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernellab.arrays import spec_of


@dataclass(frozen=True, eq=False)
class TensorTable:
    """Lists of arrays, side by side, whose elements the blocks of one launch share.

    Attributes
    ----------
    lists : sequence of sequence of array
        The k-th arrays of all lists belong together and have one length.
    capacity : int
        For how many the kernel was compiled.
    first_blocks : sequence of int
        The first block that works on each.
    blocks_before : int
        Blocks of earlier launches over the same lists.
    """

    lists: Sequence[Sequence[Any]]
    capacity: int
    first_blocks: Sequence[int]
    blocks_before: int = 0

    @property
    def arrays(self) -> tuple[Any, ...]:
        """All of them."""
        return tuple(array for arrays in self.lists for array in arrays)

    def encode(self, address_of: Callable[[Any], int]) -> Any:
        """Return the structure as a NumPy array without axes, given what tells an array's address."""
        record = np.zeros((), table_dtype(len(self.lists), self.capacity))
        count = len(self.first_blocks)
        for row, arrays in zip(record["address"], self.lists, strict=True):
            row[:count] = [address_of(array) for array in arrays]
        record["length"][:count] = [array.size for array in self.lists[0]]
        record["first_block"][:count] = self.first_blocks
        record["tensors"], record["blocks_before"] = count, self.blocks_before
        return record

    def encode_for_driver(self) -> Any:
        """Return the structure for arrays on the GPU. CuPy passes an array of one element by value, of any size."""
        return self.encode(lambda array: spec_of(array).pointer)


def table_dtype(lists: int, capacity: int) -> np.dtype[Any]:
    """Return the structure's layout, as C has it.

    Examples
    --------
    >>> table_dtype(1, 64).itemsize
    1288
    """
    fields = [
        ("address", "u8", (lists, capacity)),
        ("length", "i8", (capacity,)),
        ("first_block", "u4", (capacity,)),
        ("tensors", "u4"),
        ("blocks_before", "u4"),
    ]
    return np.dtype(fields, align=True)
