"""Clusters of blocks: which blocks form one, their barrier, and addresses of each other's shared memory.

A batch holds whole clusters, one after the other, in the order of ranks. An address of another block's shared
memory carries that block's rank plus one from bit 24 on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator.code import Binder, Step, Views
from kernellab.emulator.flow import Block
from kernellab.emulator.frame import Frame
from kernellab.emulator.joins import Join, Waiter
from kernellab.emulator.lanes import Lanes
from kernellab.emulator.memory import SHARED_WINDOW, UNSIGNED
from kernellab.emulator.ptx import Instruction
from kernellab.errors import SpecError

if TYPE_CHECKING:
    from kernellab.emulator.batch import Batch
    from kernellab.emulator.schedule import Next, Scheduler

Array = npt.NDArray[Any]
RANK_SHIFT = 24
LOCAL_BITS = (1 << RANK_SHIFT) - 1
MOST_BLOCKS = 16


def cluster_of(performance: Any, grid: tuple[int, int, int], who: str) -> tuple[int, int, int]:
    """Return the blocks of a cluster along each axis: what ``__cluster_dims__`` says, else one.

    Raises
    ------
    SpecError
        For a grid that does not consist of whole clusters, or for a cluster that is too large.
    """
    x, y, z = (*performance.get("reqnctapercluster", ()), 1, 1, 1)[:3]
    size = x * y * z
    if size > MOST_BLOCKS:
        raise SpecError(f"{who}: a cluster has {size} blocks, the limit is {MOST_BLOCKS}; make it smaller")
    if any(blocks % side for blocks, side in zip(grid, (x, y, z), strict=True)):
        raise SpecError(
            f"{who}: grid {grid} is no multiple of its cluster ({x}, {y}, {z}); launch whole clusters"
        )
    return x, y, z


def by_cluster(grid: tuple[int, int, int], cluster: tuple[int, int, int]) -> npt.NDArray[np.int64]:
    """Return the numbers of all blocks, x fastest, cluster after cluster and rank after rank.

    Examples
    --------
    >>> by_cluster((4, 2, 1), (2, 2, 1)).tolist()
    [0, 1, 4, 5, 2, 3, 6, 7]
    """
    ids = np.arange(grid[0] * grid[1] * grid[2])
    if cluster[0] * cluster[1] * cluster[2] == 1:
        return ids
    split = [
        n for blocks, side in zip(grid[::-1], cluster[::-1], strict=True) for n in (blocks // side, side)
    ]
    return ids.reshape(split).transpose(0, 2, 4, 1, 3, 5).reshape(-1)


@dataclass(slots=True)
class ClusterBarrier:
    """The barrier of each cluster of a running batch.

    Attributes
    ----------
    arrivals : numpy.ndarray of int64, shape (height, 32)
        How often each thread has arrived.
    waits : numpy.ndarray of int64, shape (height, 32)
        How often each thread has begun to wait.
    phase : numpy.ndarray of int64, shape (clusters,)
        How often all threads of a cluster have.
    waiters : list of Waiter
    """

    scheduler: Scheduler
    arrivals: Array
    waits: Array
    phase: Array
    waiters: list[Waiter] = field(default_factory=list)

    @classmethod
    def of(cls, scheduler: Scheduler) -> ClusterBarrier:
        """Return a barrier at which nobody has arrived."""
        batch = scheduler.batch
        clusters = batch.blocks // batch.launch.cluster_size
        arrivals, waits = (np.zeros(scheduler.live.shape, np.int64) for _ in range(2))
        return cls(scheduler, arrivals, waits, np.zeros(clusters, np.int64))

    def cluster_of_rows(self, rows: Array) -> Array:
        """Return the cluster of each warp."""
        batch = self.scheduler.batch
        found: Array = batch.block_of_row[rows] // batch.launch.cluster_size
        return found

    def arrive(self, number: int, lanes: Lanes) -> None:
        """Lanes arrive; they may not arrive again before they have waited."""
        rows = lanes.row_indexes()
        mask = lanes.full_mask()
        twice = mask & (self.arrivals[rows] > self.waits[rows])
        if twice.any():
            what = "cluster barrier: threads arrive again before they have waited; call barrier.cluster.wait"
            self.scheduler.batch.fail(number, "cluster barrier", what, lanes.restricted(twice))
        self.arrivals[rows] += mask
        self.look_again()

    def check_arrived(self, number: int, lanes: Lanes) -> None:
        """Fail if lanes are to wait that have not arrived since they waited last."""
        absent = lanes.full_mask() & (self.arrivals[lanes.rows] == self.waits[lanes.rows])
        if absent.any():
            what = "cluster barrier: threads wait that have not arrived; call barrier.cluster.arrive first"
            self.scheduler.batch.fail(number, "cluster barrier", what, lanes.restricted(absent))

    def wait(self, waiter: Waiter) -> None:
        """Lanes wait until all living threads of their cluster have arrived as often as they have."""
        self.waits[waiter.rows] = np.where(waiter.mask, self.arrivals[waiter.rows], self.waits[waiter.rows])
        self.waiters.append(waiter)
        self.look_again()
        self._release()

    def look_again(self) -> None:
        """Let clusters pass whose living threads have all arrived."""
        live = self.scheduler.live
        waiting = np.where(live, self.arrivals, np.iinfo(np.int64).max)
        least = waiting.reshape(self.phase.size, -1).min(axis=1)
        is_done = (least > self.phase) & (least < np.iinfo(np.int64).max)
        if is_done.any():
            self.phase[is_done] += 1
            batch = self.scheduler.batch
            blocks = np.repeat(is_done, batch.launch.cluster_size)
            batch.releases.forget(blocks)
            batch.landings.cross_cluster(is_done)
            batch.remote.waited(np.flatnonzero(blocks))
            if batch.races is not None:
                batch.races.block_barrier(blocks)
            self._release()

    def _release(self) -> None:
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            may_go = self.arrivals[waiter.rows] <= self.phase[self.cluster_of_rows(waiter.rows)][:, None]
            moving, staying = waiter.only(may_go), waiter.only(~may_go)
            if staying is not None:
                self.waiters.append(staying)
            if moving is not None:
                position = (moving.frame, moving.block.successors[-1], moving.stack)
                self.scheduler.enqueue(position, moving.rows, moving.mask)


class RemoteAccesses:
    """The latest access of others to the shared memory of each block, until the block waits for something.

    A block that ends with one may have ended before it, as nothing kept it.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.latest: dict[int, tuple[int, int, int]] = {}

    def note(self, lanes: Lanes, own: Array, blocks: Array) -> None:
        """Note which of the active lanes, of blocks `own`, access the memory of other blocks."""
        away = np.flatnonzero(blocks != own)
        if away.size:
            where = np.argwhere(lanes.full_mask())[away]
            for block, first in zip(*np.unique(blocks[away], return_index=True), strict=True):
                row, column = where[first].tolist()
                number = self.batch.current_number
                self.latest[int(block)] = number, int(lanes.row_indexes()[row]), column

    def waited(self, blocks: Array) -> None:
        """Blocks have waited, at the barrier of the cluster or for an mbarrier."""
        for block in set(self.latest).intersection(blocks.tolist()):
            del self.latest[block]

    def end(self) -> None:
        """Complain about the accesses that blocks did not wait for before they ended."""
        for block, (number, row, column) in self.latest.items():
            what = (
                f"ended block: block {self.batch.block_name(block)}, whose shared memory this accesses, may have "
                "ended by then; let the blocks of a cluster meet at its barrier before they end"
            )
            self.batch.complain(number, "ended block", what, row, column, is_error=False)
        self.latest.clear()


