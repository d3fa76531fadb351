"""All-reduce: gradients of two ranks added up while others are computed; what it hides, and what keeps it from that."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from kernellab.api import apply
from kernellab.catalog import kernel
from kernellab.catalog.all_reduce import BOTH
from kernellab.experiments import ranks
from kernellab.experiments.common import SECTOR, WRITE_UP, all_right, needs_gpu, number, verdict
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
from kernellab.experiments.layers import ELEMENT, KERNEL
from kernellab.experiments.picture import Picture
from kernellab.experiments.ways import IN_ORDER, POINTS, WORK, bars, broken, timeline
from kernellab.kernel import Kernel, Language
from kernellab.problem import Case, dtype_named

if TYPE_CHECKING:
    from kernellab.devices.gpu import GpuDevice
    from kernellab.emulator.summary import Line
    from kernellab.experiments.clocked import GpuClock
    from kernellab.experiments.layers import Shape
    from kernellab.experiments.ranks import Measured
    from kernellab.record import Record

RUNGS = ("scalar", "vectorised")
BUCKET = 2**15
"""Elements of the bucket that is counted."""
ODD = 1003
"""Of that whose bits are compared: no whole vectors, and not the same number for both."""
LEAST, MOST = 0.15, 0.20
BAR = 0.90
"""Of the ideal, from which communication counts as hidden."""
WHO = {0: "rank 0", 1: "rank 1", BOTH: "both in one memory"}
READ, WRITTEN = "link_read_sectors", "link_written_sectors"
ADDED = ("global_load_requests", "global_load_sectors", "global_store_requests", "global_store_sectors")


def label_of(rung: str, rank: int) -> str:
    """Return a point's label, such as ``vectorised, rank 0``."""
    return f"{rung}, {WHO[rank]}"


def point(rung: str, rank: int) -> Point:
    """Return what one rank does, or both."""
    case = Case(f"{BUCKET} elements, {ELEMENT}", {"n": BUCKET}, {"rank": rank}, element=ELEMENT)
    return Point(label_of(rung, rank), kernel(f"all_reduce/{rung}").with_element(ELEMENT), case)


def touches(line: Line, array: str) -> str:
    """Return whether a source line is a ``"load"`` of an array or a ``"store"`` to it; nothing if neither."""
    code = re.split("//|#", line.text)[0]
    if not line.sectors or not re.search(rf"\b{array}\b", code):
        return ""
    is_store = re.search(rf"\bstore\({array},|\b{array}\)?\[[^]]*\] = ", code)
    return "store" if is_store else "load"


def crossing(record: Record, operation: str) -> float:
    """Return the sectors of a rank's loads from, or stores to, the other's array; NaN for both in one memory."""
    rank = int(record.parameters["rank"])
    if rank == BOTH:
        return math.nan
    other = "xy"[1 - rank]
    return float(sum(line.sectors for line in record.lines if touches(line, other) == operation))


SWEEP = Sweep(
    f"A bucket of {BUCKET} elements in {ELEMENT}",
    tuple(point(rung, rank) for rung in RUNGS for rank in WHO),
    (
        Column("load\nrequests", "global_load_requests"),
        Column("load\nsectors", "global_load_sectors"),
        Column("store\nsectors", "global_store_sectors"),
        Column("read over\nthe link", READ),
        Column("written\nover it", WRITTEN),
    ),
)


def crosses_once(rows: Rows) -> Found:
    """A rank reads half a bucket from the other and writes half to it: either way of the link carries one bucket."""
    half = BUCKET * dtype_named(ELEMENT).itemsize // SECTOR // 2
    for rung in RUNGS:
        for rank in (0, 1):
            label = label_of(rung, rank)
            found = [rows.value(label, name) for name in (READ, WRITTEN)]
            if found != [half, half]:
                told = (
                    f"{number(found[0])} sectors read and {number(found[1])} written, half a bucket is {half}"
                )
                return False, f"{label}: {told}"
    return True, f"{half} sectors read and {half} written by each rank: one bucket each way"


def ranks_add_up(rows: Rows) -> Found:
    """The two ranks together do what one launch for both does."""
    for rung in RUNGS:
        for name in ADDED:
            one, other, both = (rows.value(label_of(rung, rank), name) for rank in (0, 1, BOTH))
            if one + other != both:
                return False, f"{rung}: {name}: {number(one)} + {number(other)}, both {number(both)}"
    label = label_of(RUNGS[-1], BOTH)
    return True, f"{number(rows.value(label, ADDED[1]))} sectors loaded by both ranks and by one launch"


def same_bits(tried: Kernel, language: Language) -> Found:
    """Let one rank add up its half, then the other; compare the bits of both with those of a sum in float32."""
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(ODD, dtype=np.float32).astype(dtype_named(ELEMENT)) for _ in range(2))
    x[::50], y[::75] = np.inf, -np.inf
    x[1], y[1] = -0.0, -0.0
    with np.errstate(invalid="ignore"):
        total = (x.astype(np.float32) + y.astype(np.float32)).astype(x.dtype)
    for rank in (0, 1):
        x, y = apply(tried, x, y, rank=rank, language=language, device="emulator")
    is_number = ~np.isnan(total)
    wrong = sum(
        int(np.count_nonzero((found.view(np.uint16) != total.view(np.uint16)) & is_number))
        + int(np.count_nonzero(np.isnan(found) == is_number))
        for found in (x, y)
    )
    return wrong == 0, f"{wrong} of {2 * ODD} elements differ from a sum in float32, rounded once"


