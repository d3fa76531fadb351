"""Graphs: many small launches one by one and as a CUDA graph, and what a launch costs the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kernellab.api import apply
from kernellab.catalog import kernel
from kernellab.checks import HOPPER
from kernellab.experiments.common import all_right, bytes_of, needs_gpu, number, verdict
from kernellab.experiments.experiment import (
    Claim,
    Column,
    Derived,
    Expectation,
    Experiment,
    Found,
    Observed,
    Point,
    Rows,
    Sweep,
)
from kernellab.experiments.picture import Bar, Bars
from kernellab.kernel import Language
from kernellab.problem import Case

if TYPE_CHECKING:
    from kernellab.experiments.clocked import GpuClock
    from kernellab.experiments.launches import Launched

KERNEL = kernel("scale/scalar")
COUNT = 64
"""Launches in a row."""
BAR = 1.9
"""Times the speed of plain launches that a graph of small kernels must reach."""
BLOG = 'NVIDIA, "Getting Started with CUDA Graphs"'
SMALL = "1 Ki"
SWEEP = Sweep(
    f"{KERNEL.id}, {KERNEL.problem.summary}: what one small launch does",
    tuple(
        Point(f"{side} Ki", KERNEL, Case(f"{side} Ki elements", {"n": side * 2**10}, {"alpha": 2.0}))
        for side in (1, 4, 16)
    ),
    (
        Column("blocks", "blocks"),
        Column("launches", "launches"),
        Column("bytes", "bytes_moved"),
        Column("warp\ninstr.", "warp_instructions"),
    ),
)


def little_work(rows: Rows) -> Found:
    """A small launch moves its elements once, and leaves most of a GPU without a block."""
    for label, record in rows.items():
        least = 8 * record.sizes["n"]
        if record.value("bytes_moved") != least:
            return False, f"{label}: {number(record.value('bytes_moved'))} bytes, {least} needed"
    blocks, moved = (rows.value(SMALL, name) for name in ("blocks", "bytes_moved"))
    return (
        blocks < HOPPER.multiprocessors,
        f"{number(moved)} bytes in {number(blocks)} blocks: over long before the next launch",
    )


def each_counts(rows: Rows) -> Found:
    """Launches in a row, each doubling what the one before left, give exactly 2 to their number."""
    language: Language = "numba" if rows[SMALL].language == "numba" else "cuda-c"
    x = np.ones(33, np.float32)
    for _ in range(COUNT):
        x = apply(KERNEL, x, alpha=2.0, language=language, device="emulator")
    wrong = int(np.count_nonzero(x != 2.0**COUNT))
    return (
        wrong == 0,
        f"2**{np.log2(float(x[0])):g} after {COUNT} launches, {wrong} of {x.size} elements wrong",
    )


FASTER = f"a graph of {COUNT} small kernels is at least {BAR} times as fast as launching them one by one"
COSTLY = "small kernels wait for the host: launching takes longer than running them"
LONGER = "the longer the kernels, the less a graph gives"


def observe(clock: GpuClock) -> Observed:
    """Time launches one by one and as a graph; just run both once where a profiler watches."""
    from kernellab.experiments import launches

    if not clock.is_timing:
        with clock.device.capture_stream():
            chain = launches.Chain(clock.device, clock.language)
            for how in chain.ways:
                chain.check(how)
        return Observed({})
    found = [launches.measure(clock.device, clock.language, n) for n in launches.SIZES]
    bars = tuple(Bar(f"{each.n} elements", {clock.language: each.gain(each.fastest)}) for each in found)
    title = f"{COUNT} launches one by one over a graph of them"
    full = max(each.gain(each.fastest) for each in found)
    return Observed(verdicts(found), (Bars(title, "1", bars, full),))


def verdicts(found: Sequence[Launched]) -> dict[str, tuple[str, str]]:
    """Judge the claims on what launches took, the smallest kernels first."""
    from kernellab.experiments.launches import GRAPH, microseconds

    small, large = found[0], found[-1]
    gain = small.gain(small.fastest)
    times = "; ".join(
        f"{how} {microseconds(timing.seconds)} us, of that the host {microseconds(small.host_seconds[how])} us a kernel"
        for how, timing in small.timings.items()
    )
    each = small.timings[GRAPH].seconds / COUNT
    host = small.host_seconds[small.fastest]
    gains = ", ".join(f"{one.gain(one.fastest):.2f} x at {one.n}" for one in found)
    return {
        FASTER: (verdict(gain >= BAR), f"{gain:.2f} x, against {small.fastest}; {times}"),
        COSTLY: (
            verdict(host > each),
            f"{microseconds(host)} us of the host a launch, {microseconds(each)} us a kernel in the graph",
        ),
        LONGER: (verdict(large.gain(large.fastest) < gain), f"{gains} elements"),
    }


EXPERIMENT = Experiment(
    name="graphs",
    question="What do many small launches cost, and what does a CUDA graph of them save?",
    sweeps=(SWEEP,),
    derived=(
        Derived("bytes_moved", "B", bytes_of("load", "store")),
        Derived("blocks", "blocks", lambda record: float(np.prod(record.grid)), ""),
    ),
    expectations=(
        Expectation("every answer equals NumPy's", all_right()),
        Expectation(
            "a small launch moves each element once, in fewer blocks than a GPU has multiprocessors",
            little_work,
        ),
        Expectation(f"{COUNT} launches in a row that each double give 2**{COUNT}: none is lost", each_counts),
    ),
    claims=(
        Claim(FASTER, BLOG, needs_gpu("a graph is launched by the driver, and the emulator has no time")),
        Claim(COSTLY, BLOG, needs_gpu("it is the host's time to queue a launch")),
        Claim(LONGER, BLOG, needs_gpu("it is a ratio of times")),
    ),
    lessons=(
        "Both are timed from an idle device to the end of the last kernel, in turn, so the host's latency counts. "
        "Each launch doubles what the one before left: a graph that lost one would not give 2**64.",
        "A launch of kernellab's device.calls has its arguments packed once; cupy.RawKernel packs them at each launch, "
        "Numba unpacks its arrays too.",
    ),
    observe=observe,
)
