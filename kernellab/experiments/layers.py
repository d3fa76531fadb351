"""Layers: a stack of them on two ranks: arrays, products of the backward pass, and what adds up gradients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np

from kernellab import catalog
from kernellab.catalog.all_reduce import middle
from kernellab.checks import Limits
from kernellab.devices.gpu_ranks import Ranks, pair
from kernellab.kernel import Kernel, Language
from kernellab.plan import bind
from kernellab.problem import Array, dtype_named
from kernellab.verify import verify

KERNEL, ADD = "all_reduce/vectorised", "axpy/unrolled"
ELEMENT = "float16"
SAMPLED = 8
"""Rows of products that NumPy judges."""
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
    """

    def __init__(self, device: Any, language: Language, layers: int, side: int, tokens: int) -> None:
        self.device, self.language = device, language
        self.layers, self.side, self.tokens = layers, side, tokens
        with device.health.naming("all-reduce"):
            self.ranks: Ranks = pair(device)
            self._make()

    def _make(self) -> None:
        """Choose products and make the arrays."""
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
        with self.device.health.naming("all-reduce"), self.ranks[rank].on(stream):
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
    def expect(self) -> None:
        """Work out the sums by other means: CuPy adds in float32 what each rank found alone, which is there.

        Raises
        ------
        MismatchError
            If a product is wrong.
        """
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

    def poison(self) -> None:
        """Overwrite all that an iteration works out."""
        for rank, arrays in zip(self.ranks, self.arrays, strict=True):
            with rank.on():
                for name in ("gradients", "reduced", "arrived"):
                    arrays[name].fill(np.nan)
                rank.compute.synchronize()

    def wrong(self, rank: int, mover: Mover) -> int:
        """Return how many gradients of a rank have other bits than the sums of both."""
        name = "gradients" if mover == "kernel" else "reduced"
        with self.ranks[rank].on():
            found, wanted = (self.arrays[rank][each].view(np.uint16) for each in (name, "expected"))
            return int(self.device.cupy.count_nonzero(found != wanted))
