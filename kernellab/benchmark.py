"""`benchmark`: anybody's callable under the clock that times kernels: cold, behind a gate, interleaved."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

from kernellab import buffers
from kernellab import timing as plans
from kernellab.devices import cuda_arrays
from kernellab.devices import device as find_device
from kernellab.errors import ArgumentError, SpecError, UnavailableError, on_a_gpu
from kernellab.instruments.clock import (
    UNGATED,
    Call,
    Mode,
    Rule,
    Timing,
    launch_seconds,
    time_calls,
    waits_for_device,
)

if TYPE_CHECKING:
    from kernellab.devices.gpu import GpuDevice
    from kernellab.instruments.cuda_clock import CudaStopwatch

PROBE_SECONDS = 0.25
"""How long the gate is held to find out whether a callable waits for the device."""
DEFAULT_RULE = Rule()


@dataclass(frozen=True)
class Benchmark:
    """What the clock gave for one callable.

    Attributes
    ----------
    name : str
        Its key, or the function's name.
    timing : Timing
        Raw samples, in seconds.
    nbytes, flops : int or None
        As the caller gave them.
    copy : Timing or None
        Of a copy that moves `nbytes` in all, in the same run.
    host_seconds : float
        What one call costs the host; not a number for work that waits.
    notes : tuple of str
        How it was timed, and what limits it.

    Examples
    --------
    >>> found = Benchmark("mine", Timing("cold", (2e-3, 1e-3, 3e-3)), nbytes=4_000_000)
    >>> found.seconds, found.bytes_per_second
    (0.002, 2000000000.0)
    """

    name: str
    timing: Timing
    nbytes: int | None = None
    flops: int | None = None
    copy: Timing | None = None
    host_seconds: float = math.nan
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """The median."""
        return self.timing.seconds

    @property
    def mode(self) -> Mode:
        """``"cold"``, ``"hot"`` or ``"graph"``."""
        return self.timing.mode

    @property
    def samples(self) -> tuple[float, ...]:
        """Seconds, in the order taken."""
        return self.timing.samples

    @property
    def bytes_per_second(self) -> float:
        """Not a number where no bytes were given."""
        return math.nan if not self.nbytes or not self.seconds else self.nbytes / self.seconds

    @property
    def flops_per_second(self) -> float:
        """Not a number where no operations were given."""
        return math.nan if not self.flops or not self.seconds else self.flops / self.seconds

    @property
    def fraction_of_copy(self) -> float:
        """Speed over that of a copy of as many bytes; not a number where no bytes were given."""
        return math.nan if self.copy is None or not self.seconds else self.copy.seconds / self.seconds

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, without NaN."""
        from kernellab.record import plain

        rates = ("seconds", "bytes_per_second", "flops_per_second", "fraction_of_copy")
        found: dict[str, Any] = plain({**{name: getattr(self, name) for name in rates}, "raw": self})
        return {**found.pop("raw"), **found}


@overload
def benchmark(
    function: Callable[..., object],
    *arguments: Any,
    nbytes: int | None = ...,
    flops: int | None = ...,
    mode: Mode = ...,
    setup: Callable[..., object] | None = ...,
    rule: Rule = ...,
) -> Benchmark: ...


@overload
def benchmark(
    function: Mapping[str, Callable[..., object]],
    *arguments: Any,
    nbytes: int | None = ...,
    flops: int | None = ...,
    mode: Mode = ...,
    setup: Callable[..., object] | None = ...,
    rule: Rule = ...,
) -> dict[str, Benchmark]: ...


