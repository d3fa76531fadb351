"""Asynchronous accesses to shared memory, from their issue until somebody has waited for them.

An asynchronous copy writes, or reads, shared memory at some time between its issue and the wait for it. Its
data arrives early (at the issue) or late (at the wait), as a seed says; until the wait its bytes are marked,
and whoever touches them is told of both lines. So a missing wait is found whatever the hardware's timing.
Of bulk copies, `landings` then say for whom that wait counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernellab.emulator.lanes import Lanes

if TYPE_CHECKING:
    from kernellab.emulator.batch import Batch

Array = npt.NDArray[Any]
WORD = 4
"""Bytes that share one mark of a write: no asynchronous write covers less."""
PIECE = 16
"""Bytes that share one mark of a read: asynchronous reads are of whole pieces."""
_PIECES: dict[int, np.dtype[Any]] = {
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
    16: np.dtype(np.complex128),
}
"""Dtypes that move pieces of a size bit by bit."""


@dataclass(eq=False, slots=True)
class Flight:
    """An asynchronous access to shared memory: pieces of one size, each asked for by one thread.

    Attributes
    ----------
    number : int
        The instruction that issued it.
    rows, columns : numpy.ndarray of int, shape (n,)
        The warp and lane that asked for each piece.
    starts : numpy.ndarray of int64, shape (n,)
        First byte of each piece in the batch's shared memory: ``block * pitch + address``, a multiple of
        `nbytes`.
    nbytes : int
        Bytes of a piece: 4, 8 or 16.
    values : numpy.ndarray of uint8, shape (n, nbytes), or None
        What arrives there; None for a read.
    has_arrived, has_ended : bool
        The values are in memory; somebody has waited for them.
    parts : tuple of Flight
        What it was split into: these are in flight in its place.
    reading : Flight or None
        Where a copy comes from, if that is shared memory too: it ends with the copy.
    """

    number: int
    rows: Array
    columns: Array
    starts: npt.NDArray[np.int64]
    nbytes: int
    values: npt.NDArray[np.uint8] | None
    has_arrived: bool = False
    has_ended: bool = False
    parts: tuple[Flight, Flight] | tuple[()] = ()
    reading: Flight | None = None

    @property
    def is_over(self) -> bool:
        """Whether somebody has waited for all of it."""
        return all(part.is_over for part in self.parts) if self.parts else self.has_ended

    def words(self) -> npt.NDArray[np.int64]:
        """Return the words that it touches."""
        first = self.starts // WORD
        return (first[:, None] + np.arange(self.nbytes // WORD)).reshape(-1)

    def part(self, chosen: npt.NDArray[np.bool_]) -> Flight:
        """Return the pieces that `chosen`, of shape (n,), marks."""
        values = None if self.values is None else self.values[chosen]
        rows, columns, starts = self.rows[chosen], self.columns[chosen], self.starts[chosen]
        return Flight(self.number, rows, columns, starts, self.nbytes, values, self.has_arrived)


def touched(batch: Batch, lanes: Lanes, flat: Array, nbytes: int) -> tuple[Array, Array, Array]:
    """Return warp, lane and first byte in the batch's shared memory of each active lane that is in bounds."""
    rows, columns = np.nonzero(lanes.full_mask())
    rows = lanes.row_indexes()[rows]
    owners, local = batch.owners(lanes, flat)
    inside = (local >= 0) & (local + nbytes <= batch.shared.size)
    starts = owners * batch.shared.pitch + local
    if inside.all():
        return rows, columns, starts
    return rows[inside], columns[inside], starts[inside]


