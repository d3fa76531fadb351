"""A fake GPU whose streams do nothing before they must, on a clock of its own.

What is queued is carried out as late as CUDA allows: so a host buffer that is overwritten too early shows. When
it would have run is worked out while it is queued: streams go on beside each other, and each stage has hardware
that takes one piece of work after the other.
"""

from __future__ import annotations

import ctypes
import functools

from fakes import World

COPY_IN, COPY_OUT = 1, 2
HOST_SECONDS = 1e-6
"""What a call costs the host."""


class LazyStream:
    def __init__(self, world, ptr, is_blocking):
        self.world, self.ptr, self.is_blocking = world, ptr, is_blocking
        self.queue, self.seconds = [], 0.0

    def drain(self, event=None):
        while self.queue:
            work = self.queue.pop(0)
            if work is event:
                return
            if callable(work):
                work()

    def synchronize(self):
        self.drain()
        self.world.host_seconds = max(self.world.host_seconds, self.seconds)

    def wait_event(self, event):
        self.seconds = max(self.seconds, event.seconds)
        self.queue.append(event.await_)

    def __enter__(self):
        self.world.streams.append(self)
        return self

    def __exit__(self, *error):
        self.world.streams.pop()


class LazyEvent:
    def __init__(self, world):
        self.world, self.stream, self.ptr = world, None, id(self)

    def record(self, stream):
        others = self.world.others(stream)
        stream.seconds = max(stream.seconds, self.world.host_seconds, *(other.seconds for other in others))
        self.stream, self.seconds = stream, stream.seconds
        stream.queue.append(self)

    def await_(self):
        if self in self.stream.queue:
            self.stream.drain(self)

    @property
    def done(self):
        return self not in self.stream.queue

    def synchronize(self):
        self.await_()
        self.world.host_seconds = max(self.world.host_seconds, self.seconds)


class LazyWorld(World):
    """Copies go at `rate` bytes a second each way, a launch lasts `kernel_seconds`."""

    def __init__(self, rate=1e9, kernel_seconds=1e-4, **options):
        super().__init__(**options)
        self.rate, self.kernel_seconds = rate, kernel_seconds
        self.made, self.hardware = [], {}
        self.null = LazyStream(self, 0, False)
        cuda = self.cupy.cuda
        cuda.Stream = functools.partial(self._stream)
        cuda.Stream.null = self.null
        cuda.Event = lambda disable_timing=False: LazyEvent(self)
        cuda.runtime.memcpyAsync = self._copy
        cuda.runtime.memcpyHostToDevice, cuda.runtime.memcpyDeviceToHost = COPY_IN, COPY_OUT

    def _stream(self, non_blocking=False):
        self.made.append(LazyStream(self, 100 + len(self.made), not non_blocking))
        return self.made[-1]

    def others(self, stream):
        """Return whom a stream waits for: the default stream for blocking ones, and they for it."""
        blocking = [each for each in self.made if each.is_blocking]
        return blocking if stream is self.null else [self.null] if stream.is_blocking else []

    def _queue(self, stream, hardware, seconds, work):
        others = self.others(stream)
        self.host_seconds += HOST_SECONDS
        start = max(
            self.host_seconds, stream.seconds, self.hardware.get(hardware, 0.0), *(o.seconds for o in others)
        )
        stream.seconds = self.hardware[hardware] = start + seconds
        for other in others:
            mark = LazyEvent(self)
            mark.stream, mark.seconds = other, other.seconds
            other.queue.append(mark)
            stream.queue.append(mark.await_)
        stream.queue.append(work)

    def perform(self, work):
        self._queue(self.stream, "kernel", self.kernel_seconds, work)

    def _copy(self, target, source, nbytes, kind, pointer):
        stream = next(each for each in (self.null, *self.made) if each.ptr == pointer)
        self.log.append(("copy", kind, nbytes, pointer))
        self._queue(stream, kind, nbytes / self.rate, lambda: ctypes.memmove(target, source, nbytes))
        if not self.is_pinned(source if kind == COPY_IN else target):
            stream.synchronize()  # the driver returns when it has read, or written, pageable memory

    def synchronize(self):
        for stream in (self.null, *self.made):
            stream.synchronize()
        super().synchronize()
