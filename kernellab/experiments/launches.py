"""Launches on a GPU: what many small ones cost one by one and as a CUDA graph, by whom they are launched."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernellab.buffers import graph_of
from kernellab.catalog import kernel as find_kernel
from kernellab.compile.numba_cuda import cuda_module, quiet
from kernellab.errors import MismatchError
from kernellab.instruments.clock import Call, Stopwatch, Timing, launch_seconds
from kernellab.kernel import Language
from kernellab.plan import Plan, bind

KERNEL = "scale/scalar"
COUNT = 64
"""Launches in a row: y = 2 x and back, so that each of them doubles what was there, and none can be missing."""
ROUNDS = 51
N = 2**10
SIZES = (N, 2**16, 2**20, 2**24)
GRAPH, PREPARED = "CUDA graph", "prepared by kernellab"
USUAL: Mapping[Language, str] = {"cuda-c": "cupy.RawKernel", "numba": "Numba, kernel[grid, block](...)"}


@dataclass(frozen=True)
class Launched:
    """What launches took, in one language.

    Attributes
    ----------
    language : str
    n : int
        Elements a launch.
    timings : mapping of str to Timing
        Of `COUNT` launches on an idle device, by who launches, the host's part included.
    host_seconds : mapping of str to float
        What queueing costs the host, a kernel; the device meanwhile does nothing.
    """

    language: str
    n: int
    timings: Mapping[str, Timing]
    host_seconds: Mapping[str, float]

    def gain(self, how: str) -> float:
        """Return the time of launches one by one over that of the graph."""
        return self.timings[how].seconds / self.timings[GRAPH].seconds

    @property
    def fastest(self) -> str:
        """Who launches fastest, the graph aside."""
        return min((how for how in self.timings if how != GRAPH), key=lambda how: self.timings[how].seconds)


class Chain:
    """A small kernel from one buffer to another and back.

    Parameters
    ----------
    device : GpuDevice
        With the stream current on which it runs; not the default one, which cannot be captured.
    language : {"cuda-c", "numba"}
    n : int
        Elements.
    """

    def __init__(self, device: Any, language: Language, n: int = N) -> None:
        self.device, self.language, self.n = device, language, n
        cupy = device.cupy
        first, second = (device.allocate(lambda: cupy.zeros(n, np.float32)) for _ in range(2))
        self.first = first
        self.pairs = ({"x": first, "y": second}, {"x": second, "y": first})
        kernel = find_kernel(KERNEL)
        self.plan: Plan = bind(kernel, {"x": first}, limits=device.limits, alpha=2.0)
        self.program = device.build(self.plan.kernel, language, with_ladder=False)
        prepared = tuple(device.calls(self.program, self.plan, pair)[0] for pair in self.pairs)
        self.ways: dict[str, Call] = {USUAL[language]: self._usual(), PREPARED: _row(prepared)}
        for call in self.ways.values():  # compiles and loads
            call()
        self.ways[GRAPH] = graph_of(cupy, _row(prepared, 2), COUNT // 2)

    def _usual(self) -> Call:
        """Return the launches as a user of the library writes them."""
        launch, pairs = self.plan.steps[0], self.pairs
        grid, block = launch.grid, launch.block
        launcher, alpha, n = self.device.launcher, np.float32(2), np.int64(self.n)
        if self.language == "cuda-c":
            raw = launcher.function(self.program, launch.kernel)

            def call() -> None:
                for i in range(COUNT):
                    pair = pairs[i % 2]
                    raw(grid, block, (pair["x"], pair["y"], alpha, n))

            return call
        cuda, dispatcher = cuda_module(), launcher.dispatcher(launch.kernel)
        stream = cuda.external_stream(self.device.cupy.cuda.get_current_stream().ptr)
        views = [tuple(cuda.as_cuda_array(pair[name], sync=False) for name in "xy") for pair in pairs]
        with quiet():  # it warns of a small grid, once
            dispatcher[grid, block, stream](*views[0], alpha)

        def call_twin() -> None:
            for i in range(COUNT):
                x, y = views[i % 2]
                dispatcher[grid, block, stream](x, y, alpha)

        return call_twin

    def check(self, how: str) -> None:
        """Refuse a way in which a launch is missing, or one too many.

        Raises
        ------
        MismatchError
        """
        self.first.fill(1)
        self.ways[how]()
        found = self.device.cupy.asnumpy(self.first)
        wrong = int(np.count_nonzero(found != 2.0**COUNT))
        if wrong:
            rule = f"it must be 2**{COUNT} after {COUNT} launches"
            raise MismatchError(
                f"{KERNEL}, {how}: {wrong} of {self.n} elements are wrong, the first is {found[0]}, {rule}"
            )


def _row(calls: tuple[Callable[[], None], ...], count: int = COUNT) -> Call:
    """Return so many launches in a row."""
    every = [calls[i % len(calls)] for i in range(count)]

    def call() -> None:
        for each in every:
            each()

    return call


def measure(device: Any, language: Language, n: int = N, rounds: int = ROUNDS) -> Launched:
    """Time launches one by one and as a graph, in turn; each starts on an idle device.

    Raises
    ------
    MismatchError
        If a launch is missing, before or after.
    """
    device.cupy.cuda.get_current_stream().synchronize()
    with device.health.naming(KERNEL), device.capture_stream():
        stopwatch = device.stopwatch()
        chain = Chain(device, language, n)
        for how in chain.ways:
            chain.check(how)
        timings = time_idle(stopwatch, chain.ways, rounds)
        host = {how: launch_seconds(stopwatch, call, 4) / COUNT for how, call in chain.ways.items()}
        for how in chain.ways:
            chain.check(how)
    return Launched(language, n, timings, host)


def time_idle(stopwatch: Stopwatch, works: Mapping[str, Call], rounds: int = ROUNDS) -> dict[str, Timing]:
    """Time works in turn, each from an idle device to its end: what the host takes to queue it is in its time.

    Parameters
    ----------
    stopwatch : Stopwatch
    works : mapping of str to callable
        Each queues the same work.
    rounds : int
        Samples of each.
    """
    samples: dict[str, list[float]] = {name: [] for name in works}
    for i in range(rounds):
        for name in list(works) if i % 2 == 0 else reversed(list(works)):
            stopwatch.wait()
            start = stopwatch.mark()
            works[name]()
            stop = stopwatch.mark()
            stopwatch.wait()
            samples[name].append(stopwatch.seconds(start, stop))
    note = "from an idle device to the end: the host's latency is in its time"
    return {name: Timing("hot", tuple(found), notes=(note,)) for name, found in samples.items()}


def microseconds(seconds: float) -> str:
    """Return seconds as microseconds, or a dash.

    Examples
    --------
    >>> microseconds(1.25e-6), microseconds(math.nan)
    ('1.25', '-')
    """
    return "-" if math.isnan(seconds) else f"{1e6 * seconds:.3g}"
