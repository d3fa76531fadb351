"""Iteration: a backward pass on two ranks and the all-reduce of its gradients, queued in one of several ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernellab.devices.gpu_pipeline import Pass
from kernellab.devices.gpu_ranks import Rank, longest, together
from kernellab.experiments.layers import Call, Layers, Shape, Way
from kernellab.pipeline import parts
from kernellab.timeline import Span

WHOLE = -1
"""In place of a layer: all of them."""


class Iteration:
    """A backward pass and its all-reduce, with everything that is queued made ready once.

    Parameters
    ----------
    layers : Layers
    way : Way
    shapes : mapping of str to mapping
        Of the all-reduce: ``"beside"`` products, and ``"alone"``. Without any there is none.
    computes : bool
        Whether there are products.
    """

    def __init__(
        self, layers: Layers, way: Way, shapes: Mapping[str, Shape], *, computes: bool = True
    ) -> None:
        self.health, self.way, self.ranks = layers.device.health, way, layers.ranks
        self.streams = [each.communicate if way.has_stream else each.compute for each in self.ranks]
        reserved = shapes["beside"]["BLOCKS"] if shapes and way.is_beside and way.leaves else 0
        self.products = [layers.products(rank, reserved) if computes else [] for rank in (0, 1)]
        self.order = tuple(reversed(range(layers.layers))) if computes else ()
        self.moves: dict[int, list[tuple[Call, ...]]] = {}
        size = layers.side**2
        buckets = (
            {WHOLE: (slice(0, size * layers.layers),)}
            if way.is_at_end
            else {
                layer: tuple(
                    slice(layer * size + each.start, layer * size + each.stop)
                    for each in parts(size, way.pieces)
                )
                for layer in range(layers.layers)
            }
        )
        for layer, some in buckets.items() if shapes else ():
            # Nothing is computed beside the first layer's bucket, which comes last.
            shape = shapes["beside" if way.is_beside and layer else "alone"]
            self.moves[layer] = [
                tuple(
                    call for part in some for call in layers.moves(way, part, shape, rank, self.streams[rank])
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
            for layer in self.order:
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