def benchmark(
    function: Callable[..., object] | Mapping[str, Callable[..., object]],
    *arguments: Any,
    nbytes: int | None = None,
    flops: int | None = None,
    mode: Mode = "cold",
    setup: Callable[..., object] | None = None,
    rule: Rule = DEFAULT_RULE,
) -> Benchmark | dict[str, Benchmark]:
    """Time callables that launch work on CuPy's current stream, by the clock that times kernels.

    Parameters
    ----------
    function : callable or mapping of str to callable
        Called with `arguments`; a mapping's are timed interleaved, so that whatever drifts hits all alike.
        What they compute is not looked at: verify it before.
    *arguments : object
        Arrays on the GPU among them are copied, to take sets of them in turn in cold mode. An array that a
        callable keeps by itself stays the same; then the L2 is evicted before each sample.
    nbytes, flops : int, optional
        What one call moves and computes, for rates. With `nbytes` a copy that moves as many is timed beside.
    mode : {"cold", "hot", "graph"}
        As for `measure`.
    setup : callable, optional
        Called with the same arguments before each sample, not timed, such as zeroing an accumulator. The L2
        is evicted after it.
    rule : Rule
        When to stop.

    Returns
    -------
    Benchmark or dict of str to Benchmark
        A callable that waits for the device by itself cannot be held behind the gate: it, and what is
        interleaved with it, is timed without, the host's latency in its time, and its notes say so.

    Raises
    ------
    UnavailableError
        If there is no GPU.
    ArgumentError, SpecError
        For what is not callable, or an unknown mode.
    ExecutionError
        For a cold speed that memory cannot give: `nbytes` over four times the L2, 5 % faster than a copy.

    Examples
    --------
    >>> import cupy  # doctest: +SKIP
    >>> x = cupy.zeros(2**26, "float32")  # doctest: +SKIP
    >>> kl.benchmark(cupy.exp, x, nbytes=2 * x.nbytes).bytes_per_second  # doctest: +SKIP
    1.69e12
    """
    functions = _functions(function)
    plans.check_mode(mode, "benchmark")
    try:
        place: GpuDevice = find_device("gpu")  # type: ignore[assignment]
    except UnavailableError as error:
        raise UnavailableError(on_a_gpu(str(error))) from error
    arrays = tuple(item for item in arguments if cuda_arrays.is_cupy(item))
    with place.use(arrays, "benchmark"), place.health.naming("benchmark"):
        if mode == "graph":
            place.cupy.cuda.get_current_stream().synchronize()
            with place.capture_stream():
                found = _time(place, functions, arguments, nbytes, flops, mode, setup, rule)
        else:
            found = _time(place, functions, arguments, nbytes, flops, mode, setup, rule)
    return found if isinstance(function, Mapping) else next(iter(found.values()))


