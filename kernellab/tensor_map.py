"""Tensor maps: what a kernel's ``const __grid_constant__ CUtensorMap`` parameter says of an array and its tiles.

On a GPU the driver encodes a map; on the emulator it has an encoding of its own, in the same 128 bytes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from kernellab.arrays import spec_of
from kernellab.errors import ArgumentError, SpecError

NBYTES = 128
SWIZZLES = (0, 32, 64, 128)
_MAGIC = 0x6B6C_7465_6E73_6F72
_LAYOUT = struct.Struct("<QQBBB5I4Q5H5B")
_DRIVER_TYPES = {
    "uint8": "UINT8", "int8": "UINT8", "float8_e4m3fn": "UINT8", "float8_e5m2": "UINT8", "uint16": "UINT16",
    "int16": "UINT16", "float16": "FLOAT16", "bfloat16": "BFLOAT16", "int32": "INT32", "uint32": "UINT32",
    "float32": "FLOAT32", "int64": "INT64", "uint64": "UINT64", "float64": "FLOAT64",
}  # fmt: skip
_CODES = tuple(_DRIVER_TYPES)


@dataclass(frozen=True, slots=True)
class Tiling:
    """A decoded tensor map; every tuple has the innermost axis first, as the hardware has.

    Attributes
    ----------
    address : int
        Of the first element.
    dtype : numpy.dtype
    lengths, box, steps : tuple of int
        Elements of the array, of a tile, and between two elements of a tile, along each axis.
    strides : tuple of int
        Bytes between neighbours along each axis.
    swizzle : int
        0, 32, 64 or 128 bytes.
    """

    address: int
    dtype: np.dtype[Any]
    lengths: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    swizzle: int

    @property
    def tile(self) -> tuple[int, ...]:
        """Elements of a tile in shared memory, along each axis."""
        return tuple(-(-b // s) for b, s in zip(self.box, self.steps, strict=True))

    @property
    def nbytes(self) -> int:
        """Bytes of a tile in shared memory."""
        return math.prod(self.tile) * self.dtype.itemsize


@dataclass(frozen=True, eq=False)
class TensorMap:
    """Tiles of an array, for the copies of whole tiles that Hopper's TMA does.

    Parameters
    ----------
    array : array
        One to five axes, C-contiguous or padded: the last axis is dense, the other strides are multiples
        of 16 bytes. A NumPy array on the emulator, a CuPy array on a GPU.
    box : sequence of int
        Elements of a tile along each axis, in the order of the array's shape; 1 to 256.
    swizzle : {0, 32, 64, 128}
        Bytes of a tile's row, if the 16-byte pieces of rows are to be permuted in shared memory.
    element_strides : sequence of int, optional
        Take every so many-th element along each axis; 1 to 8.

    Raises
    ------
    ArgumentError, SpecError
        For what the hardware does not take.

    Notes
    -----
    A kernel gives coordinates with the last axis first: ``{k, m}`` for an array of shape (m, k). Elements
    beyond the array are loaded as zeros and not stored. Along the last axis a tile begins at a multiple of 16
    bytes, and one that is stored begins at 0 or above: an H200 has anything else as an illegal instruction.

    Examples
    --------
    >>> import numpy as np
    >>> a = np.zeros((256, 128), np.float16)
    >>> TensorMap(a, box=(128, 64), swizzle=128).tile_nbytes
    16384
    >>> TensorMap(a, box=(128, 128), swizzle=128)
    Traceback (most recent call last):
        ...
    kernellab.errors.SpecError: TensorMap: a row of the box has 256 bytes, with swizzle=128 it must have 128; change box or swizzle
    """

    array: Any
    box: Sequence[int]
    swizzle: int = 0
    element_strides: Sequence[int] | None = None

    def __post_init__(self) -> None:
        if not hasattr(self.array, "dtype") or not hasattr(self.array, "shape"):
            raise ArgumentError(
                f"TensorMap: array is a {type(self.array).__name__}; pass a NumPy or CuPy array"
            )
        for problem in self._problems():
            raise SpecError(f"TensorMap: {problem}")

    @property
    def tile_nbytes(self) -> int:
        """Bytes of a tile: what a load of it completes on its mbarrier."""
        return self.tiling(0).nbytes

    def tiling(self, address: int) -> Tiling:
        """Return the map of an array at an address, innermost axis first."""
        shape, strides = self.array.shape, self._strides()
        steps = self.element_strides or (1,) * len(shape)
        lengths, bytes_apart, box, steps = (
            tuple(int(v) for v in reversed(tuple(each))) for each in (shape, strides, self.box, steps)
        )
        return Tiling(
            address, np.dtype(self.array.dtype), lengths, bytes_apart, box, steps, int(self.swizzle)
        )

    def encode(self, address: int) -> bytes:
        """Return the emulator's encoding of the map for an array at an address."""
        if address % 16:
            raise SpecError(
                f"TensorMap: the array begins at address {address:#x}, which is no multiple of 16; copy it"
            )
        t = self.tiling(address)
        rank = len(t.box)
        fill = (1,) * (5 - rank)
        return _LAYOUT.pack(
            _MAGIC, t.address, _CODES.index(t.dtype.name), rank, t.swizzle, *t.lengths, *fill,
            *t.strides[1:], *fill[: 5 - rank], *t.box, *fill, *t.steps, *fill,
        ).ljust(NBYTES, b"\0")  # fmt: skip

    def encode_for_driver(self) -> Any:
        """Return the driver's encoding, for an array on the GPU: a NumPy scalar of 128 bytes.

        Raises
        ------
        SpecError
            If the driver refuses the map.
        """
        from cuda.bindings import driver

        t = self.tiling(int(self.array.__cuda_array_interface__["data"][0]))
        kinds = driver.CUtensorMapDataType
        between = t.strides[1:] or (16,)  # of one axis none is read, and a list of none is refused
        swizzle = "NONE" if not t.swizzle else f"{t.swizzle}B"
        status, found = driver.cuTensorMapEncodeTiled(
            getattr(kinds, f"CU_TENSOR_MAP_DATA_TYPE_{_DRIVER_TYPES[self.array.dtype.name]}"),
            len(t.box),
            t.address,
            [driver.cuuint64_t(each) for each in t.lengths],
            [driver.cuuint64_t(each) for each in between],
            [driver.cuuint32_t(each) for each in t.box],
            [driver.cuuint32_t(each) for each in t.steps],
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
            driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
        if int(status):
            raise SpecError(f"TensorMap: the driver refuses {t} ({status!r}); check shape, strides and box")
        words = [int(each) for each in found.opaque]
        return np.array([(words,)], np.dtype([("x", "u8", NBYTES // 8)]))[0]

    def _strides(self) -> tuple[int, ...]:
        strides = spec_of(self.array).strides
        if strides is not None:
            return strides
        lengths = (*self.array.shape[1:], self.array.dtype.itemsize)
        return tuple(math.prod(lengths[k:]) for k in range(len(lengths)))

    def _problems(self) -> list[str]:
        """Say what the hardware does not take."""
        rank, itemsize = len(self.array.shape), self.array.dtype.itemsize
        found = []
        if self.array.dtype.name not in _DRIVER_TYPES:
            found.append(f"elements are {self.array.dtype}; take one of {', '.join(_DRIVER_TYPES)}")
        if not 1 <= rank <= 5:
            return [f"the array has {rank} axes, a map has 1 to 5; reshape it"]
        for name, values, most in (("box", self.box, 256), ("element_strides", self.element_strides, 8)):
            if values is not None and len(values) != rank:
                return [f"{name} has {len(values)} entries, the array has {rank} axes; give one for each"]
            if values is not None and not all(1 <= each <= most for each in values):
                found.append(f"{name} is {tuple(values)}; its entries are 1 to {most}")
        if self.element_strides is not None and self.element_strides[-1] != 1:
            found.append(f"element_strides is {tuple(self.element_strides)}; the last entry must be 1")
        if self.swizzle not in SWIZZLES:
            found.append(f"swizzle is {self.swizzle!r}, it must be one of {SWIZZLES}")
        if not all(self.array.shape):
            found.append(f"the array has shape {self.array.shape}; a map needs elements")
        *outer, inner = self._strides()
        if inner != itemsize:
            found.append(f"the last axis has a stride of {inner} bytes, it must be dense; copy the array")
        if any(stride % 16 or not 0 <= stride < 1 << 40 for stride in outer):
            found.append(
                f"strides are {tuple(outer)} bytes, each must be a multiple of 16; pad the rows of the array"
            )
        row = self.box[-1] * itemsize
        if row % 16:
            found.append(f"a row of the box has {row} bytes, it must be a multiple of 16; change box")
        elif self.swizzle and row != self.swizzle:
            found.append(
                f"a row of the box has {row} bytes, with swizzle={self.swizzle} it must have {self.swizzle}; "
                "change box or swizzle"
            )
        return found


def decode(raw: bytes) -> Tiling | None:
    """Decode the emulator's encoding; None for anything else.

    Examples
    --------
    >>> import numpy as np
    >>> tensor_map = TensorMap(np.zeros((64, 32), np.float32), box=(16, 8), swizzle=32)
    >>> decode(tensor_map.encode(4096)) == tensor_map.tiling(4096)
    True
    """
    fields = _LAYOUT.unpack(raw[: _LAYOUT.size])
    magic, address, code, rank, swizzle, *rest = fields
    if magic != _MAGIC:
        return None
    lengths, strides, box, steps = rest[:5], rest[5:9], rest[9:14], rest[14:19]
    dtype = np.dtype(getattr(ml_dtypes, _CODES[code], _CODES[code]))
    return Tiling(
        address, dtype, tuple(lengths[:rank]), (dtype.itemsize, *strides[: rank - 1]), tuple(box[:rank]),
        tuple(steps[:rank]), swizzle,
    )  # fmt: skip


def swizzled(addresses: Any, swizzle: int, base: int = 0) -> Any:
    """Permute the 16-byte pieces of shared memory as the hardware does.

    Parameters
    ----------
    addresses : int or numpy.ndarray of int
        Bytes.
    swizzle : {0, 32, 64, 128}
        Bits 4-6 (64: 4-5, 32: 4) of an address are exclusive-ored with bits 7-9 (7-8, 7).
    base : int
        Rows of 128 bytes by which the pattern is shifted.

    Examples
    --------
    >>> swizzled(0x1A5, 128), swizzled(0x1A5, 32)
    (405, 437)
    """
    if not swizzle:
        return addresses
    return addresses ^ ((((addresses >> 7) - base) & (swizzle // 16 - 1)) << 4)
