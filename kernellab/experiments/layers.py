"""Layers: the backward pass of a stack of layers on two ranks, and the all-reduce of its gradients in several ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np

from kernellab import catalog
from kernellab.catalog.all_reduce import middle
from kernellab.checks import Limits
from kernellab.devices.gpu_pipeline import Pass
from kernellab.devices.gpu_ranks import Rank, Ranks, longest, pair, together
from kernellab.kernel import Kernel, Language
from kernellab.pipeline import parts
from kernellab.plan import bind
from kernellab.problem import Array, dtype_named
from kernellab.timeline import Span
from kernellab.verify import verify

KERNEL, ADD = "all_reduce/vectorised", "axpy/unrolled"
ELEMENT = "float16"
SAMPLED = 8
"""Rows of products that NumPy judges."""
WHOLE = -1
"""In place of a layer: all of them."""
Mover: TypeAlias = Literal["kernel", "copies"]
Call: TypeAlias = Callable[[], object]
Shape: TypeAlias = Mapping[str, int]


@dataclass(frozen=True)
class Way:
    """How gradients are added up.

    Attributes
    ----------
    mover : {"kernel", "copies"}
        Whether the multiprocessors move what crosses the link; or the copy engines, and a kernel only adds.
    is_at_end : bool
        Whether all is one bucket, after the last product; else each layer is one as soon as it is there.
    has_stream : bool
        Whether that is queued on a stream of its own.
    waits : bool
        Whether the host waits for each bucket.
    pieces : int
        Buckets that a layer is cut into.
    leaves : bool
        Whether products leave as many multiprocessors free as the all-reduce has blocks.
    """

    mover: Mover = "kernel"
    is_at_end: bool = False
    has_stream: bool = True
    waits: bool = False
    pieces: int = 1
    leaves: bool = True

    @property
    def is_beside(self) -> bool:
        """Whether anything is computed beside it."""
        return self.has_stream and not self.is_at_end


class Layers:
    """Weights (the same on both ranks), activations, and what becomes of them.

    A layer computes ``y = x @ w``. Its activations lie transposed, as the forward pass can leave them, so that
    ``dw = x.T @ dy`` and ``dx = dy @ w.T`` are products that the catalogue has.

    Parameters
    ----------
    device : GpuDevice
    language : {"cuda-c", "numba"}
        Of what adds up; products are in CUDA C, as Numba has no tensor cores.
    layers, side, tokens : int
        Weights are side x side, and a rank has so many tokens.

    Raises
    ------
    UnavailableError
        If no two GPUs reach each other's memory.
    MismatchError
        If a product is wrong.
    """

    def __init__(self, device: Any, language: Language, layers: int, side: int, tokens: int) -> None:
        self.device, self.language = device, language
        self.layers, self.side, self.tokens = layers, side, tokens
        with device.health.naming("all-reduce"):
            self.ranks: Ranks = pair(device)
            self._make()

    def _make(self) -> None:
        """Choose products, make the arrays and the sums that are expected."""
        side, tokens = self.side, self.tokens
        rung = "wgmma" if self.device.arch == "sm_90" else "mma"
        self.product, self.turned = (catalog.kernel(f"{name}/{rung}") for name in ("matmul", "matmul_nt"))
        self.shapes = dict.fromkeys(("weights", "gradients", "reduced", "arrived", "expected"), (side, side))
        self.shapes |= {"activations": (side, tokens), "deltas": (tokens, side)}
        self.dtype = dtype_named(ELEMENT)
        self.arrays: list[dict[str, Any]] = [
            {name: rank.empty((self.layers * i * j,), self.dtype) for name, (i, j) in self.shapes.items()}
            for rank in self.ranks
        ]
        self._fill()
        self._expect()

    def matrix(self, rank: int, name: str, layer: int) -> Any:
        """Return a layer's weights, gradients, activations (features x tokens) or deltas (tokens x features)."""
        rows, columns = self.shapes[name]
        size = rows * columns
        return self.arrays[rank][name][layer * size : (layer + 1) * size].reshape(rows, columns)

    def _fill(self) -> None:
        """Write random numbers: windows of one array of noise, each somewhere else."""
        most = self.side * max(self.side, self.tokens)
        windows = 3 * self.layers + 2
        noise = np.random.default_rng(0).standard_normal(most + 64 * windows, dtype=np.float32)
        noise, small = (each.astype(self.dtype) for each in (noise, noise * np.float32(self.side**-0.5)))
        taken = iter(range(0, 64 * windows, 64))
        weights = [next(taken) for _ in range(self.layers)]

        def write(rank: int, name: str, layer: int, values: Array) -> None:
            target = self.matrix(rank, name, layer)
            target.set(values[: target.size].reshape(target.shape))

        for r, rank in enumerate(self.ranks):
            with rank.on():
                for layer, start in enumerate(weights):
                    write(r, "weights", layer, small[start:])  # so that what is passed on keeps its size
                    write(r, "activations", layer, noise[next(taken) :])
                write(r, "deltas", self.layers - 1, noise[next(taken) :])
                rank.compute.synchronize()

    # -- what is queued
    def products(self, rank: int, reserved: int) -> list[tuple[Call, ...]]:
        """Return for each layer the product that gives its gradients, and that which gives the next layer's deltas.

        The first layer passes nothing on. `reserved` multiprocessors are left free.
        """
        of = partial(self.matrix, rank)
        found: list[tuple[Call, ...]] = []
        with self.ranks[rank].on():
            limits: Limits = self.device.limits
            limits = replace(limits, multiprocessors=max(1, limits.multiprocessors - reserved))
            for layer in range(self.layers):
                delta = of("deltas", layer)
                arrays = {"a": of("activations", layer), "b": delta, "y": of("gradients", layer)}
                calls = self._calls(self.product, "cuda-c", limits, arrays)
                if layer:
                    arrays = {"a": delta, "b": of("weights", layer), "y": of("deltas", layer - 1)}
                    calls += self._calls(self.turned, "cuda-c", limits, arrays)
                found.append(calls)
        return found

    def _calls(
        self, kernel: Kernel, language: Language, limits: Limits, arrays: Mapping[str, Any], **parameters: Any
    ) -> tuple[Call, ...]:
        inputs = {item.name: arrays[item.name] for item in kernel.inputs}
        plan = bind(kernel, inputs, limits=limits, **parameters)
        program = self.device.build(plan.kernel, language, with_ladder=False)
        found: tuple[Call, ...] = self.device.calls(program, plan, arrays)
        return found

    def moves(self, way: Way, part: slice, shape: Shape, rank: int, stream: Any) -> tuple[Call, ...]:
        """Return what a rank does to add up a part of the gradients, in the way's own manner."""
        with self.ranks[rank].on(stream):
            if way.mover == "copies":
                return self._copies(part, rank, stream)
            kernel = catalog.kernel(KERNEL).with_constants(**shape)
            both = {name: each["gradients"][part] for name, each in zip("xy", self.arrays, strict=True)}
            return self._calls(kernel, self.language, self.device.limits, both, rank=rank)

    def _copies(self, part: slice, rank: int, stream: Any) -> tuple[Call, ...]:
        """Fetch the other's half that is ours, add, and send the sums."""
        own, ours, theirs = self.ranks[rank], self.arrays[rank], self.arrays[1 - rank]
        between = part.start + middle(part.stop - part.start, 16 // self.dtype.itemsize)
        half = slice(between, part.stop) if rank else slice(part.start, between)
        arrays = {"x": ours["arrived"][half], "y": ours["gradients"][half], "z": ours["reduced"][half]}
        add = self._calls(catalog.kernel(ADD), self.language, self.device.limits, arrays, alpha=1.0)
        fetch = partial(own.fetch, arrays["x"], theirs["gradients"][half], stream)
        return fetch, *add, partial(own.send, theirs["reduced"][half], arrays["z"], stream)

    # -- what is right
    def _expect(self) -> None:
        """Work out the sums by other means: CuPy adds in float32 what each rank finds alone."""
        Iteration(self, Way(is_at_end=True), {}).run()
        for rank in (0, 1):
            self._judge(rank)
        first = self.ranks[0]
        ours, theirs = self.arrays
        with first.on():
            first.fetch(ours["arrived"], theirs["gradients"], first.compute)
            first.compute.synchronize()
            for layer in range(self.layers):
                one, other = (
                    self.matrix(0, name, layer).astype(np.float32) for name in ("gradients", "arrived")
                )
                self.matrix(0, "expected", layer)[...] = (one + other).astype(self.dtype)
            first.send(theirs["expected"], ours["expected"], first.compute)
            first.compute.synchronize()

    def _judge(self, rank: int) -> None:
        """Compare some rows of the last layer's products with NumPy's."""
        last = self.layers - 1

        def host(name: str, layer: int, rows: int | None = None) -> Array:
            with self.ranks[rank].on():
                found: Array = self.matrix(rank, name, layer)[:rows].get()
            return found

        delta = host("deltas", last)
        plan = bind(catalog.kernel("matmul/wmma"), {"a": host("activations", last, SAMPLED), "b": delta})
        verify(plan, {"y": host("gradients", last, SAMPLED)}).require()
        if last:
            given = {"a": delta[:SAMPLED], "b": host("weights", last)}
            answer = {"y": host("deltas", last - 1, SAMPLED)}
            verify(bind(catalog.kernel("matmul_nt/wmma"), given), answer).require()

    def wrong(self, iteration: Iteration) -> tuple[int, int]:
        """Run an iteration over gradients of NaN; return how many of each rank are not the sums of both."""
        for rank, arrays in zip(self.ranks, self.arrays, strict=True):
            with rank.on():
                for name in ("gradients", "reduced", "arrived"):
                    arrays[name].fill(np.nan)
                rank.compute.synchronize()
        iteration.run()
        name = "gradients" if iteration.way.mover == "kernel" else "reduced"
        first, second = (self._differing(rank, name) for rank in (0, 1))
        return first, second

    def _differing(self, rank: int, name: str) -> int:
        with self.ranks[rank].on():
            found, wanted = (self.arrays[rank][each].view(np.uint16) for each in (name, "expected"))
            return int(self.device.cupy.count_nonzero(found != wanted))


class Iteration:
    """A backward pass and its all-reduce, with everything that is queued made ready once.

    Parameters
    ----------
    stand : Layers
    way : Way
    shapes : mapping of str to mapping
        Of the all-reduce: ``"beside"`` products, and ``"alone"``. Without any there is none.
    computes : bool
        Whether there are products.
    """

    def __init__(
        self, stand: Layers, way: Way, shapes: Mapping[str, Shape], *, computes: bool = True
    ) -> None:
        self.health, self.way, self.ranks = stand.device.health, way, stand.ranks
        self.streams = [each.communicate if way.has_stream else each.compute for each in self.ranks]
        reserved = shapes["beside"]["BLOCKS"] if shapes and way.is_beside and way.leaves else 0
        self.products = [stand.products(rank, reserved) if computes else [] for rank in (0, 1)]
        self.layers = tuple(reversed(range(stand.layers))) if computes else ()
        self.moves: dict[int, list[tuple[Call, ...]]] = {}
        size = stand.side**2
        buckets = (
            {WHOLE: (slice(0, size * stand.layers),)}
            if way.is_at_end
            else {
                layer: tuple(
                    slice(layer * size + each.start, layer * size + each.stop)
                    for each in parts(size, way.pieces)
                )
                for layer in range(stand.layers)
            }
        )
        for layer, some in buckets.items() if shapes else ():
            # Nothing is computed beside the first layer's bucket, which comes last.
            shape = shapes["beside" if way.is_beside and layer else "alone"]
            self.moves[layer] = [
                tuple(
                    call for part in some for call in stand.moves(way, part, shape, rank, self.streams[rank])
                )
                for rank in (0, 1)
            ]

    def run(self) -> Pass:
        """Queue all, wait for both ranks; return the time of the one that took longer, and when what ran on each.

        Raises
        ------
        ExecutionError
            If CUDA reports an error.
        """
        with self.health.naming("all-reduce"):
            starts = together(self.ranks)
            self._ready, self._done = list(starts), list[Any]()
            self._marks: list[tuple[str, int, int, int, Any, Any]] = []
            for layer in self.layers:
                self._compute(layer, 0)
                self._communicate(layer)
                self._compute(layer, 1)
            self._communicate(WHOLE)
            for rank in self.ranks:
                for event in self._done:  # a rank has its gradients when both have written theirs
                    rank.compute.wait_event(event)
            stops = [rank.mark(rank.compute) for rank in self.ranks]
            seconds = longest(self.ranks, starts, stops)
            return Pass(seconds, tuple(self._span(starts, *each) for each in self._marks))

    def _span(self, starts: Sequence[Any], what: str, r: int, stream: int, layer: int, *events: Any) -> Span:
        start, stop = (round(self.ranks[r].seconds(starts[r], event), 9) for event in events)
        return Span(f"rank {r} {what}", layer, stream, start, stop)

    def _compute(self, layer: int, which: int) -> None:
        """Queue one of a layer's products on both ranks; the first one gives the gradients."""
        for r, rank in enumerate(self.ranks):
            for call in self.products[r][layer][which : which + 1]:
                came = rank.mark(rank.compute)
                with rank.on():
                    call()
                done = rank.mark(rank.compute)
                self._marks.append(("computes", r, 0, layer, came, done))
                if which == 0:
                    self._ready[r] = done

    def _communicate(self, layer: int) -> None:
        """Queue the all-reduce of a layer, or of all, once both ranks have it."""
        if layer not in self.moves:
            return
        self._done = [self._add_up(r, rank, layer) for r, rank in enumerate(self.ranks)]
        for event in self._done if self.way.waits else ():
            event.synchronize()

    def _add_up(self, r: int, rank: Rank, layer: int) -> Any:
        stream = self.streams[r]
        for event in self._ready:
            stream.wait_event(event)
        came = rank.mark(stream)
        with rank.on(stream):
            for call in self.moves[layer][r]:
                call()
        done = rank.mark(stream)
        self._marks.append(("adds up", r, 1, max(layer, 0), came, done))
        return done