def _functions(function: Any) -> dict[str, Callable[..., object]]:
    named = dict(function) if isinstance(function, Mapping) else {_name(function): function}
    if not named:
        raise SpecError("benchmark: there is nothing to time, it needs a callable; pass one")
    for name, item in named.items():
        if not callable(item):
            kind = type(item).__name__
            raise ArgumentError(f"benchmark: {name} is a {kind}, it must be callable; pass a function")
        if name == plans.COPY:
            raise SpecError(f"benchmark: {name!r} is the name of the copy timed beside; take another")
    return named


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _time(
    place: GpuDevice, functions: Mapping[str, Callable[..., object]], arguments: tuple[Any, ...],
    nbytes: int | None, flops: int | None, mode: Mode, setup: Callable[..., object] | None, rule: Rule,
) -> dict[str, Benchmark]:  # fmt: skip
    footprint = sum(int(item.nbytes) for item in arguments if cuda_arrays.is_cupy(item))
    count = 1
    if mode == "cold" and setup is None and footprint:
        room = place.memory.available()
        count = buffers.set_count(footprint + (nbytes or 0), place.l2_bytes, room, len(functions))
    sets = _argument_sets(place, arguments, count)
    stopwatch = place.stopwatch()
    works = {
        name: [_bound(item, each) for each in _turned(sets, i, len(functions))]
        for i, (name, item) in enumerate(functions.items())
    }
    before = {}
    if setup is not None:
        before = {name: [_bound(setup, each) for each in sets] for name in works}
    waiting = _waiting(stopwatch, works, before)
    repeats = 1
    host: dict[str, float] = {}
    if mode == "graph":
        if waiting:
            raise SpecError(
                f"benchmark: {waiting[0]} waits for the device, no graph can hold it; take mode='hot'"
            )
        repeats = 1 if before else plans.REPLAYS
        works = {name: [buffers.graph_of(place.cupy, calls[0], repeats)] for name, calls in works.items()}
    elif not waiting:
        host = {name: launch_seconds(stopwatch, calls[0]) for name, calls in works.items()}
    copies = buffers.copy_calls(place, nbytes, count) if nbytes and mode != "graph" else []
    options: dict[str, Any] = {
        "mode": mode,
        "rule": rule,
        "needs_eviction": count == 1,
        "is_gated": not waiting,
    }
    beside = {plans.COPY: copies} if copies and mode == "cold" else {}
    timings = time_calls(stopwatch, {**works, **beside}, **options, before=before, repeats=repeats)
    if copies and mode == "hot":
        timings |= time_calls(stopwatch, {plans.COPY: copies}, **options)
    copy = timings.pop(plans.COPY, None)
    how = _how(mode, count, footprint, place.l2_bytes, repeats)
    found = {}
    for name, timed in timings.items():
        if copy is not None and nbytes and not waiting:
            plans.check_ceiling(f"benchmark: {name}", timed, copy, nbytes, place.l2_bytes)
        notes = (how, *(f"{name}: {UNGATED}" if note == UNGATED else note for note in timed.notes))
        notes += tuple(f"waits for the device: {each}" for each in waiting)
        seconds = host.get(name, math.nan)
        found[name] = Benchmark(name, replace(timed, notes=notes), nbytes, flops, copy, seconds, notes)
    return found


def _argument_sets(place: GpuDevice, arguments: tuple[Any, ...], count: int) -> list[tuple[Any, ...]]:
    """Return the arguments, and so many copies of them less one."""
    sets = [arguments]
    for _ in range(count - 1):
        sets.append(
            tuple(place.allocate(item.copy) if cuda_arrays.is_cupy(item) else item for item in arguments)
        )
    return sets


def _turned(sets: Sequence[tuple[Any, ...]], place: int, works: int) -> list[tuple[Any, ...]]:
    """Return the sets in an order in which works that share them stand far from each other."""
    start = place * len(sets) // works
    return [*sets[start:], *sets[:start]]


def _bound(function: Callable[..., object], arguments: tuple[Any, ...]) -> Call:
    return lambda: function(*arguments)


def _waiting(
    stopwatch: CudaStopwatch, works: Mapping[str, Sequence[Call]], before: Mapping[str, Sequence[Call]]
) -> list[str]:
    """Return the names of those that wait for the device; each has run once before, and once more."""
    held = stopwatch.gate_seconds
    stopwatch.gate_seconds = PROBE_SECONDS
    found = []
    try:
        for name, calls in works.items():
            for _ in range(2):  # the first run compiles, loads and fills pools, which waits
                for setup in before.get(name, ())[:1]:
                    setup()
                calls[0]()
            for setup in before.get(name, ())[:1]:
                setup()
            if waits_for_device(stopwatch, calls[0]):
                found.append(name)
    finally:
        stopwatch.gate_seconds = held
    return found


def _how(mode: Mode, count: int, footprint: int, l2_bytes: int, repeats: int) -> str:
    if mode == "hot":
        return "hot: the same arrays over and over"
    if mode == "graph":
        return f"graph: {repeats} calls one after the other in a CUDA graph"
    if count == 1:
        return f"cold: the L2 ({l2_bytes} bytes) was evicted by reads before each sample"
    return f"cold: {count} sets of arguments of {footprint} bytes in turn; the L2 has {l2_bytes}"
