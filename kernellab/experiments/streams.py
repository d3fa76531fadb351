"""Streams: a chunked pipeline of copies and a kernel, how much of it overlaps, and what breaks that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from kernellab.catalog import kernel
from kernellab.experiments import overlap
from kernellab.experiments.common import WRITE_UP, all_right, needs_gpu, number, verdict
from kernellab.experiments.experiment import (
    Claim,
    Column,
    Expectation,
    Experiment,
    Found,
    Observed,
    Point,
    Rows,
    Sweep,
)
from kernellab.experiments.picture import Picture, Timeline
from kernellab.experiments.ways import IN_ORDER, POINTS, WORK, bars, broken, timeline
from kernellab.kernel import Language
from kernellab.pipeline import parts, pipeline
from kernellab.problem import Array, Case
from kernellab.timeline import STAGES, scheduled

if TYPE_CHECKING:
    from kernellab.experiments.clocked import GpuClock
    from kernellab.experiments.ways import Measured

KERNEL = kernel("uneven_work/unsorted")
SMALL = Case("2 Ki elements", {"n": 2**11})
CHUNKS = 4
BAR = 0.90
"""Of the ideal, from which copies count as hidden."""
PROGRAMMING_GUIDE = "CUDA C++ Programming Guide"
WHOLE, CHUNK = "whole", "chunk {} of {}"
LABELS = tuple(CHUNK.format(i + 1, CHUNKS) for i in range(CHUNKS))
ADDED = ("warp_instructions", "global_load_sectors", "global_store_sectors")
"""What the chunks together do neither more nor less of than the whole."""
TRIED = ((1, 1), (3, 2), (7, 3), (16, 8))
"""Chunks and streams of the pipelines whose answers are compared."""
DRAWN = 8
"""Chunks of the schedules that are drawn."""


def part_of(part: slice) -> Callable[[], Mapping[str, Array]]:
    """Return what gives the inputs of a chunk."""
    return lambda: {name: array[part] for name, array in KERNEL.problem.inputs(SMALL).items()}


SWEEP = Sweep(
    f"The kernel over all elements, and over each of {CHUNKS} chunks",
    (
        Point(WHOLE, KERNEL, SMALL),
        *(
            Point(label, KERNEL, SMALL, part_of(part))
            for label, part in zip(LABELS, parts(SMALL.sizes["n"], CHUNKS), strict=True)
        ),
    ),
    tuple(Column(name.replace("_", "\n", 1), name) for name in ADDED),
)


def chunks_add_up(rows: Rows) -> Found:
    """The chunks together do what the whole does."""
    for name in ADDED:
        whole, together = rows.value(WHOLE, name), sum(rows.value(label, name) for label in LABELS)
        if whole != together:
            return False, f"{name}: {number(together)} in {CHUNKS} chunks, {number(whole)} in one"
    return True, f"{number(rows.value(WHOLE, ADDED[0]))} warp instructions in {CHUNKS} chunks and in one"


def answers_agree(rows: Rows) -> Found:
    """The pipeline, run on the emulator, gives the bits of the whole."""
    language: Language = "numba" if rows[WHOLE].language == "numba" else "cuda-c"
    given = KERNEL.problem.inputs(SMALL)
    arrays = [given[operand.name] for operand in KERNEL.inputs]

    def answer(chunks: int, streams: int) -> Array:
        found: Array = pipeline(
            KERNEL, *arrays, chunks=chunks, streams=streams, language=language, device="emulator"
        )
        return found.view(np.uint32)

    first, *others = (answer(*each) for each in TRIED)
    wrong = sum(int(np.count_nonzero(other != first)) for other in others)
    tried = ", ".join(str(chunks) for chunks, _ in TRIED[1:])
    return wrong == 0, f"{wrong} of {first.size} elements differ in {tried} chunks"


HIDES = "several streams hide the copies behind the kernel: the longest stage decides"
PINNED = "overlap needs pinned memory"
DEFAULTS = "kernels on the default stream overlap with no other stream"
STAGES_NEEDED = "copies run beside kernels on hardware of their own: it takes a GPU's clock to see it"


def observe(clock: GpuClock) -> Observed:
    """Measure the pipeline in every way on a GPU; just run it where a profiler watches."""
    if not clock.is_timing:
        stand = overlap.Stand(clock.device, clock.language, *WATCHED)
        stand.set_steps(WATCHED_STEPS)
        good = overlap.GOOD[STREAMS_SHOWN]
        return Observed({}, (timeline(good.label, clock.language, stand.pipeline(good).run().spans),))
    stand = overlap.Stand(clock.device, clock.language)
    little = stand.measure((overlap.ONE, overlap.GOOD[STREAMS_SHOWN]))
    stand.balance()
    found = stand.measure()
    return Observed(
        verdicts(found, little),
        (bars(found, clock.language, "longest stage"), *timelines(found, clock.language)),
    )


STREAMS_SHOWN = 2
"""Which of the good ways is shown where a profiler watches, and measured with little work."""
WATCHED, WATCHED_STEPS = (2**24, 8), 2**10
"""Elements, chunks and steps there: few launches, as Nsight Compute runs each many times over."""


def verdicts(found: Mapping[str, Measured], little: Mapping[str, Measured]) -> dict[str, tuple[str, str]]:
    """Judge the claims.

    Parameters
    ----------
    found : mapping of str to Measured
        By the variant's label, with a kernel that takes longer than each copy.
    little : mapping of str to Measured
        With one that takes next to nothing.
    """
    best = overlap.best_of(found)
    alone = ", ".join(f"{stage} {1e3 * best.overlap.alone[stage]:.2f}" for stage in STAGES)
    streams = "; ".join(
        f"{each.label} {found[each.label].overlap.of_ideal:.2f}"
        for each in overlap.GOOD
        if each.label in found
    )
    hides = f"{best.variant.label}: {best}; of the ideal: {streams}; alone, in ms: {alone}"
    result = {HIDES: (verdict(best.overlap.of_ideal >= BAR), hides)}
    result |= broken(
        found,
        best,
        {
            PINNED: overlap.PAGEABLE,
            POINTS: overlap.SYNCHRONISED,
            DEFAULTS: overlap.DEFAULT,
            IN_ORDER: overlap.ONE,
        },
    )
    gains = [
        each[overlap.ONE.label].overlap.seconds / each[overlap.GOOD[STREAMS_SHOWN].label].overlap.seconds
        for each in (little, found)
    ]
    text = f"{gains[0]:.2f} x one stream's speed with one step an element, {gains[1]:.2f} x with enough"
    result[WORK] = verdict(gains[0] < gains[1]), text
    return result


def timelines(found: Mapping[str, Measured], language: Language) -> tuple[Picture, ...]:
    """Return when the stages ran on one stream, in the best way, and in two that break it."""
    labels = (
        overlap.ONE.label,
        overlap.best_of(found).variant.label,
        overlap.PAGEABLE.label,
        overlap.DEFAULT.label,
    )
    return tuple(
        timeline(f"{label}: {found[label].overlap}", language, found[label].spans)
        for label in dict.fromkeys(labels)
    )


def pictures(rows: Mapping[str, Rows]) -> tuple[Picture, ...]:
    """Return how chunks are scheduled if every stage takes one step, on one stream and on three."""
    steps = dict.fromkeys(STAGES, 1.0)
    return tuple(
        Timeline(
            f"Scheduled, not measured: {streams} stream{'s' * (streams > 1)}",
            "steps",
            scheduled(steps, DRAWN, streams),
        )
        for streams in (1, 2, 3)
    )


EXPERIMENT = Experiment(
    name="streams",
    question="How much of the copies hides behind the kernel, and what keeps them from it?",
    sweeps=(SWEEP,),
    expectations=(
        Expectation("every answer equals NumPy's", all_right()),
        Expectation(
            "the chunks together do what the whole does, to the instruction and the sector", chunks_add_up
        ),
        Expectation("the pipeline's answer has the bits of the whole, however it is cut", answers_agree),
    ),
    claims=(
        Claim(HIDES, PROGRAMMING_GUIDE, needs_gpu(STAGES_NEEDED)),
        Claim(PINNED, WRITE_UP, needs_gpu("the driver copies pageable memory itself, while the host waits")),
        Claim(WORK, WRITE_UP, needs_gpu("what a kernel of little work cannot hide is time")),
        Claim(POINTS, WRITE_UP, needs_gpu("what a wait leaves idle is time")),
        Claim(DEFAULTS, PROGRAMMING_GUIDE, needs_gpu("the emulator has no streams")),
        Claim(IN_ORDER, PROGRAMMING_GUIDE, needs_gpu("the emulator has no streams")),
    ),
    pictures=pictures,
    lessons=(
        "Overlap is 0 where stages follow each other and 1 where the whole takes as long as its longest stage "
        "alone, measured in the same run. The two directions of copying have hardware each and may overlap too, "
        "at a little less than their speed alone.",
        "The time line is drawn from CUDA events. An event tells when a stream came to a stage; that the stage's "
        "hardware was still busy with the chunk before is worked out.",
        f"A GPU is timed with kl.pipeline(kernel, x, chunks={overlap.CHUNKS}, streams={overlap.STREAMS}) and other ways "
        f"of {overlap.N} elements, for any kernel whose rows stand alone. Without one a kernel of {SMALL.sizes['n']} "
        f"elements is counted in {CHUNKS} chunks, the answers of pipelines in "
        f"{', '.join(str(chunks) for chunks, _ in TRIED)} are compared, and schedules of {DRAWN} are drawn.",
    ),
    observe=observe,
)
