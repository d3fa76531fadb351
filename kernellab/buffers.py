"""Buffers for timing: sets that samples take in turn, copies of them, and graphs of what works on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kernellab.verify import poison_byte

if TYPE_CHECKING:
    from kernellab.devices.gpu import GpuDevice
    from kernellab.instruments.clock import Call
    from kernellab.plan import Plan

Buffers: TypeAlias = Mapping[str, Any]

MOST_SETS = 64
"""Sets of buffers at most; where more would be needed to fill the L2, it is evicted between samples."""


@dataclass
class Sets:
    """Sets of buffers that samples take in turn.

    Attributes
    ----------
    buffers : list of mapping
        One a set.
    needs_eviction : bool
        Whether the sets together do not push each other out of the L2.
    restore : list of callable
        One a set: what is queued before a sample; empty where nothing is.
    """

    buffers: list[Buffers]
    needs_eviction: bool
    restore: list[Call] = field(default_factory=list)


def set_count(nbytes: int, l2_bytes: int, available: int, works: int = 1) -> int:
    """Return how many sets of buffers keep each sample cold; 1 where the L2 has to be evicted instead.

    Parameters
    ----------
    nbytes : int
        That one set takes, and what is copied beside it.
    l2_bytes, available : int
        The L2, and the memory that is free; at most half of it is taken.
    works : int
        How many pieces of work share the sets.

    Examples
    --------
    >>> set_count(nbytes=2**28, l2_bytes=60 * 2**20, available=2**36)
    2
    >>> set_count(nbytes=2**22, l2_bytes=60 * 2**20, available=2**36)
    31
    >>> set_count(nbytes=2**12, l2_bytes=60 * 2**20, available=2**36)
    1
    """
    # Between two samples on one set, the others move more than twice the L2.
    count = works * max(2, -(-2 * l2_bytes // max(nbytes, 1)) + 1)
    return 1 if count > MOST_SETS or count * nbytes > available // 2 else count


def make_sets(device: GpuDevice, plan: Plan, count: int) -> Sets:
    """Return sets of buffers with the plan's inputs, outputs poisoned."""
    specs = {n: s for n, s in {**plan.outputs, **plan.temporaries}.items() if n not in plan.in_place}
    sets: list[Buffers] = []
    for _ in range(count):
        # Copied on the device after the first; the caller's own arrays are left alone.
        source: Mapping[str, Any] = sets[0] if sets else plan.inputs
        inputs = {name: device.on_device(source[name], copy=True) for name in plan.inputs}
        sets.append({**inputs, **{name: device.empty(spec) for name, spec in specs.items()}})
    made = Sets(sets, count == 1)
    if plan.zeroed or plan.in_place:
        pristine = {name: device.on_device(plan.inputs[name], copy=True) for name in plan.in_place}
        made.restore = [_restorer(plan, buffers, pristine) for buffers in sets]
    for buffers in sets:
        poison(plan, buffers)
    return made


def _restorer(plan: Plan, buffers: Buffers, pristine: Buffers) -> Call:
    def restore() -> None:
        for name, array in pristine.items():
            buffers[name][...] = array
        for name in plan.zeroed:
            buffers[name].fill(0)

    return restore


def poison(plan: Plan, buffers: Buffers) -> None:
    """Fill a set's outputs and temporaries with poison, on the device; those that are inputs too are kept."""
    for name, spec in {**plan.outputs, **plan.temporaries}.items():
        if spec.size and name not in plan.in_place:
            buffers[name].reshape(-1).view(np.uint8).fill(poison_byte(spec.dtype))


def graph_of(cupy: Any, call: Call, repeats: int) -> Call:
    """Capture work on the current stream, so often one after the other, and return what replays it."""
    stream = cupy.cuda.get_current_stream()
    call()  # modules are loaded outside the capture
    stream.synchronize()
    stream.begin_capture()
    try:
        for _ in range(repeats):
            call()
    finally:
        graph = stream.end_capture()
    return lambda: graph.launch(stream)


def copy_calls(device: GpuDevice, nbytes: int, count: int) -> list[Call]:
    """Return callables that copy half of `nbytes` within the device, each on buffers of its own."""
    cupy = device.cupy
    half = max(nbytes // 2, 1)
    runtime = cupy.cuda.runtime

    def make() -> Any:
        return device.allocate(lambda: cupy.zeros(half, np.uint8))

    buffers = [(make(), make()) for _ in range(count)]

    def copier(source: Any, target: Any) -> Call:
        def copy() -> None:
            stream = cupy.cuda.get_current_stream().ptr
            runtime.memcpyAsync(target.data.ptr, source.data.ptr, half, runtime.memcpyDeviceToDevice, stream)

        return copy

    return [copier(source, target) for source, target in buffers]
