"""Mbarriers: barriers in shared memory that count arrivals of threads and bytes of asynchronous copies.

A phase ends when all arrivals have come and all expected bytes have. Asynchronous copies that complete on a
barrier arrive at their issue or, late, when somebody looks at it; they end with a wait that sees their phase
complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator.in_flight import Flight
from kernellab.emulator.lanes import Lanes

if TYPE_CHECKING:
    from kernellab.emulator.batch import Batch

Array = npt.NDArray[Any]
SIZE = 8
MOST = (1 << 20) - 1
"""The largest number of arrivals, and of bytes, that a barrier counts."""
_SEAL = np.uint64(0x6D62_6172_7269_6572)
"""What stands in the bytes of a barrier: its state is opaque, and who overwrites it is found."""


def _nothing() -> Array:
    return np.zeros(0, np.int32)


@dataclass(eq=False, slots=True)
class MBarrier:
    """One barrier.

    Attributes
    ----------
    byte : int
        Where it stands in the shared memory of its block.
    number : int
        The instruction that made it.
    expected, pending, nbytes, phase : int
        Arrivals of a phase; those still to come; bytes still to come; phases completed.
    coming : list
        Copies that have not arrived: flight, bytes.
    arrived : list
        Copies that the barrier no longer waits for, and that nobody has waited for: phase, flight.
    is_awaited : bool
        The last who looked found its phase incomplete.
    carried, handed : dict
        What those who arrived in this phase, and in the one before, know of products: see `releases`.
    slot : int or None
        Its place among those of its cluster on which bulk copies have landed: see `landings`.
    telling, told : numpy.ndarray
        What those who arrived up to this phase, and up to the one before, know of mbarriers.
    """

    byte: int
    number: int
    expected: int
    pending: int
    nbytes: int = 0
    phase: int = 0
    coming: list[tuple[Flight, int]] = field(default_factory=list)
    arrived: list[tuple[int, Flight]] = field(default_factory=list)
    is_awaited: bool = False
    carried: dict[int, int] = field(default_factory=dict)
    handed: dict[int, int] = field(default_factory=dict)
    slot: int | None = None
    telling: Array = field(default_factory=_nothing)
    told: Array = field(default_factory=_nothing)

    def state(self) -> int:
        """Return what an arrival gives its thread."""
        return self.phase << 32 | self.pending

    def missing(self) -> str:
        """Say in words what its phase waits for."""
        waits = [f"{self.pending} of {self.expected} arrivals"] if self.pending else []
        waits += [f"{self.nbytes} bytes"] if self.nbytes > 0 else []
        waits += [f"{-self.nbytes} bytes to be expected that have come already"] if self.nbytes < 0 else []
        return " and ".join(waits)

    def settle(self) -> None:
        """End the phase if nothing is missing."""
        if self.pending == 0 and self.nbytes == 0:
            self.phase += 1
            self.pending = self.expected
            self.handed, self.carried = self.carried, {}
            self.told = self.telling


class MBarriers:
    """The mbarriers of a batch, by their byte in its shared memory."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.found: dict[int, MBarrier] = {}

    def reset(self) -> None:
        """Forget all, for the next blocks."""
        self.found.clear()

    # -- what instructions do; `where` is a byte of the batch's shared memory
    def make(self, number: int, where: int, count: int, lane: Lanes) -> None:
        """``init``: the first phase begins."""
        shared = self.batch.shared
        if where in self.found and shared.views[SIZE][where // SIZE] == _SEAL:
            self._fail(number, where, "is initialised again; invalidate it with mbarrier.inval first", lane)
        if not 1 <= count <= MOST:
            self._fail(number, where, f"is initialised with {count} arrivals; it counts 1 to {MOST}", lane)
        self.found[where] = MBarrier(where % shared.pitch, number, count, count)
        shared.views[SIZE][where // SIZE] = _SEAL
        if shared.written is not None:
            shared.written[where : where + SIZE] = 1
        shared.version += 1

    def remove(self, number: int, where: int, lane: Lanes) -> None:
        """``inval``: its bytes may be used for other things."""
        self.at(number, where, lane)
        del self.found[where]

    def arrive(
        self, number: int, where: int, count: int, lane: Lanes, *, nbytes: int = 0, drops: bool = False
    ) -> int:
        """Count arrivals, and bytes to wait for; return the state before.

        With `drops` the following phases expect so many arrivals fewer.
        """
        barrier = self.at(number, where, lane)
        if count > barrier.pending:
            self._land(barrier)
        state = barrier.state()
        if count > barrier.pending:
            what = f"gets {count} arrivals and waits for {barrier.missing()}: one arrival too many in a phase"
            self._fail(number, where, what, lane)
        barrier.nbytes += nbytes
        self._check_bytes(number, where, barrier, lane)
        barrier.pending -= count
        barrier.expected -= count * drops
        self._settle(barrier)
        return state

    def expect(self, number: int, where: int, nbytes: int, lane: Lanes) -> None:
        """``expect_tx``: the phase also waits for so many bytes."""
        barrier = self.at(number, where, lane)
        barrier.nbytes += nbytes
        self._check_bytes(number, where, barrier, lane)
        self._settle(barrier)

    def complete(self, number: int, where: int, nbytes: int, lane: Lanes) -> None:
        """``complete_tx``: so many bytes have come."""
        barrier = self.at(number, where, lane)
        barrier.nbytes -= nbytes
        self._settle(barrier)

    def attach(self, number: int, where: int, flight: Flight, nbytes: int, lane: Lanes) -> None:
        """Let a copy complete bytes on a barrier when it arrives."""
        barrier = self.at(number, where, lane)
        barrier.coming.append((flight, nbytes))
        if flight.has_arrived:
            self._land(barrier)

    def hold(self, number: int, where: int, flights: list[Flight], lane: Lanes) -> None:
        """Let a wait for the present phase also be one for some copies, which count no bytes."""
        barrier = self.at(number, where, lane)
        barrier.arrived += [(barrier.phase, flight) for flight in flights]

    def is_complete(self, number: int, where: int, phase: int, is_parity: bool, lane: Lanes) -> bool:
        """``test_wait``: look whether a phase has ended; its copies have then been waited for."""
        barrier = self.at(number, where, lane)
        self._land(barrier)
        is_over = barrier.phase & 1 != phase & 1 if is_parity else barrier.phase != phase >> 32
        barrier.is_awaited = not is_over
        if is_over and barrier.arrived:
            for ended, flight in [each for each in barrier.arrived if each[0] < barrier.phase]:
                self.batch.in_flight.finish(flight)
                self.batch.landings.land(barrier, ended, flight)
            barrier.arrived = [each for each in barrier.arrived if each[0] >= barrier.phase]
        return is_over

    def land_all(self) -> bool:
        """Let every copy arrive that has not, since nobody can go on; False if there is none."""
        late = [barrier for barrier in self.found.values() if barrier.coming]
        for barrier in late:
            self._land(barrier)
        return bool(late)

    def at(self, number: int, where: int, lane: Lanes) -> MBarrier:
        """Return the barrier at a byte; fail where there is none, or where it was overwritten."""
        barrier = self.found.get(where)
        if barrier is None:
            self._fail(number, where, "is used and was not initialised there; call mbarrier.init first", lane)
            raise AssertionError
        if self.batch.shared.views[SIZE][where // SIZE] != _SEAL:
            made = self.batch.launch.where(barrier.number)
            self._fail(
                number, where, f"was overwritten by other data after its mbarrier.init at {made}", lane
            )
        return barrier

    def waiting(self) -> Iterator[str]:
        """Say of each barrier for which somebody waits what it waits for."""
        for where, barrier in sorted(self.found.items()):
            if barrier.is_awaited:
                block = self.batch.block_name(where // self.batch.shared.pitch)
                made = self.batch.launch.where(barrier.number)
                yield (
                    f"the mbarrier at byte {barrier.byte} of shared memory of block {block}, made at {made}, "
                    f"waits in phase {barrier.phase} for {barrier.missing()}"
                )

    # -- inside
    def _land(self, barrier: MBarrier) -> None:
        coming, barrier.coming = barrier.coming, []
        for flight, nbytes in coming:
            self.batch.in_flight.arrive(flight)
            barrier.arrived.append((barrier.phase, flight))
            barrier.nbytes -= nbytes
            self._settle(barrier)

    def _check_bytes(self, number: int, where: int, barrier: MBarrier, lane: Lanes) -> None:
        if barrier.nbytes > MOST:
            what = f"expects {barrier.nbytes} bytes in a phase; it counts up to {MOST}"
            self._fail(number, where, what, lane)

    def _settle(self, barrier: MBarrier) -> None:
        barrier.settle()
        self.batch.shared.version += 1

    def _fail(self, number: int, where: int, what: str, lane: Lanes) -> None:
        byte = where % self.batch.shared.pitch
        self.batch.fail(number, "mbarrier", f"the mbarrier at byte {byte} of shared memory {what}", lane)
