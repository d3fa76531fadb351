"""Address spaces of a launch: global allocations with exact bounds, shared and local memory, atomics.

Every byte that a kernel reads or writes goes through here, so bounds, alignment and what was never
written are seen at one place. Addresses are 64-bit integers; a generic address says by its window
whether it points to global, shared or local memory.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Addresses = npt.NDArray[np.int64]

WINDOW_BITS = 40
SHARED_WINDOW = 1 << WINDOW_BITS
LOCAL_WINDOW = 2 << WINDOW_BITS
FIRST_GLOBAL = 1 << 33
GUARD_BYTES = 1 << 24
"""Unmapped bytes after every array, so that running past an end is hardly ever inside another one."""
NULL_BYTES = 4096
"""Addresses below this one are a null pointer with an offset."""

UNSIGNED: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8), 2: np.dtype(np.uint16), 4: np.dtype(np.uint32), 8: np.dtype(np.uint64)
}  # fmt: skip
SIGNED: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.int8), 2: np.dtype(np.int16), 4: np.dtype(np.int32), 8: np.dtype(np.int64)
}  # fmt: skip


@dataclass(slots=True)
class Fault:
    """Lanes whose access was wrong.

    Attributes
    ----------
    kind : str
        ``out of bounds``, ``misaligned``, ``read-only``, ``unwritten``.
    positions : numpy.ndarray
        Indexes into the flat array of addresses of the access.
    note : str
        Where the address lies, in words.
    """

    kind: str
    positions: npt.NDArray[np.intp]
    note: str = ""


@dataclass(slots=True)
class Allocation:
    """A piece of global or constant memory, backed by the bytes of a NumPy array (no copy)."""

    name: str
    base: int
    data: npt.NDArray[np.uint8]
    is_writable: bool = True
    is_array: bool = True
    views: dict[int, Array] = field(default_factory=dict)

    @property
    def stop(self) -> int:
        """The first address behind it."""
        return self.base + self.data.size

    def elements(self, addresses: Addresses, width: int) -> tuple[Array, npt.NDArray[np.int64]]:
        """Return the array of elements of `width` bytes, and the indexes of aligned addresses in it."""
        view = self.views.get(width)
        shift = -self.base % width  # bytes before the first aligned address
        if view is None:
            count = max(self.data.size - shift, 0) // width
            view = self.data[shift : shift + count * width].view(UNSIGNED[width])
            self.views[width] = view
        return view, (addresses - (self.base + shift)) >> (width.bit_length() - 1)

    def load(self, addresses: Addresses, width: int, lanes: int) -> list[Array]:
        """Read `lanes` consecutive elements at addresses that are in bounds."""
        view, indexes = self.elements(addresses, width)
        places = [indexes + k if k else indexes for k in range(lanes)]
        return [view.take(each) if view.flags.aligned else view[each] for each in places]

    def store(self, addresses: Addresses, width: int, values: list[Array]) -> None:
        """Write consecutive elements in bounds; on a repeated address the last lane wins."""
        view, indexes = self.elements(addresses, width)
        for k, value in enumerate(values):
            view[indexes + k if k else indexes] = value


class GlobalMemory:
    """The allocations of a launch, found by address."""

    def __init__(self) -> None:
        self.allocations: list[Allocation] = []
        self.bases: list[int] = []
        self.next_base = FIRST_GLOBAL
        self.version = 0
        """Grows with every store, and every atomic that changes something: a spinning warp looks at it."""

    def allocate(
        self, name: str, data: npt.NDArray[np.uint8], *, offset: int = 0, is_writable: bool = True,
        guard: int = GUARD_BYTES, is_array: bool = True,
    ) -> Allocation:  # fmt: skip
        """Map bytes at a fresh address that is `offset` modulo 512.

        `guard` bytes behind it stay unmapped; `is_array` says whether messages name it as a neighbour.
        """
        base = self.next_base + offset % 512
        allocation = Allocation(name, base, data, is_writable, is_array)
        self.allocations.append(allocation)
        self.bases.append(base)
        self.next_base = -(-(base + data.size + guard) // 512) * 512
        return allocation

    def find(self, address: int) -> Allocation | None:
        """Return the last allocation that starts at or before an address."""
        i = bisect.bisect_right(self.bases, address) - 1
        return self.allocations[i] if i >= 0 else None

    def name_of(self, address: int) -> str:
        """Say in words where an address lies."""
        if 0 <= address < NULL_BYTES:
            return f"address {address:#x}, a null pointer"
        inside = self.find(address)
        if inside is not None and address < inside.stop:
            return f"byte {address - inside.base} of {inside.name}, which has {inside.data.size}"
        arrays = [each for each in self.allocations if each.is_array]
        below = max((each for each in arrays if each.stop <= address), key=lambda e: e.stop, default=None)
        above = min((each for each in arrays if each.base > address), key=lambda e: e.base, default=None)
        if above is not None and (below is None or above.base - address < address - below.stop):
            if above.base - address <= GUARD_BYTES:
                return f"{above.base - address} bytes before {above.name}"
        elif below is not None and address >> WINDOW_BITS == 0:
            past = address - below.stop
            return f"{past} bytes past the end of {below.name}, which has {below.data.size} bytes"
        return f"address {address:#x}, in no array"

    def groups(
        self, addresses: Addresses, nbytes: int, faults: list[Fault]
    ) -> list[tuple[Allocation, npt.NDArray[np.intp] | slice]]:
        """Split an access by allocation; lanes that are out of bounds go to `faults` and to no group."""
        low, high = int(addresses.min()), int(addresses.max())
        allocation = self.find(low)
        if allocation is not None and high + nbytes <= allocation.stop:
            return [(allocation, slice(None))]
        which = np.searchsorted(np.asarray(self.bases, np.int64), addresses, side="right") - 1
        stops = np.asarray([each.stop for each in self.allocations] + [0], np.int64)
        is_bad = (which < 0) | (addresses + nbytes > stops[which])
        if is_bad.any():
            positions = np.flatnonzero(is_bad)
            faults.append(Fault("out of bounds", positions, self.name_of(int(addresses[positions[0]]))))
        found: list[tuple[Allocation, npt.NDArray[np.intp] | slice]] = []
        for i in np.unique(which[~is_bad]):
            found.append((self.allocations[i], np.flatnonzero((which == i) & ~is_bad)))
        return found

    def load(self, addresses: Addresses, width: int, lanes: int, faults: list[Fault]) -> list[Array]:
        """Read `lanes` consecutive elements of `width` bytes at each address; faulty lanes read 0."""
        groups = self.groups(addresses, width * lanes, faults)
        if len(groups) == 1 and isinstance(groups[0][1], slice):
            return groups[0][0].load(addresses, width, lanes)
        values = [np.zeros(addresses.size, UNSIGNED[width]) for _ in range(lanes)]
        for allocation, positions in groups:
            found = allocation.load(addresses[positions], width, lanes)
            for value, part in zip(values, found, strict=True):
                value[positions] = part
        return values

    def store(self, addresses: Addresses, width: int, values: list[Array], faults: list[Fault]) -> None:
        """Write consecutive elements at each address; faulty lanes write nothing."""
        self.version += 1
        for allocation, positions in self.groups(addresses, width * len(values), faults):
            if not allocation.is_writable:
                where = np.arange(addresses.size)[positions]
                faults.append(Fault("read-only", where, f"{allocation.name} is read-only"))
                continue
            allocation.store(addresses[positions], width, [value[positions] for value in values])

    def update(
        self,
        addresses: Addresses,
        width: int,
        apply: Callable[[Array, Array, npt.NDArray[np.intp] | slice], Array],
        faults: list[Fault],
    ) -> Array:
        """Read-modify-write: `apply(elements, indexes, positions)` returns the old values of those lanes."""
        old = np.zeros(addresses.size, UNSIGNED[width])
        for allocation, positions in self.groups(addresses, width, faults):
            if not allocation.is_writable:
                where = np.arange(addresses.size)[positions]
                faults.append(Fault("read-only", where, f"{allocation.name} is read-only"))
                continue
            elements, indexes = allocation.elements(addresses[positions], width)
            old[positions] = apply(elements, indexes, positions)
        return old


class OwnedMemory:
    """Shared or local memory: `size` bytes for each owner (a block, or a thread).

    Parameters
    ----------
    name : str
        ``shared`` or ``local``.
    owners : int
    size : int
        Bytes an owner has.
    tracks_writes : bool
        Remember which bytes were ever written.
    """

    def __init__(self, name: str, owners: int, size: int, tracks_writes: bool = False) -> None:
        self.name = name
        self.size = size
        self.pitch = -(-size // 16) * 16
        nbytes = max(owners * self.pitch, 16)  # a lane that is out of bounds reads the first bytes
        self.data = np.zeros(nbytes, np.uint8)
        self.written = np.zeros(nbytes, np.uint8) if tracks_writes else None
        self.version = 0
        self.views = {width: self.data.view(dtype) for width, dtype in UNSIGNED.items()}
        self.flags = (
            {width: self.written.view(dtype) for width, dtype in UNSIGNED.items()}
            if self.written is not None
            else {}
        )

    def reset(self) -> None:
        """Forget everything, for the next wave of blocks."""
        self.data[:] = 0
        if self.written is not None:
            self.written[:] = 0

    def in_bounds(
        self, addresses: Addresses, nbytes: int, faults: list[Fault]
    ) -> npt.NDArray[np.bool_] | None:
        """Return None when every access is in bounds, else which are; the others go to `faults`."""
        if int(addresses.min()) >= 0 and int(addresses.max()) + nbytes <= self.size:
            return None
        is_good: npt.NDArray[np.bool_] = (addresses >= 0) & (addresses + nbytes <= self.size)
        positions = np.flatnonzero(~is_good)
        first = int(addresses[positions[0]])
        first -= 1 << 32 if 1 << 31 <= first < 1 << 32 else 0  # a negative index
        note = f"byte {first} of {self.name} memory, which has {self.size}"
        if self.name == "shared" and not self.size:
            note = "the block has 0 bytes of shared memory; pass shared_mem="
        faults.append(Fault("out of bounds", positions, note))
        return is_good

    def load(
        self, owners: Array, addresses: Addresses, width: int, lanes: int, faults: list[Fault]
    ) -> list[Array]:
        """Read `lanes` consecutive elements; `owners` says whose memory each address is in."""
        is_good = self.in_bounds(addresses, width * lanes, faults)
        flat = owners * self.pitch + addresses
        if is_good is not None:
            flat = np.where(is_good, flat, 0)
        index = flat >> (width.bit_length() - 1)
        if self.written is not None:
            expected = UNSIGNED[width].type(int.from_bytes(b"\1" * width, "little"))
            for k in range(lanes):
                unwritten = self.flags[width].take(index + k if k else index) != expected
                if unwritten.any():
                    positions = np.flatnonzero(unwritten if is_good is None else unwritten & is_good)
                    if positions.size:
                        note = f"byte {addresses[positions[0]]} of {self.name} memory"
                        faults.append(Fault("unwritten", positions, note))
                    break
        values = [self.views[width].take(index + k if k else index) for k in range(lanes)]
        if is_good is not None:
            values = [np.where(is_good, value, 0).astype(value.dtype) for value in values]
        return values

    def store(
        self, owners: Array, addresses: Addresses, width: int, values: list[Array], faults: list[Fault]
    ) -> None:
        """Write consecutive elements."""
        self.version += 1
        is_good = self.in_bounds(addresses, width * len(values), faults)
        if is_good is not None:
            owners, addresses = owners[is_good], addresses[is_good]
            values = [value[is_good] for value in values]
        index = (owners * self.pitch + addresses) >> (width.bit_length() - 1)
        for k, value in enumerate(values):
            self.views[width][index + k if k else index] = value
            if self.written is not None:
                self.flags[width][index + k if k else index] = int.from_bytes(b"\1" * width, "little")

    def update(
        self,
        owners: Array,
        addresses: Addresses,
        width: int,
        apply: Callable[[Array, Array, npt.NDArray[np.intp] | slice], Array],
        faults: list[Fault],
    ) -> Array:
        """Read-modify-write, as `GlobalMemory.update`."""
        old = np.zeros(addresses.size, UNSIGNED[width])
        is_good = self.in_bounds(addresses, width, faults)
        positions: npt.NDArray[np.intp] | slice = slice(None) if is_good is None else np.flatnonzero(is_good)
        index = (owners * self.pitch + addresses)[positions] >> (width.bit_length() - 1)
        if index.size:
            old[positions] = apply(self.views[width], index, positions)
            if self.written is not None:
                self.flags[width][index] = int.from_bytes(b"\1" * width, "little")
        return old
