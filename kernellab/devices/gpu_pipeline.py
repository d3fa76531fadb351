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
        self.device, self.language, self.work, self.way = device, language, work, way
        self.who = f"pipeline: {work.plan.kernel.id}"
        self.answers = answers
        self.cuda = device.cupy.cuda
        device.health.check()
        with device.health.naming(self.who):
            inputs = work.plan.inputs
            self.shared = {n: device.on_device(a) for n, a in inputs.items() if not work.is_cut(n)}
            # Kernels on the default stream must not overtake copies: such streams wait for it, and it for them.
            streams = [
                self.cuda.Stream(non_blocking=not way.is_on_default)
                for _ in range(min(way.streams, len(work.parts)))
            ]
            self.lanes = [_Lane(self, stream) for stream in streams]

    def run(self, stages: Sequence[str] = STAGES) -> Pass:
        """Send every chunk through, or through some stages only; return when all is done.

        Raises
        ------
        ExecutionError
            If CUDA reports an error.
        """
        with self.device.health.naming(self.who):
            current = self.cuda.get_current_stream()
            origin = self.mark(current)
            marks = []
            try:
                for lane in self.lanes:  # all start together, once what all read is there
                    lane.stream.wait_event(origin)
                for chunk, part in enumerate(self.work.parts):
                    number = chunk % len(self.lanes)
                    lane = self.lanes[number]
                    marks.append((number, lane.send(part, stages)))
                    if self.way.waits:
                        lane.stream.synchronize()
                for lane in self.lanes:
                    current.wait_event(self.mark(lane.stream))
                end = self.mark(current)
            finally:  # what is on its way uses these buffers, and the caller's
                for lane in self.lanes:
                    lane.finish()
            end.synchronize()
            return Pass(
                self._seconds(origin, end),
                spans_of(
                    [
                        (
                            stream,
                            {n: self._seconds(origin, e) for n, e in ends.items()},
                            self._seconds(origin, came),
                        )
                        for stream, (came, ends) in marks
                    ]
                ),
            )

    def mark(self, stream: Any) -> Any:
        """Queue an event on a stream."""
        event = self.cuda.Event()
        event.record(stream)
        return event

    def _seconds(self, start: Any, stop: Any) -> float:
        return float(self.cuda.get_elapsed_time(start, stop)) * 1e-3

    def is_copied_directly(self, array: Array) -> bool:
        """Whether the GPU copies from, or to, this host array itself."""
        is_pinned = bool(self.cuda.pinned_memory.is_memory_pinned(array.ctypes.data)) if array.size else True
        return is_pinned or not self.way.is_staged


def page_locked(cupy: Any, like: Array) -> Array:
    """Return page-locked memory of the shape and dtype of an array, from CuPy's pool."""
    memory = cupy.cuda.alloc_pinned_memory(max(like.nbytes, 1))
    room: Array = np.ndarray(like.shape, like.dtype, buffer=memory)
    return room


class _Lane:
    """One stream, and the buffers of the chunk that is on it."""

    def __init__(self, pipeline: Pipeline, stream: Any) -> None:
        self.pipeline, self.stream = pipeline, stream
        device, work = pipeline.device, pipeline.work
        self.compute = pipeline.cuda.Stream.null if pipeline.way.is_on_default else stream
        first = work.parts[0]
        self.sources = {name: array for name, array in work.plan.inputs.items() if work.is_cut(name)}
        outputs = pipeline.answers
        # Host buffers of the pipeline's own: they are written to again once the stream is done with them.
        self.staged = {
            ("in", name): page_locked(device.cupy, array[first])
            for name, array in self.sources.items()
            if not pipeline.is_copied_directly(array)
        } | {
            ("out", name): page_locked(device.cupy, array[first])
            for name, array in outputs.items()
            if not pipeline.is_copied_directly(array)
        }
        with stream:
            specs = {name: spec_of(array[first]) for name, array in {**outputs, **self.sources}.items()}
            self.buffers = {n: device.empty(ArraySpec(s.shape, s.dtype)) for n, s in specs.items()}
        with self.compute:
            counts = {part.stop - part.start for part in (first, work.parts[-1])}
            self.calls = {count: self._calls(count) for count in counts}
        self._pending: tuple[slice, Any, bool] | None = None

    def send(self, part: slice, stages: Sequence[str]) -> tuple[Any, dict[str, Any]]:
        """Queue a chunk; return the event at which the stream came to it, and those that end its stages."""
        mark, runtime = self.pipeline.mark, self.pipeline.cuda.runtime
        self.reclaim()
        count = part.stop - part.start
        came, ends = mark(self.stream), {}
        if COPY_IN in stages:
            for name, array in self.sources.items():
                source = array[part]
                if ("in", name) in self.staged:
                    source = self.staged["in", name][:count]
                    source[...] = array[part]
                target = self.buffers[name].data.ptr
                kind = runtime.memcpyHostToDevice
                runtime.memcpyAsync(target, source.ctypes.data, source.nbytes, kind, self.stream.ptr)
            ends[COPY_IN] = mark(self.stream)
        if COMPUTE in stages:
            with self.compute:
                for call in self.calls[count]:
                    call()
            ends[COMPUTE] = mark(self.compute)
        if COPY_OUT in stages:
            for name, array in self.pipeline.answers.items():
                host = self.staged["out", name][:count] if ("out", name) in self.staged else array[part]
                source, kind = self.buffers[name].data.ptr, runtime.memcpyDeviceToHost
                runtime.memcpyAsync(host.ctypes.data, source, host.nbytes, kind, self.stream.ptr)
            ends[COPY_OUT] = mark(self.stream)
        self._pending = (part, mark(self.stream), COPY_OUT in stages) if self.staged else None
        return came, ends

    def reclaim(self) -> None:
        """Wait until the host buffers of the chunk before are read and written, and take its outputs out of them."""
        if self._pending is None:
            return
        part, done, has_outputs = self._pending
        done.synchronize()
        self._pending = None
        for name, array in self.pipeline.answers.items() if has_outputs else ():
            if ("out", name) in self.staged:
                array[part] = self.staged["out", name][: part.stop - part.start]

    def finish(self) -> None:
        """Wait for all that is on the stream."""
        self.reclaim()
        self.stream.synchronize()

    def _calls(self, count: int) -> tuple[Callable[[], object], ...]:
        """Return the launches for a chunk of so many rows, on the stream that is current."""
        pipeline = self.pipeline
        device, plan = pipeline.device, pipeline.work.leading(count)
        buffers = {name: array[:count] for name, array in self.buffers.items()} | pipeline.shared
        buffers |= {name: device.empty(spec) for name, spec in plan.temporaries.items()}
        zeroing = tuple(partial(buffers[name].fill, 0) for name in plan.zeroed)
        program = device.build(plan.kernel, pipeline.language, with_ladder=False)
        return *zeroing, *device.calls(program, plan, buffers)
