"""Occupancy in theory: how many blocks of a kernel fit on one multiprocessor, and what limits them."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kernellab.checks import HOPPER
from kernellab.errors import ArgumentError, SpecError
from kernellab.geometry import dimensions

WARP = 32
REGISTERS_PER_THREAD = 255
THREADS_PER_BLOCK = 1024
REGISTER_UNIT = 256
WARP_UNIT = 4
KIB = 1024


@dataclass(frozen=True)
class Multiprocessor:
    """What one multiprocessor of an architecture holds.

    Attributes
    ----------
    warps, blocks : int
        Most that are resident at a time.
    shared_bytes, shared_bytes_per_block : int
        Shared memory, and the most of it that one block may have after opting in.
    reserved_bytes : int
        Shared memory that the system takes from each block.
    shared_unit : int
        Bytes that shared memory is given out in.
    registers : int
        32-bit registers.
    barriers_per_block : int
        Named barriers for each block that may be resident; 0 where they limit nothing.
    """

    warps: int
    blocks: int
    shared_bytes: int
    shared_bytes_per_block: int
    reserved_bytes: int = KIB
    shared_unit: int = 128
    registers: int = 65536
    barriers_per_block: int = 1


def _with(warps: int, blocks: int, shared_kib: int, barriers: int = 1) -> Multiprocessor:
    return Multiprocessor(
        warps, blocks, shared_kib * KIB, (shared_kib - 1) * KIB, barriers_per_block=barriers
    )


# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; of sm_88, which it leaves out,
# cuda/__device/arch_traits.h and cuda_occupancy.h of CUDA 13.5.
MULTIPROCESSORS: Mapping[int, Multiprocessor] = {
    75: Multiprocessor(32, 16, 64 * KIB, 64 * KIB, reserved_bytes=0, shared_unit=256, barriers_per_block=0),
    80: _with(64, 32, 164, barriers=0),
    86: _with(48, 16, 100, barriers=0),
    87: _with(48, 16, 164, barriers=0),
    88: _with(48, 16, 100, barriers=0),
    89: _with(48, 24, 100, barriers=0),
    90: _with(64, 32, 228, barriers=2),
    100: _with(64, 32, 228, barriers=2),
    103: _with(64, 32, 228),
    110: _with(48, 24, 228),
    120: _with(48, 24, 100),
    121: _with(48, 24, 100),
}
UNSETTLED = {
    107: "its shared memory is 228 KiB in arch_traits.h and 328 KiB in cuda_occupancy.h of CUDA 13.5",
}
"""Architectures of which what is published does not agree, and where."""


@dataclass(frozen=True)
class Occupancy:
    """How many blocks and warps are resident on a multiprocessor.

    Attributes
    ----------
    blocks, warps : int
        Resident at a time; 0 if the block does not fit at all.
    fraction : float
        Warps over the most that the architecture holds.
    limited_by : tuple of str
        What no further block finds room in: ``"warps"``, ``"blocks"``, ``"registers"``, ``"shared memory"``,
        ``"barriers"``; ``"launch bounds"`` where the kernel was compiled for fewer threads.
    room : mapping of str to int
        How many blocks each of these has room for.
    """

    blocks: int
    warps: int
    fraction: float
    limited_by: tuple[str, ...]
    room: Mapping[str, int] = field(default_factory=dict, repr=False)

    @property
    def limiter(self) -> str:
        """What `limited_by` holds, in words."""
        return " and ".join(self.limited_by)

    def waves(self, grid: Any, multiprocessors: int = HOPPER.multiprocessors) -> Waves:
        """Return how a grid fills a device; by default one of an H200's 132 multiprocessors.

        Parameters
        ----------
        grid : int or tuple of int
            Blocks, along x, y and z.
        multiprocessors : int
            Of the device.

        Raises
        ------
        ArgumentError
            For what is no integer.
        SpecError
            If a block does not fit at all, or a number is negative or 0.

        Examples
        --------
        >>> found = occupancy("sm_90", threads=256, registers=32).waves(1057)
        >>> found.full, found.tail, round(found.efficiency, 3)
        (1, 1, 0.5)
        """
        blocks = math.prod(dimensions(grid, "grid", "occupancy"))
        if whole("multiprocessors", multiprocessors) < 1:
            raise SpecError(
                f"occupancy: multiprocessors is {multiprocessors}, it must be at least 1; correct it"
            )
        if not self.blocks:
            raise SpecError(
                f"occupancy: a block does not fit a multiprocessor, for its {self.limiter}, so no grid runs; "
                "make the block smaller"
            )
        return Waves(blocks, self.blocks * multiprocessors)


@dataclass(frozen=True)
class Waves:
    """A grid on a device whose multiprocessors take blocks as long as there is room.

    Attributes
    ----------
    blocks : int
        Of the grid.
    capacity : int
        Blocks that are resident at a time: a full wave.
    """

    blocks: int
    capacity: int

    @property
    def count(self) -> float:
        """Waves, the last by its share."""
        return self.blocks / self.capacity

    @property
    def full(self) -> int:
        """Full waves."""
        return self.blocks // self.capacity

    @property
    def tail(self) -> int:
        """Blocks left over for a last wave; 0 where the last is full."""
        return self.blocks % self.capacity

    @property
    def efficiency(self) -> float:
        """Share of the places in all waves that hold a block; 0 for an empty grid.

        The grid's speed is that share of the best if all blocks take equally long, whoever runs beside them.
        """
        started = self.full + bool(self.tail)
        return self.count / started if started else 0.0


def multiprocessor(arch: str) -> Multiprocessor:
    """Return the limits of an architecture such as ``"sm_90"`` or ``"sm_90a"``.

    Raises
    ------
    SpecError
        For one whose limits are not known here.
    """
    number = _number(arch)
    found = MULTIPROCESSORS.get(number)
    if found is None:
        known = ", ".join(f"sm_{each}" for each in MULTIPROCESSORS)
        if number in UNSETTLED:
            raise SpecError(
                f"arch: the limits of {arch!r} are not settled, {UNSETTLED[number]}; pass one of {known}"
            )
        raise SpecError(f"arch: {arch!r} is not known, it must be one of {known}; pass one of these")
    return found


def _number(arch: Any) -> int:
    match = re.fullmatch(r"sm_(\d+)[af]?", arch) if isinstance(arch, str) else None
    return int(match[1]) if match else 0


def check_architecture(arch: str) -> None:
    """Refuse an architecture of which nothing is known here, not even that its limits are not settled."""
    if _number(arch) not in UNSETTLED:
        multiprocessor(arch)


def whole(name: str, value: Any) -> int:
    """Return an integer, or say that it is none.

    Raises
    ------
    ArgumentError
        If it is not.
    """
    try:
        return operator.index(value)
    except TypeError:
        raise ArgumentError(f"occupancy: {name} is {value!r}, it must be an integer; pass one") from None


def shared_limit(arch: str) -> int:
    """Return the most shared memory of a block, after opting in; an H200's for an architecture not known here.

    Examples
    --------
    >>> shared_limit("sm_80"), shared_limit("sm_90a")
    (166912, 232448)
    """
    try:
        return multiprocessor(arch).shared_bytes_per_block
    except SpecError:
        return HOPPER.shared


def occupancy(
    arch: str,
    threads: int,
    registers: int,
    shared_bytes: int = 0,
    barriers: int = 1,
    most_threads: int = THREADS_PER_BLOCK,
) -> Occupancy:
    """Return the occupancy of a kernel.

    Parameters
    ----------
    arch : str
        One of `MULTIPROCESSORS`, such as ``sm_90``.
    threads : int
        Of one block, 1 to 1024.
    registers : int
        Of one thread, 0 to 255.
    shared_bytes : int
        Of one block, static plus dynamic; with the largest share of the cache given to shared memory.
    barriers : int
        Named barriers of one block, 0 to 16.
    most_threads : int
        That the kernel was compiled for: no larger block is launched.

    Returns
    -------
    Occupancy

    Raises
    ------
    SpecError
        For a number outside these ranges.

    Examples
    --------
    >>> occupancy("sm_90", threads=1024, registers=40)
    Occupancy(blocks=1, warps=32, fraction=0.5, limited_by=('registers',))
    """
    for name, value, least, most in (
        ("threads", threads, 1, THREADS_PER_BLOCK),
        ("registers", registers, 0, REGISTERS_PER_THREAD),
        ("shared_bytes", shared_bytes, 0, 2**31),
        ("barriers", barriers, 0, 16),
    ):
        if not least <= value <= most:
            raise SpecError(f"occupancy: {name} is {value}, it must lie in [{least}, {most}]; correct it")
    chip = multiprocessor(arch)
    warps = -(-threads // WARP)
    room = {"warps": chip.warps // warps, "blocks": chip.blocks}
    if registers:
        # Registers are given to a warp in units, to warps in the four quarters of the multiprocessor.
        per_warp = _up(registers * WARP, REGISTER_UNIT)
        held = chip.registers // WARP_UNIT // per_warp * WARP_UNIT
        is_too_large = per_warp * _up(warps, WARP_UNIT) > chip.registers
        room["registers"] = 0 if is_too_large else held // warps
    per_block = _up(shared_bytes + chip.reserved_bytes, chip.shared_unit)
    if per_block:
        is_too_large = shared_bytes > chip.shared_bytes_per_block
        room["shared memory"] = 0 if is_too_large else chip.shared_bytes // per_block
    if barriers and chip.barriers_per_block:
        room["barriers"] = chip.blocks * chip.barriers_per_block // barriers
    if threads > most_threads:
        room["launch bounds"] = 0
    blocks = min(room.values())
    limited_by = tuple(name for name, count in room.items() if count == blocks)
    return Occupancy(blocks, blocks * warps, blocks * warps / chip.warps, limited_by, room)


def _up(count: int, unit: int) -> int:
    return -(-count // unit) * unit
