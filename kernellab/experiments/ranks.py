"""Ranks: iterations on two GPUs, with the all-reduce at the end, beside the products, and broken, all in one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernellab.catalog.all_reduce import SHAPE
from kernellab.devices.gpu_ranks import longest, together
from kernellab.errors import MismatchError
from kernellab.experiments import ways
from kernellab.experiments.iteration import Iteration
from kernellab.experiments.layers import Layers, Shape, Way
from kernellab.kernel import Language

LAYERS, SIDE, TOKENS, ROUNDS = 8, 4096, 4096, 9
LITTLE = 512
"""Tokens with which there is little to compute."""
PIECES = 64
"""Buckets of a layer, where they are too small."""
BESIDE: tuple[Shape, ...] = (
    SHAPE,
    {"THREADS": 512, "VECTORS": 8, "BLOCKS": 4},
    {**SHAPE, "VECTORS": 2},
    {**SHAPE, "BLOCKS": 8},
)
ALONE: tuple[Shape, ...] = tuple({**SHAPE, "BLOCKS": blocks} for blocks in (32, 64, 16, 128))
"""Shapes of the all-reduce, of which the fastest is taken: beside products, and with nothing beside it."""
COMPUTE, REDUCE = "compute", "all-reduce"


@dataclass(frozen=True)
class Variant:
    """A way, what it is called, and why it is no faster."""

    label: str
    way: Way
    reason: str = ""


END = Variant("all at the end", Way(is_at_end=True, has_stream=False), "nothing is left to compute")
EACH = Variant("each layer at once", Way())
END_COPIES = Variant(f"{END.label}, by copies", Way("copies", is_at_end=True, has_stream=False), END.reason)
EACH_COPIES = Variant(f"{EACH.label}, by copies", Way("copies"))
SAME = Variant("each layer on the same stream", Way(has_stream=False), "one stream keeps its work in order")
WAITS = Variant(
    "the host waits for each layer",
    Way(waits=True),
    "the next layer is not queued before this one is added up",
)
SMALL = Variant(
    f"{PIECES} buckets a layer", Way(pieces=PIECES), "launching them takes longer than moving what is in them"
)
GREEDY = Variant(
    "products on every multiprocessor",
    Way(leaves=False),
    "blocks of a product that find their multiprocessor taken begin when others end",
)
ENDS, EACHS, BROKEN = (END, END_COPIES), (EACH, EACH_COPIES), (SAME, WAITS, SMALL, GREEDY)
ALL = (*ENDS, *EACHS, *BROKEN)


class Measured(ways.Measured):
    """What a way took: of the rank that took longer; spans are each rank's by its own clock."""

    digits = ".3g"


Found = Mapping[str, Measured]
"""By the variant's label."""


def best_of(found: Found, variants: Sequence[Variant]) -> Measured:
    """Return the fastest of some ways."""
    return min((found[each.label] for each in variants), key=lambda one: one.seconds)


def shorter(found: Found) -> float:
    """Return the share of an iteration that overlapping saves, the fastest way compared with the fastest without."""
    return 1 - best_of(found, EACHS).seconds / best_of(found, ENDS).seconds


def hidden(found: Found) -> float:
    """Return the share of the all-reduce by itself that overlapping saves."""
    end = best_of(found, ENDS)
    return (end.seconds - best_of(found, EACHS).seconds) / end.overlap.alone[REDUCE]


class Stand:
    """Layers on two ranks, and shapes of the all-reduce; parameters as of `Layers`."""

    def __init__(
        self, device: Any, language: Language, tokens: int = TOKENS, layers: int = LAYERS, side: int = SIDE
    ) -> None:
        self.layers = Layers(device, language, layers, side, tokens)
        self.shapes: dict[str, Shape] = {"beside": BESIDE[0], "alone": ALONE[0]}
        with device.health.naming("all-reduce"):
            self._products_alone().run()
            self.layers.expect()

    def iteration(self, way: Way, *, computes: bool = True) -> Iteration:
        """Return an iteration that can be run."""
        return Iteration(self.layers, way, self.shapes, computes=computes)

    def _products_alone(self) -> Iteration:
        return Iteration(self.layers, END.way, {})

    def choose(self, rounds: int = 3) -> None:
        """Take the shapes with which iterations in CUDA C are shortest."""
        language, self.layers.language = self.layers.language, "cuda-c"
        for name, shapes, variant in (("alone", ALONE, END), ("beside", BESIDE, EACH)):
            taken = []
            for shape in shapes:
                self.shapes[name] = shape
                iteration = self.iteration(variant.way)
                iteration.run()
                taken.append(float(np.median([iteration.run().seconds for _ in range(rounds)])))
            self.shapes[name] = shapes[int(np.argmin(taken))]
        self.layers.language = language

    def measure(self, variants: Sequence[Variant] = ALL, rounds: int = ROUNDS) -> dict[str, Measured]:
        """Run the stages alone and every way in turn, round after round; verify each way before and after.

        Raises
        ------
        MismatchError
            If a way leaves anything but the sums of both ranks' gradients on a rank.
        """
        iterations = {each.label: self.iteration(each.way) for each in variants}
        alone = {each.way.mover: self.iteration(each.way, computes=False) for each in ENDS}
        works = {COMPUTE: self._products_alone(), **alone, **iterations}
        self._check(iterations)
        turns = ways.in_turn({name: each.run for name, each in works.items()}, rounds)
        self._check(iterations)

        def measured(variant: Variant) -> Measured:
            stages = {COMPUTE: turns.median(COMPUTE), REDUCE: turns.median(variant.way.mover)}
            return turns.measured(Measured, variant, stages)

        return {each.label: measured(each) for each in variants}

    def _check(self, iterations: Mapping[str, Iteration]) -> None:
        for label, iteration in iterations.items():
            self.layers.poison()
            iteration.run()
            for rank in (0, 1):
                wrong = self.layers.wrong(rank, iteration.way.mover)
                if wrong:
                    rule = f"{wrong} gradients of rank {rank} are not the sums of both ranks'"
                    raise MismatchError(f"all-reduce, {label}: {rule}; a wrong iteration has no speed")

    def link(self, rounds: int = 5) -> tuple[float, float]:
        """Return the bytes a second of copies between the ranks, each way: one way alone, and both at once."""
        ours, theirs = self.layers.arrays
        places = ((ours["arrived"], theirs["gradients"]), (theirs["arrived"], ours["gradients"]))

        def rate(count: int) -> float:
            ranks = self.layers.ranks[:count]
            starts = together(self.layers.ranks)[:count]
            for rank, (target, source) in zip(ranks, places, strict=False):
                with rank.on():
                    rank.fetch(target, source, rank.compute)
            stops = [rank.mark(rank.compute) for rank in ranks]
            return float(ours["arrived"].nbytes) / longest(ranks, starts, stops)

        one_way, both_ways = (float(np.median([rate(count) for _ in range(rounds)])) for count in (1, 2))
        return one_way, both_ways