def has_same_bits(rows: Rows) -> Found:
    """Both ranks hold the same bits."""
    language: Language = "numba" if next(iter(rows.items()))[1].language == "numba" else "cuda-c"
    return same_bits(kernel(KERNEL), language)


# -- two GPUs
SHORTER = "all-reduce overlapped with computing makes iterations 15-20 % shorter on several GPUs"
LARGE = "buckets must be large enough for their launches"
GUIDE, DISTRIBUTED = "CUDA C++ Programming Guide", "PyTorch Distributed (Li et al., 2020)"
CLAIMS = {SHORTER: WRITE_UP, WORK: WRITE_UP, POINTS: WRITE_UP, IN_ORDER: GUIDE, LARGE: DISTRIBUTED}
NEEDED = "time needs two GPUs that reach each other's memory"


def observe(clock: GpuClock) -> Observed:
    """Measure iterations in every way on two GPUs; just run one where a profiler watches."""
    stand = ranks.Stand(clock.device, clock.language)
    if not clock.is_timing:
        spans = stand.iteration(ranks.EACH.way).run().spans
        return Observed({}, (timeline(ranks.EACH.label, clock.language, spans),))
    stand.choose()
    found = stand.measure()
    notes = link_text(stand.link()), f"{ranks.GREEDY.label}: {found[ranks.GREEDY.label]}"
    little = measure_little(clock.device, clock.language, stand.shapes)
    pictures = bars(found, clock.language, "longer stage"), *timelines(found, clock.language)
    return Observed(verdicts(found, little), pictures, notes)


def measure_little(
    device: GpuDevice, language: Language, shapes: Mapping[str, Shape]
) -> Mapping[str, Measured]:
    """Measure what overlaps, and what does not, with few tokens."""
    stand = ranks.Stand(device, language, ranks.LITTLE)
    stand.shapes |= shapes
    return stand.measure((*ranks.ENDS, *ranks.EACHS))


def link_text(link: tuple[float, float]) -> str:
    """Say what copies between the ranks reach."""
    one_way, both_ways = (f"{rate / 1e9:.0f} GB/s" for rate in link)
    return f"the link, measured by copies of all gradients: {one_way} one way, {both_ways} each way with both at once"


def verdicts(found: Mapping[str, Measured], little: Mapping[str, Measured]) -> dict[str, tuple[str, str]]:
    """Judge the claims.

    Parameters
    ----------
    found, little : mapping of str to Measured
        By the variant's label, with enough tokens and with few.
    """
    best, end = ranks.best_of(found, ranks.EACHS), ranks.best_of(found, ranks.ENDS)
    share = ranks.shorter(found)
    alone = ", ".join(f"{stage} {1e3 * seconds:.3g} ms" for stage, seconds in best.overlap.alone.items())
    told = f"{100 * share:.1f} % shorter: {best.variant.label} {best}; {end.variant.label} {1e3 * end.seconds:.3g} ms; alone: {alone}"
    result = {SHORTER: (verdict(share >= LEAST), told)}
    shares = [ranks.hidden(each) for each in (little, found)]
    text = f"{shares[0]:.2f} of the all-reduce hidden with {ranks.LITTLE} tokens, {shares[1]:.2f} with {ranks.TOKENS}"
    result[WORK] = verdict(shares[0] < shares[1]), text
    each = found[ranks.EACH.label]
    return result | broken(found, each, {POINTS: ranks.WAITS, IN_ORDER: ranks.SAME, LARGE: ranks.SMALL})


def timelines(found: Mapping[str, Measured], language: Language) -> tuple[Picture, ...]:
    """Return when each rank computed and added up, at the end, at once and in two ways that break it."""
    shown = (ranks.END, ranks.EACH, ranks.EACH_COPIES, ranks.WAITS, ranks.GREEDY)
    return tuple(
        timeline(f"{each.label}: {found[each.label].overlap}", language, found[each.label].spans)
        for each in shown
    )


EXPERIMENT = Experiment(
    name="all-reduce",
    question="How much of an all-reduce hides behind the backward pass, and what keeps it from that?",
    sweeps=(SWEEP,),
    expectations=(
        Expectation("every answer equals NumPy's", all_right()),
        Expectation("each way of the link carries every byte of the bucket once", crosses_once),
        Expectation("the two ranks together do what one launch for both does", ranks_add_up),
        Expectation(
            "both ranks end with the same bits, those of a sum in float32 rounded once", has_same_bits
        ),
    ),
    claims=tuple(Claim(text, source, needs_gpu(NEEDED)) for text, source in CLAIMS.items()),
    derived=(
        Derived(READ, "sectors", lambda record: crossing(record, "load")),
        Derived(WRITTEN, "sectors", lambda record: crossing(record, "store")),
    ),
    lessons=(
        f"On two GPUs: {ranks.LAYERS} layers of {ranks.SIDE} x {ranks.SIDE} weights and {ranks.TOKENS} tokens a rank in "
        f"{ELEMENT}; of each layer dw = x.T @ dy, and dx = dy @ w.T where there is a layer before; products in CUDA C by "
        "tensor cores, dw added up by a kernel that reads and writes the other's memory, or by copies and a kernel that adds.",
        "Overlap is 0 where computing and the all-reduce follow each other and 1 where the whole takes as long as the longer "
        "of them alone, in the same run. Shorter iterations are the fastest overlapped way beside the fastest that is not.",
    ),
    observe=observe,
)
