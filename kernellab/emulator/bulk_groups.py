"""Bulk copies out of shared memory: groups of them that threads commit and wait for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kernellab.emulator.in_flight import Flight

if TYPE_CHECKING:
    from kernellab.emulator.batch import Batch

Thread = tuple[int, int]


@dataclass(eq=False, slots=True)
class BulkStore:
    """A copy out of shared memory: what it reads, and how it writes."""

    flight: Flight
    land: Callable[[], None]
    has_landed: bool = False


@dataclass(slots=True)
class _Queue:
    """The copies of one thread: those not committed yet, and the groups that it may wait for."""

    open: list[BulkStore] = field(default_factory=list)
    groups: list[list[BulkStore]] = field(default_factory=list)


class BulkGroups:
    """The bulk copies of a batch that are on their way out of shared memory."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.queues: dict[Thread, _Queue] = {}

    def add(self, thread: Thread, flight: Flight, land: Callable[[], None]) -> None:
        """Start a copy: it reads and writes now or when it is waited for."""
        store = BulkStore(flight, land)
        self.queues.setdefault(thread, _Queue()).open.append(store)
        if self.batch.in_flight.is_early():
            self._land(store)

    def commit(self, thread: Thread) -> None:
        """Make a group of the copies that a thread, which has some, started since its last one."""
        queue = self.queues[thread]
        queue.groups.append(queue.open)
        queue.open = []

    def wait(self, thread: Thread, allowed: int) -> None:
        """Wait until at most so many of a thread's latest groups are on their way."""
        queue = self.queues[thread]
        while len(queue.groups) > allowed:
            for store in queue.groups.pop(0):
                self._finish(store)
        if not queue.groups and not queue.open:
            del self.queues[thread]

    def end(self) -> None:
        """End the blocks: what is on its way arrives, and nobody has waited for it."""
        for (row, column), queue in self.queues.items():
            for store in [*queue.open, *(each for group in queue.groups for each in group)]:
                self._finish(store)
                what = (
                    "in flight: the block ends while this copy may still be reading its shared memory; "
                    "call cp.async.bulk.commit_group and cp.async.bulk.wait_group.read 0 before"
                )
                number = store.flight.number
                self.batch.complain(number, "in flight", what, row, column, is_error=False)
        self.queues.clear()
        for barrier in self.batch.mbarriers.found.values():
            for flight in [*(f for f, _ in barrier.coming), *(f for _, f in barrier.arrived)]:
                is_bulk = ".bulk" in self.batch.launch.position(flight.number)[1].opcode
                if flight.is_over or not is_bulk:
                    continue
                row, column = int(flight.rows[0]), int(flight.columns[0])
                what = "in flight: the block ends, and nobody has waited for this copy into its shared memory"
                self.batch.complain(flight.number, "in flight", what, row, column)

    def _land(self, store: BulkStore) -> None:
        if not store.has_landed:
            store.has_landed = True
            store.land()
            self.batch.changed()

    def _finish(self, store: BulkStore) -> None:
        self._land(store)
        self.batch.in_flight.finish(store.flight)