class ClusterArrive:
    """``barrier.cluster.arrive``."""

    is_aligned = False

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(
        self, scheduler: Scheduler, frame: Frame, block: Block, stack: Join | None, lanes: Lanes
    ) -> Next | None:
        """Arrive and go on."""
        scheduler.cluster_barrier.arrive(self.number, lanes)
        return block.successors[-1], stack, lanes


class ClusterWait(ClusterArrive):
    """``barrier.cluster.wait``."""

    def __call__(
        self, scheduler: Scheduler, frame: Frame, block: Block, stack: Join | None, lanes: Lanes
    ) -> Next | None:
        """Wait."""
        scheduler.cluster_barrier.check_arrived(self.number, lanes)
        scheduler.cluster_barrier.wait(Waiter(frame, block, stack, lanes.row_indexes(), lanes.full_mask()))
        return None


def split_address(
    batch: Batch, own: Array, addresses: npt.NDArray[np.int64]
) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return whose shared memory addresses point into, and the addresses there.

    `own` holds the block of each lane. An address with a rank that the cluster does not have stays as it is,
    which is out of bounds.
    """
    size = batch.launch.cluster_size
    rank = addresses >> RANK_SHIFT
    if not rank.any():
        return own, addresses
    is_mapped = (rank > 0) & (rank <= size)
    blocks = np.where(is_mapped, own // size * size + rank - 1, own)
    return blocks, np.where(is_mapped, addresses & LOCAL_BITS, addresses)


def bind_map_address(binder: Binder, instruction: Instruction) -> Step:
    """Make the step of ``mapa``: the address of the same place in another block of the cluster."""
    target, address, rank = instruction.operands
    nbytes = 8 if instruction.opcode.endswith("64") else 4
    is_generic = "shared::cluster" not in instruction.opcode
    source, block = binder.source(address, UNSIGNED[nbytes]), binder.source(rank, UNSIGNED[4])
    where = binder.target(target, UNSIGNED[nbytes])
    number = binder.code.first + instruction.index
    window = SHARED_WINDOW if is_generic else 0
    assert where is not None

    def step_map(views: Views, lanes: Lanes, batch: Batch) -> None:
        shape = (lanes.height, 32)
        local = np.broadcast_to(views[source], shape)[lanes.rows].astype(np.int64) - window
        ranks = np.broadcast_to(views[block], shape)[lanes.rows].astype(np.int64)
        beyond = lanes.restricted(ranks >= batch.launch.cluster_size)
        if beyond.count:
            what = (
                f"mapa names the block of rank {int(beyond.flat(ranks)[0])}; the cluster has "
                f"{batch.launch.cluster_size} blocks"
            )
            batch.fail(number, "out of bounds", what, beyond)
        mapped = (local & LOCAL_BITS) | ((ranks + 1) << RANK_SHIFT)
        lanes.put(views[where], (mapped + window).astype(UNSIGNED[nbytes]))

    return step_map


def bind_rank(binder: Binder, instruction: Instruction) -> Step:
    """Make the step of ``getctarank``: the rank of the block that an address points into."""
    target, address = instruction.operands
    nbytes = 8 if instruction.opcode.endswith("64") else 4
    source, where = binder.source(address, UNSIGNED[nbytes]), binder.target(target, UNSIGNED[4])
    window = 0 if "shared::cluster" in instruction.opcode else SHARED_WINDOW
    assert where is not None

    def step_rank(views: Views, lanes: Lanes, batch: Batch) -> None:
        values = np.broadcast_to(views[source], (lanes.height, 32))[lanes.rows].astype(np.int64) - window
        rank = values >> RANK_SHIFT
        own = (batch.block_of_row[lanes.rows] % batch.launch.cluster_size)[:, None]
        lanes.put(views[where], np.where(rank > 0, rank - 1, own).astype(np.uint32))

    return step_rank
