"""Ranks: two GPUs of one host that reach each other's memory, each with a stream to compute and one to communicate."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from kernellab.errors import UnavailableError

if TYPE_CHECKING:
    from kernellab.devices.gpu import GpuDevice

NEEDED = "it takes two GPUs that reach each other's memory"
FIRST = -5
"""A priority before all others; CUDA takes the nearest that the device has."""


class Rank:
    """One of the GPUs.

    Parameters
    ----------
    device : GpuDevice
    number, peer : int
        Which device it is, and whose memory it reaches from here on.

    Attributes
    ----------
    compute, communicate : stream
        What is communicated comes first wherever both wait for a multiprocessor.
    """

    def __init__(self, device: GpuDevice, number: int, peer: int) -> None:
        self.cupy, self.number, self.peer = device.cupy, number, peer
        cuda = self.cupy.cuda
        with cuda.Device(number):
            try:
                cuda.runtime.deviceEnablePeerAccess(peer)
            except cuda.runtime.CUDARuntimeError as error:
                if "AlreadyEnabled" not in str(error):
                    raise
            self.compute = cuda.Stream(non_blocking=True)
            self.communicate = cuda.Stream(non_blocking=True, priority=FIRST)
        self._events: list[Any] = []
        self._used = 0

    @contextmanager
    def on(self, stream: Any = None) -> Iterator[None]:
        """Make the device current, and one of its streams, by default that which computes."""
        with self.cupy.cuda.Device(self.number), stream or self.compute:
            yield

    def mark(self, stream: Any) -> Any:
        """Queue an event on one of the streams: one made before, if there is one that nobody asks any more."""
        if self._used == len(self._events):
            with self.cupy.cuda.Device(self.number):
                self._events.append(self.cupy.cuda.Event())
        event = self._events[self._used]
        self._used += 1
        event.record(stream)
        return event

    def restart(self) -> None:
        """Wait for all that is queued, so that events can be used again."""
        self.compute.synchronize()
        self.communicate.synchronize()
        self._used = 0

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        """Return memory that the peer reaches: from cudaMalloc, as that of pools need not be."""
        cuda, nbytes = self.cupy.cuda, int(np.prod(shape)) * np.dtype(dtype).itemsize
        with cuda.Device(self.number):
            return self.cupy.ndarray(shape, dtype, memptr=cuda.MemoryPointer(cuda.Memory(nbytes), 0))

    def seconds(self, start: Any, stop: Any) -> float:
        """Return the time between two events of this device."""
        return float(self.cupy.cuda.get_elapsed_time(start, stop)) * 1e-3

    def fetch(self, target: Any, source: Any, stream: Any) -> None:
        """Queue a copy of the peer's array into one of its own, by the copy engines."""
        runtime = self.cupy.cuda.runtime
        runtime.memcpyPeerAsync(
            target.data.ptr, self.number, source.data.ptr, self.peer, target.nbytes, stream.ptr
        )

    def send(self, target: Any, source: Any, stream: Any) -> None:
        """Queue a copy of one of its own arrays into one of the peer's."""
        runtime = self.cupy.cuda.runtime
        runtime.memcpyPeerAsync(
            target.data.ptr, self.peer, source.data.ptr, self.number, target.nbytes, stream.ptr
        )


Ranks = tuple[Rank, Rank]


def pair(device: GpuDevice) -> Ranks:
    """Return two ranks.

    Raises
    ------
    UnavailableError
        If no two GPUs of this host reach each other's memory.
    """
    runtime = device.cupy.cuda.runtime
    count = int(runtime.getDeviceCount())
    for one, other in itertools.combinations(range(count), 2):
        if runtime.deviceCanAccessPeer(one, other) and runtime.deviceCanAccessPeer(other, one):
            return Rank(device, one, other), Rank(device, other, one)
    here = "one is here" if count == 1 else f"of the {count} here no two do"
    raise UnavailableError(f"all-reduce: {NEEDED}, {here}; run it on a host with two over NVLink or PCIe")


def together(ranks: Sequence[Rank]) -> list[Any]:
    """Let all streams wait for each other; return an event of each rank from which it counts its time.

    Events of before are asked no more.
    """
    for rank in ranks:
        rank.restart()
    before = [rank.mark(stream) for rank in ranks for stream in (rank.compute, rank.communicate)]
    for rank in ranks:
        for stream in (rank.compute, rank.communicate):
            for event in before:
                stream.wait_event(event)
    return [rank.mark(rank.compute) for rank in ranks]


def longest(ranks: Sequence[Rank], starts: Sequence[Any], stops: Sequence[Any]) -> float:
    """Wait; return the time of the rank that took longer."""
    for stop in stops:
        stop.synchronize()
    return max(rank.seconds(*events) for rank, *events in zip(ranks, starts, stops, strict=True))
