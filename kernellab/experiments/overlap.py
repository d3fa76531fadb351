"""Overlap on a GPU: a chunked pipeline in several ways beside its stages alone, all in one run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernellab.catalog import kernel as find_kernel
from kernellab.devices.gpu_pipeline import Pass, Pipeline, Way, page_locked
from kernellab.errors import MismatchError
from kernellab.experiments.ways import Measured, in_turn
from kernellab.kernel import Language
from kernellab.pipeline import Work, cut
from kernellab.plan import bind
from kernellab.problem import Array
from kernellab.timeline import STAGES
from kernellab.verify import verify

KERNEL = "uneven_work/unsorted"
"""Whose steps a lane can be set, so that computing takes as long as is wanted."""
N, CHUNKS, ROUNDS = 2**26, 32, 7
STREAMS = 3
"""As many as there are stages: fewer leave one idle."""
BALANCE = 1.25
"""How long computing takes, over the longer copy: it is then the stage that decides."""
SAMPLED = 997
"""Every so many elements are judged by NumPy; all of them are compared with those of the first way."""


@dataclass(frozen=True)
class Variant:
    """One way to run the pipeline.

    Attributes
    ----------
    label : str
        What is different.
    way : Way
    is_pinned : bool
        Whether the host's arrays are page-locked.
    reason : str
        Why it overlaps no more than it does.
    """

    label: str
    way: Way
    is_pinned: bool = True
    reason: str = ""


ONE = Variant("1 stream", Way(1), reason="one stream keeps its work in order")
PAGEABLE = Variant(
    "pageable memory",
    Way(STREAMS, is_staged=False),
    is_pinned=False,
    reason="a copy from it holds the host until the driver has read it, one to it until all is written",
)
DEFAULT = Variant(
    "kernels on the default stream",
    Way(STREAMS, is_on_default=True),
    reason="it waits for every stream and every stream for it, so copies overlap with each other only",
)
SYNCHRONISED = Variant(
    "a wait for each chunk",
    Way(STREAMS, waits=True),
    reason="the next chunk is not queued before this one is done",
)
STAGED = Variant(
    "pageable, through page-locked buffers",
    Way(STREAMS),
    is_pinned=False,
    reason="the host copies each chunk once more, and may be slower than the bus",
)
BROKEN = (PAGEABLE, DEFAULT, SYNCHRONISED)
GOOD = (ONE, *(Variant(f"{count} streams", Way(count)) for count in (2, 3, 4, 6, 8)))
ALL = (*GOOD, *BROKEN, STAGED)


def best_of(found: Mapping[str, Measured]) -> Measured:
    """Return the fastest way that nothing breaks."""
    return min((found[each.label] for each in GOOD), key=lambda one: one.overlap.seconds)


class Stand:
    """Host arrays of one kernel, page-locked and pageable, and pipelines over them.

    Parameters
    ----------
    device : GpuDevice
    language : {"cuda-c", "numba"}
    n, chunks : int
        Elements, and how many parts they go in.
    """

    def __init__(self, device: Any, language: Language, n: int = N, chunks: int = CHUNKS) -> None:
        self.device, self.language, self.n, self.chunks = device, language, n, chunks
        self.kernel = find_kernel(KERNEL)
        x = np.random.default_rng(0).standard_normal(n, dtype=np.float32)
        self.pageable: dict[str, Array] = {"x": x, "trips": np.zeros(n, np.int32), "y": np.zeros_like(x)}
        self.pinned = {name: page_locked(device.cupy, array) for name, array in self.pageable.items()}
        for name, array in self.pinned.items():
            array[...] = self.pageable[name]
        self.set_steps(1)

    def set_steps(self, steps: int) -> None:
        """Let each element take so many steps."""
        for arrays in (self.pageable, self.pinned):
            arrays["trips"][...] = steps

    def balance(self, factor: float = BALANCE, steps: int = 256) -> int:
        """Let computing take so many times as long as the longer copy; return the steps that takes."""
        for _ in range(3):  # a launch costs more than its steps, which are all that is proportional to them
            self.set_steps(steps)
            alone = self.stages_alone(3)
            longest = max(alone[stage] for stage in STAGES if stage != "compute")
            steps = max(1, round(steps * factor * longest / alone["compute"]))
        self.set_steps(steps)
        return steps

    def stages_alone(self, rounds: int) -> dict[str, float]:
        """Return the median seconds of each stage over all chunks, nothing else running."""
        pipeline = self.pipeline(Variant("", Way(STREAMS)))
        pipeline.run()  # loads and compiles; fills the buffers
        return {
            stage: float(np.median([pipeline.run((stage,)).seconds for _ in range(rounds)]))
            for stage in STAGES
        }

    def work(self, arrays: Mapping[str, Array]) -> Work:
        """Return the work on these arrays."""
        limits = self.device.limits
        plan = bind(self.kernel, {"x": arrays["x"], "trips": arrays["trips"]}, limits=limits)
        return cut(plan, self.chunks, limits)

    def pipeline(self, variant: Variant) -> Pipeline:
        """Return the pipeline that runs so."""
        arrays = self.pinned if variant.is_pinned else self.pageable
        return Pipeline(self.device, self.language, self.work(arrays), {"y": arrays["y"]}, variant.way)

    def measure(self, variants: Sequence[Variant] = ALL, rounds: int = ROUNDS) -> dict[str, Measured]:
        """Run stages alone and every way in turn, round after round; verify what each wrote, and only then time.

        Raises
        ------
        MismatchError
            If a way gives a wrong answer, before or after.
        """
        alone = self.pipeline(Variant("", Way(STREAMS)))
        pipelines = {variant.label: self.pipeline(variant) for variant in variants}
        expected = self._verified(alone)
        self._check(pipelines, expected)
        works: dict[str, Callable[[], Pass]] = {
            **{stage: lambda stage=stage: alone.run((stage,)) for stage in STAGES},  # type: ignore[misc]
            **{label: pipeline.run for label, pipeline in pipelines.items()},
        }
        turns = in_turn(works, rounds)
        self._check(pipelines, expected)
        stages = {stage: turns.median(stage) for stage in STAGES}
        return {variant.label: turns.measured(Measured, variant, stages) for variant in variants}

    def _verified(self, pipeline: Pipeline) -> Array:
        """Return an answer of which a sample was found right by NumPy."""
        answer = pipeline.answers["y"]
        answer.fill(np.nan)
        pipeline.run()
        inputs = {name: np.ascontiguousarray(self.pinned[name][::SAMPLED]) for name in ("x", "trips")}
        verify(bind(self.kernel, inputs), {"y": np.ascontiguousarray(answer[::SAMPLED])}).require()
        return answer.copy()

    def _check(self, pipelines: Mapping[str, Pipeline], expected: Array) -> None:
        for label, pipeline in pipelines.items():
            pipeline.answers["y"].fill(np.nan)
            pipeline.run()
            wrong = int(np.count_nonzero(pipeline.answers["y"] != expected))
            if wrong:
                rule = f"{wrong} of {expected.size} elements differ from those of {STREAMS} streams"
                raise MismatchError(f"pipeline, {label}: {rule}; a wrong pipeline has no speed")