class InFlight:
    """What is in flight to and from the shared memory of a batch."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.count = 0
        self._writing: Array = np.zeros(0, np.int32)
        self._reading: Array = np.zeros(0, np.int32)
        self._readers: Array = np.zeros(0, np.int32)

    def reset(self) -> None:
        """Forget everything, for the next blocks."""
        self.count = 0
        for marks in (self._writing, self._reading, self._readers):
            marks[:] = 0

    # -- issue, arrival, wait
    def write(
        self, number: int, rows: Array, columns: Array, starts: Array, values: npt.NDArray[np.uint8]
    ) -> Flight:
        """Issue a copy into shared memory.

        Parameters
        ----------
        number : int
            The instruction.
        rows, columns, starts : numpy.ndarray, shape (n,)
            As in `Flight`; in bounds and aligned.
        values : numpy.ndarray of uint8, shape (n, 4 | 8 | 16)

        Returns
        -------
        Flight
            To be passed to `finish` once it is waited for.
        """
        flight = Flight(number, rows, columns, starts, values.shape[1], values)
        words = self._start(flight, "asynchronous write")
        self._writing[words] = number + 1
        if self.is_early():
            self.arrive(flight)
        return flight

    def read(self, number: int, rows: Array, columns: Array, starts: Array) -> Flight:
        """Issue a read of pieces of 16 bytes of shared memory: until `finish` nobody may write there."""
        flight = Flight(number, rows, columns, starts, PIECE, None)
        self._start(flight, "asynchronous read")
        if starts.size:
            self.batch.proxies.read(number, int(rows[0]), int(columns[0]), starts)
        pieces = starts // PIECE
        np.add.at(self._readers, pieces, 1)
        self._reading[pieces] = number + 1
        return flight

    def arrive(self, flight: Flight) -> None:
        """Let the values of a flight come to memory; they may not be read before `finish`."""
        if flight.has_arrived or flight.values is None:
            return
        flight.has_arrived = True
        shared, piece = self.batch.shared, _PIECES[flight.nbytes]
        index = flight.starts // flight.nbytes
        shared.data.view(piece)[index] = np.ascontiguousarray(flight.values).view(piece)[:, 0]
        if shared.written is not None:
            shared.written.view(piece)[index] = np.full(flight.nbytes, 1, np.uint8).view(piece)[0]
        shared.version += 1

    def split(self, flight: Flight, chosen: npt.NDArray[np.bool_]) -> tuple[Flight, Flight]:
        """Make two flights of one: the pieces that are chosen, and the others; both are some."""
        flight.parts = flight.part(chosen), flight.part(~chosen)
        self.count += 1
        return flight.parts

    def finish(self, flight: Flight) -> None:
        """End a flight: somebody has waited for it, perhaps not the first."""
        for part in flight.parts:
            self.finish(part)
        if flight.parts or flight.has_ended:
            return
        flight.has_ended = True
        self.arrive(flight)
        if flight.values is None:
            np.subtract.at(self._readers, flight.starts // PIECE, 1)
        else:
            words = flight.words()
            mine = words[self._writing[words] == flight.number + 1]
            self._writing[mine] = 0
        self.count -= 1
        if flight.reading is not None:
            self.finish(flight.reading)

    def is_early(self) -> bool:
        """Choose when something arrives: late without a seed, else at random."""
        generator = self.batch.launch.generator
        return generator is not None and bool(generator.random() < 0.5)

    # -- who touches what is in flight
    def check(self, number: int, lanes: Lanes, flat: Array, nbytes: int, operation: str) -> None:
        """Complain about lanes that touch marked bytes; `flat` holds the address of each active lane."""
        rows, columns, starts = touched(self.batch, lanes, flat, nbytes)
        for k in range(0, max(nbytes, WORD), WORD):
            self._complain(number, rows, columns, (starts + k) // WORD, operation)

    def _start(self, flight: Flight, operation: str) -> npt.NDArray[np.int64]:
        """Check the words of a new flight; return them."""
        if not self._writing.size:
            nbytes = self.batch.shared.data.size
            self._writing = np.zeros(nbytes // WORD, np.int32)
            self._reading, self._readers = (np.zeros(nbytes // PIECE, np.int32) for _ in range(2))
        words = flight.words()
        if self.count:
            each = flight.nbytes // WORD
            rows, columns = np.repeat(flight.rows, each), np.repeat(flight.columns, each)
            self._complain(flight.number, rows, columns, words, operation)
        self.count += 1
        return words

    def _complain(self, number: int, rows: Array, columns: Array, words: Array, operation: str) -> None:
        issuers = self._writing[words]
        verb = "is still to write"
        if operation not in ("load", "asynchronous read") and not issuers.any():
            pieces = words // (PIECE // WORD)
            issuers = np.where(self._readers[pieces] > 0, self._reading[pieces], 0)
            verb = "may still be reading"
        if not issuers.any():
            return
        first = int(np.flatnonzero(issuers)[0])
        launch, shared = self.batch.launch, self.batch.shared
        byte = int(words[first]) * WORD % shared.pitch
        what = (
            f"in flight: this {operation} touches byte {byte} of shared memory, which the asynchronous "
            f"instruction at {launch.where(int(issuers[first]) - 1)} {verb}; wait for it first"
        )
        count = int(np.count_nonzero(issuers))
        self.batch.complain(number, "in flight", what, int(rows[first]), int(columns[first]), count)
