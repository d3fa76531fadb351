"""Steps of the bulk copies between global and shared memory: plain bytes, and tiles of a tensor map (TMA)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator import tiles
from kernellab.emulator.access import flat_source
from kernellab.emulator.atomics import OPERATIONS, dtype_of
from kernellab.emulator.bulk_groups import Thread
from kernellab.emulator.code import Binder, Step, Views
from kernellab.emulator.counting_rows import SECTOR
from kernellab.emulator.in_flight import PIECE, Flight
from kernellab.emulator.lanes import WARP, Lanes
from kernellab.emulator.mbarriers import SIZE
from kernellab.emulator.memory import SIGNED, UNSIGNED
from kernellab.emulator.places import Address, lane_positions, one_lane
from kernellab.emulator.ptx import Immediate, Instruction, Memory, Vector
from kernellab.errors import UnsupportedPTXError
from kernellab.tensor_map import NBYTES

if TYPE_CHECKING:
    from kernellab.emulator.batch import Batch

Array = npt.NDArray[Any]
_UNKNOWN = re.compile(r"im2col|gather4|scatter4|cp_mask|ignore_oob|cta_group")
"""Forms that would be taken for others: of other tiles, or of a part of the bytes."""


def bind_bulk(binder: Binder, instruction: Instruction) -> Step:
    """Make the step of a ``cp.async.bulk`` instruction."""
    parts = instruction.opcode.split(".")
    number = binder.code.first + instruction.index
    if "commit_group" in parts:
        return _commit
    if "wait_group" in parts:
        allowed = instruction.operands[0]
        assert isinstance(allowed, Immediate)
        return _waiting(allowed.value)
    if "prefetch" in parts:
        return lambda views, lanes, batch: None
    if _UNKNOWN.search(instruction.opcode) or (parts[1] == "reduce" and "bulk_group" not in parts):
        raise UnsupportedPTXError(f"{instruction.opcode} is not known to the emulator")
    is_tile = "tensor" in parts
    spaces = [part for part in parts if part.startswith(("global", "shared"))]
    if spaces[0] == "global":
        combine = _combination(parts) if parts[1] == "reduce" else None
        store = _tile_store if is_tile else _store
        return store(binder, instruction, number, combine)
    return _tile_load(binder, instruction, number) if is_tile else _load(binder, instruction, number, spaces)


def _combination(parts: list[str]) -> tiles.Combine:
    """Return how a ``cp.reduce`` combines what is there with what comes."""
    name = next(part for part in parts if part in OPERATIONS)
    operation = OPERATIONS[name]
    if "tensor" in parts:
        return operation
    kind = dtype_of(parts[-1])
    return lambda old, new: operation(old.view(kind), new.view(kind)).view(np.uint8)


def _commit(views: Views, lanes: Lanes, batch: Batch) -> None:
    for thread in _with_copies(lanes, batch):
        batch.bulk.commit(thread)


def _waiting(allowed: int) -> Step:
    def step_wait(views: Views, lanes: Lanes, batch: Batch) -> None:
        for thread in _with_copies(lanes, batch):
            batch.bulk.wait(thread, allowed)

    return step_wait


def _with_copies(lanes: Lanes, batch: Batch) -> list[Thread]:
    """Return those of the active lanes that have copies out of shared memory on their way."""
    if not batch.bulk.queues:
        return []
    is_on = np.zeros((batch.height, WARP), np.bool_)
    is_on[lanes.rows] = lanes.full_mask()
    return [thread for thread in batch.bulk.queues if is_on[thread]]


def _count(batch: Batch, number: int, operation: str, sectors: int, nbytes: int) -> None:
    ideal = -(-nbytes // SECTOR)
    batch.counts.add_access((number, "tma", operation), (1, sectors, nbytes, ideal, 1))


class _Blocks:
    """Where a copy arrives: in one block, or in all those of the cluster that a mask names.

    Parameters
    ----------
    position : int
        Of the mask among the operands.
    """

    def __init__(self, binder: Binder, instruction: Instruction, position: int) -> None:
        self.number = binder.code.first + instruction.index
        self.mask: int | None = None
        if "multicast::cluster" in instruction.opcode.split("."):
            self.mask = binder.source(instruction.operands[position], UNSIGNED[2])

    def of(
        self, views: Views, lanes: Lanes, batch: Batch, k: int, place: int, barrier: int
    ) -> list[tuple[int, int]]:
        """Return where the data of active lane k, and its bytes on an mbarrier, go to."""
        if self.mask is None:
            return [(place, barrier)]
        mask = int(flat_source(views, self.mask, lanes)[k])
        size, pitch = batch.launch.cluster_size, batch.shared.pitch
        if not mask or mask >> size:
            what = f"a multicast names the blocks {mask:#x}; the cluster has {size} blocks"
            batch.fail(self.number, "out of bounds", what, lanes)
        first = place // pitch // size * size
        chosen = [first + rank for rank in range(size) if mask >> rank & 1]
        return [(block * pitch + place % pitch, block * pitch + barrier % pitch) for block in chosen]


# -- plain bytes
def _load(binder: Binder, instruction: Instruction, number: int, spaces: list[str]) -> Step:
    """``cp.async.bulk`` into shared memory, from global memory or from another block's shared memory."""
    target, origin, size, barrier = instruction.operands[:4]
    to = Address(binder, target, "shared", number)
    is_global = spaces[1] == "global"
    source = Address(binder, origin, "global" if is_global else "shared", number)
    at = Address(binder, barrier, "shared", number)
    nbytes = binder.source(size, UNSIGNED[4])
    blocks = _Blocks(binder, instruction, 4)

    def step_load(views: Views, lanes: Lanes, batch: Batch) -> None:
        sizes = flat_source(views, nbytes, lanes)
        places = to.places(views, lanes, batch, PIECE, PIECE, "a bulk copy")
        barriers = at.places(views, lanes, batch, SIZE, SIZE, "an mbarrier")
        if is_global:
            origins = source.of(views, lanes, batch, "global")
        else:
            origins = source.places(views, lanes, batch, PIECE, PIECE, "a bulk copy")
        rows, columns = lane_positions(lanes)
        for k, count in enumerate(sizes.tolist()):
            row, column = int(rows[k]), int(columns[k])
            lane = one_lane(lanes, row, column)
            _check_span(batch, number, int(places[k]), count, lane)
            reading = None
            if is_global:
                values = tiles.global_bytes(batch, number, int(origins[k]), count, "load", lane)
                _count(batch, number, "load", -(-count // SECTOR), count)
            else:
                _check_span(batch, number, int(origins[k]), count, lane)
                reading = _reading(batch, number, row, column, origins[k] + np.arange(0, count, PIECE))
                values = batch.shared.data[origins[k] : origins[k] + count]
            values = values.reshape(-1, PIECE).copy()
            for place, barrier in blocks.of(views, lanes, batch, k, int(places[k]), int(barriers[k])):
                starts = place + np.arange(0, count, PIECE)
                _fly(batch, number, row, column, starts, values, barrier, lane, reading)

    return step_load


def _store(binder: Binder, instruction: Instruction, number: int, combine: tiles.Combine | None) -> Step:
    """``cp.async.bulk.global.shared::cta``."""
    target, origin, size = instruction.operands[:3]
    to = Address(binder, target, "global", number)
    source = Address(binder, origin, "shared", number)
    nbytes = binder.source(size, UNSIGNED[4])

    def step_store(views: Views, lanes: Lanes, batch: Batch) -> None:
        sizes = flat_source(views, nbytes, lanes)
        places = source.places(views, lanes, batch, PIECE, PIECE, "a bulk copy")
        targets = to.of(views, lanes, batch, "global")
        rows, columns = lane_positions(lanes)
        for k, count in enumerate(sizes.tolist()):
            row, column, where = int(rows[k]), int(columns[k]), int(places[k])
            lane = one_lane(lanes, row, column)
            _check_span(batch, number, where, count, lane)
            there = tiles.global_bytes(batch, number, int(targets[k]), count, "store", lane)
            flight = _reading(batch, number, row, column, where + np.arange(0, count, PIECE))
            here = batch.shared.data[where : where + count]
            batch.bulk.add((row, column), flight, _copying(there, here, combine))
            _count(batch, number, "store", -(-count // SECTOR), count)

    return step_store


def _copying(target: Array, source: Array, combine: tiles.Combine | None) -> Callable[[], None]:
    def copy() -> None:
        target[...] = source if combine is None else combine(target, source)

    return copy


def _check_span(batch: Batch, number: int, where: int, nbytes: int, lane: Lanes) -> None:
    local = where % batch.shared.pitch
    if nbytes % PIECE or nbytes <= 0:
        what = f"misaligned: a bulk copy has {nbytes} bytes; it must have a multiple of {PIECE}"
        batch.fail(number, "misaligned", what, lane)
    if local + nbytes > batch.shared.size:
        what = f"out of bounds: a bulk copy of {nbytes} bytes at byte {local} of shared memory, which has "
        batch.fail(number, "out of bounds", f"{what}{batch.shared.size}", lane)


def _fly(
    batch: Batch, number: int, row: int, column: int, starts: Array, values: Array, barrier: int, lane: Lanes,
    reading: Flight | None = None,
) -> None:  # fmt: skip
    """Issue a copy into shared memory that completes its bytes on a barrier, and ends what it reads there."""
    rows, columns = np.full(starts.size, row), np.full(starts.size, column)
    batch.releases.write(number, row, column, starts)
    flight = batch.in_flight.write(number, rows, columns, starts, values)
    flight.reading = reading
    batch.mbarriers.attach(number, barrier, flight, values.size, lane)


def _reading(batch: Batch, number: int, row: int, column: int, starts: Array) -> Flight:
    """Issue a read of shared memory; complain of what was never written there."""
    shared = batch.shared
    if shared.written is not None:
        is_written = shared.written[starts[:, None] + np.arange(PIECE)].all(axis=1)
        if not is_written.all():
            byte = int(starts[~is_written][0]) % shared.pitch
            what = f"read of unwritten shared memory, byte {byte} of shared memory"
            batch.complain(number, "unwritten shared memory", what, row, column, 1, False)
    rows, columns = np.full(starts.size, row), np.full(starts.size, column)
    batch.landings.check(number, rows, columns, starts, "asynchronous read")
    return batch.in_flight.read(number, rows, columns, starts)


# -- tiles of a tensor map
class _Tile:
    """``[tensor map, {coordinates}]``, innermost first."""

    def __init__(self, binder: Binder, operand: Any, number: int) -> None:
        assert isinstance(operand, Memory)
        self.map = Address(binder, Memory(operand.base, operand.offset), "generic", number)
        assert isinstance(operand.extra[0], Vector)
        self.coordinates = [binder.source(each, SIGNED[4]) for each in operand.extra[0].elements]
        self.number = number

    def of(self, views: Views, lanes: Lanes, batch: Batch, *, is_stored: bool = False) -> list[tiles.Tile]:
        """Return the tile of each active lane; refuse one that begins where Hopper takes none."""
        addresses = self.map.of(views, lanes, batch, "global")
        coordinates = [flat_source(views, each, lanes) for each in self.coordinates]
        rows, columns = lane_positions(lanes)
        found = []
        for k, address in enumerate(addresses.tolist()):
            lane = one_lane(lanes, int(rows[k]), int(columns[k]))
            raw = tiles.global_bytes(batch, self.number, address, NBYTES, "load", lane)
            where = tuple(int(each[k]) for each in coordinates)
            tile = tiles.tile_of(batch, self.number, raw.tobytes(), where, lane)
            refusal = _refusal(where, tile.tiling.dtype.itemsize, is_stored=is_stored)
            if refusal:
                batch.fail(self.number, "illegal instruction", refusal, lane)
            found.append(tile)
        return found


def _refusal(where: tuple[int, ...], itemsize: int, *, is_stored: bool) -> str:
    """Say why a tile that begins there is an illegal instruction; measured on an H200."""
    if where[0] * itemsize % 16:
        return (
            f"a tile begins at element {where[0]} of {itemsize} bytes in its row, an illegal instruction: "
            f"that must be a multiple of 16 bytes; take a multiple of {max(16 // itemsize, 1)}"
        )
    if is_stored and min(where) < 0:
        return f"a tile is stored at {min(where)}, below 0: an illegal instruction; begin at 0 or above"
    return ""


def _tile_load(binder: Binder, instruction: Instruction, number: int) -> Step:
    """``cp.async.bulk.tensor`` into shared memory."""
    target, origin, barrier = instruction.operands[:3]
    to = Address(binder, target, "shared", number)
    at = Address(binder, barrier, "shared", number)
    source = _Tile(binder, origin, number)
    blocks = _Blocks(binder, instruction, 3)

    def step_tile_load(views: Views, lanes: Lanes, batch: Batch) -> None:
        places = to.places(views, lanes, batch, PIECE, tiles.ALIGNMENT, "a tile")
        barriers = at.places(views, lanes, batch, SIZE, SIZE, "an mbarrier")
        rows, columns = lane_positions(lanes)
        for k, tile in enumerate(source.of(views, lanes, batch)):
            row, column = int(rows[k]), int(columns[k])
            lane = one_lane(lanes, row, column)
            _check_span(batch, number, int(places[k]), tile.tiling.nbytes, lane)
            values = tile.load().reshape(-1).view(np.uint8).reshape(-1, PIECE)
            for place, barrier in blocks.of(views, lanes, batch, k, int(places[k]), int(barriers[k])):
                starts = tile.starts(place, batch.shared.pitch)
                _fly(batch, number, row, column, starts, values, barrier, lane)
            _count(batch, number, "load", tile.sectors(), tile.nbytes)

    return step_tile_load


def _tile_store(binder: Binder, instruction: Instruction, number: int, combine: tiles.Combine | None) -> Step:
    """``cp.async.bulk.tensor`` into global memory."""
    target, origin = instruction.operands[:2]
    source = Address(binder, origin, "shared", number)
    to = _Tile(binder, target, number)

    def step_tile_store(views: Views, lanes: Lanes, batch: Batch) -> None:
        places = source.places(views, lanes, batch, PIECE, tiles.ALIGNMENT, "a tile")
        rows, columns = lane_positions(lanes)
        for k, tile in enumerate(to.of(views, lanes, batch, is_stored=combine is None)):
            row, column = int(rows[k]), int(columns[k])
            lane = one_lane(lanes, row, column)
            _check_span(batch, number, int(places[k]), tile.tiling.nbytes, lane)
            tile.check_writable(batch, number, lane)
            starts = tile.starts(int(places[k]), batch.shared.pitch)
            flight = _reading(batch, number, row, column, starts)
            batch.bulk.add((row, column), flight, tile.storing(batch.shared.data, starts, combine))
            _count(batch, number, "store", tile.sectors(), tile.nbytes)

    return step_tile_store
