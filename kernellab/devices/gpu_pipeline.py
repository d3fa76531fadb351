"""A pipeline on a GPU: each stream has buffers for one chunk, through which chunks go in turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from kernellab.arrays import ArraySpec, spec_of
from kernellab.timeline import STAGES, Span, spans_of

if TYPE_CHECKING:
    from kernellab.devices.gpu import GpuDevice
    from kernellab.kernel import Language
    from kernellab.pipeline import Work
    from kernellab.plan import Plan
    from kernellab.problem import Array

COPY_IN, COMPUTE, COPY_OUT = STAGES


@dataclass(frozen=True)
class Way:
    """How a pipeline runs; all but the number of streams is there to show what breaks it.

    Attributes
    ----------
    streams : int
        Chunk i goes to stream ``i % streams``.
    is_staged : bool
        Whether pageable arrays go through page-locked buffers of the pipeline's own.
    is_on_default : bool
        Whether kernels go to CUDA's default stream, for which the others wait, and which waits for them.
    waits : bool
        Whether the host waits for each chunk.
    """

    streams: int = 3
    is_staged: bool = True
    is_on_default: bool = False
    waits: bool = False


@dataclass(frozen=True)
class Pass:
    """What one run of a pipeline took.

    Attributes
    ----------
    seconds : float
        From the first stage's start to the last one's end.
    spans : tuple of Span
    """

    seconds: float
    spans: tuple[Span, ...]


class Pipeline:
    """Chunks of host arrays on their way through the current GPU.

    Parameters
    ----------
    device : GpuDevice
    language : {"cuda-c", "numba"}
    work : Work
        Not empty.
    answers : mapping of str to numpy.ndarray
        Where the outputs go; C-contiguous.
    way : Way
    """

    def __init__(
        self, device: GpuDevice, language: Language, work: Work, answers: Mapping[str, Array], way: Way
    ) -> None:
        self.device, self.work, self.answers, self.way = device, work, answers, way
        self.who = f"pipeline: {work.plan.kernel.id}"
        self.cuda = device.cupy.cuda
        device.health.check()
        with device.health.naming(self.who):
            inputs = work.plan.inputs
            shared = {name: device.on_device(a) for name, a in inputs.items() if not work.is_cut(name)}
            # Kernels on the default stream must not overtake copies: such streams wait for it, and it for them.
            streams = [
                self.cuda.Stream(non_blocking=not way.is_on_default)
                for _ in range(min(way.streams, len(work.parts)))
            ]
            self.lanes = [_Lane(device, language, work, answers, shared, way, stream) for stream in streams]

    def run(self, stages: Sequence[str] = STAGES) -> Pass:
        """Send every chunk through, or through some stages only; return when all is done.

        Raises
        ------
        ExecutionError
            If CUDA reports an error.
        """
        with self.device.health.naming(self.who):
            current = self.cuda.get_current_stream()
            origin = mark(self.cuda, current)
            marks = []
            try:
                for lane in self.lanes:  # all start together, once what all read is there
                    lane.stream.wait_event(origin)
                for chunk, part in enumerate(self.work.parts):
                    number = chunk % len(self.lanes)
                    marks.append((number, *self.lanes[number].send(part, stages)))
                    if self.way.waits:
                        self.lanes[number].stream.synchronize()
                for lane in self.lanes:
                    current.wait_event(mark(self.cuda, lane.stream))
                end = mark(self.cuda, current)
            finally:  # what is on its way uses these buffers, and the caller's
                for lane in self.lanes:
                    lane.finish()
            end.synchronize()

            def seconds(event: Any) -> float:
                return float(self.cuda.get_elapsed_time(origin, event)) * 1e-3

            def times(events: Mapping[str, Any]) -> dict[str, float]:
                return {stage: seconds(event) for stage, event in events.items()}

            return Pass(
                seconds(end), spans_of([(number, times(came), times(ends)) for number, came, ends in marks])
            )


class _Lane:
    """One stream, and the buffers of the chunk that is on it."""

    def __init__(
        self, device: GpuDevice, language: Language, work: Work, answers: Mapping[str, Array],
        shared: Mapping[str, Any], way: Way, stream: Any,
    ) -> None:  # fmt: skip
        self.cuda, self.stream, self.answers = device.cupy.cuda, stream, answers
        self.compute = self.cuda.Stream.null if way.is_on_default else stream
        self.sources = {name: array for name, array in work.plan.inputs.items() if work.is_cut(name)}
        first, last = work.parts[0], work.parts[-1]
        # Host buffers of the pipeline's own: they are written to again once the stream is done with them.
        self.staged = {
            (stage, name): page_locked(device.cupy, array[first])
            for stage, arrays in ((COPY_IN, self.sources), (COPY_OUT, answers))
            for name, array in arrays.items()
            if way.is_staged and not is_page_locked(device.cupy, array)
        }
        # In the pool of the current stream, for which lanes wait: that of a stream of a lane goes with it.
        specs = {name: spec_of(array[first]) for name, array in {**answers, **self.sources}.items()}
        self.buffers = {name: device.empty(ArraySpec(s.shape, s.dtype)) for name, s in specs.items()}
        self.calls = {
            count: self._calls(device, language, work.leading(count), shared, count)
            for count in {part.stop - part.start for part in (first, last)}
        }
        self._pending: tuple[slice, Any, bool] | None = None

    def _calls(
        self, device: GpuDevice, language: Language, plan: Plan, shared: Mapping[str, Any], count: int
    ) -> tuple[Callable[[], object], ...]:
        """Return the launches for a chunk of so many rows."""
        buffers = {name: array[:count] for name, array in self.buffers.items()} | dict(shared)
        buffers |= {name: device.empty(spec) for name, spec in plan.temporaries.items()}
        zeroing = tuple(partial(buffers[name].fill, 0) for name in plan.zeroed)
        program = device.build(plan.kernel, language, with_ladder=False)
        with self.compute:  # which Numba asks for now, and CuPy when it launches
            return *zeroing, *device.calls(program, plan, buffers)

    def send(self, part: slice, stages: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Queue a chunk; return the events at which streams came to its stages, and those that end them."""
        self.reclaim()
        runtime, count = self.cuda.runtime, part.stop - part.start
        came, ends = {stages[0]: mark(self.cuda, self.stream)}, {}
        if COPY_IN in stages:
            for name, array in self.sources.items():
                host = self._host(COPY_IN, name, array, part)
                target, kind = self.buffers[name].data.ptr, runtime.memcpyHostToDevice
                runtime.memcpyAsync(target, host.ctypes.data, host.nbytes, kind, self.stream.ptr)
            ends[COPY_IN] = mark(self.cuda, self.stream)
        if COMPUTE in stages:
            if self.compute is not self.stream:
                came[COMPUTE] = mark(self.cuda, self.compute)
            with self.compute:
                for call in self.calls[count]:
                    call()
            ends[COMPUTE] = mark(self.cuda, self.compute)
        if COPY_OUT in stages:
            for name, array in self.answers.items():
                host = self._host(COPY_OUT, name, array, part)
                source, kind = self.buffers[name].data.ptr, runtime.memcpyDeviceToHost
                runtime.memcpyAsync(host.ctypes.data, source, host.nbytes, kind, self.stream.ptr)
            ends[COPY_OUT] = mark(self.cuda, self.stream)
        if self.staged:
            self._pending = part, mark(self.cuda, self.stream), COPY_OUT in stages
        return came, ends

    def _host(self, stage: str, name: str, array: Array, part: slice) -> Array:
        """Return the host memory that the GPU reads or writes: the array itself, or a buffer for it."""
        buffer = self.staged.get((stage, name))
        if buffer is None:
            return array[part]
        buffer = buffer[: part.stop - part.start]
        if stage == COPY_IN:
            buffer[...] = array[part]
        return buffer

    def reclaim(self) -> None:
        """Wait until the host buffers of the chunk before are read and written, and take its outputs out of them."""
        if self._pending is None:
            return
        part, done, has_outputs = self._pending
        done.synchronize()
        self._pending = None
        for (stage, name), buffer in self.staged.items():
            if stage == COPY_OUT and has_outputs:
                self.answers[name][part] = buffer[: part.stop - part.start]

    def finish(self) -> None:
        """Wait for all that is on the stream."""
        self.reclaim()
        self.stream.synchronize()


def mark(cuda: Any, stream: Any) -> Any:
    """Queue an event on a stream."""
    event = cuda.Event()
    event.record(stream)
    return event


def is_page_locked(cupy: Any, array: Array) -> bool:
    """Whether a GPU can copy from, or to, a host array by itself."""
    return not array.size or bool(cupy.cuda.pinned_memory.is_memory_pinned(array.ctypes.data))


def page_locked(cupy: Any, like: Array) -> Array:
    """Return page-locked memory of the shape and dtype of an array, from CuPy's pool."""
    memory = cupy.cuda.alloc_pinned_memory(max(like.nbytes, 1))
    room: Array = np.ndarray(like.shape, like.dtype, buffer=memory)
    return room
