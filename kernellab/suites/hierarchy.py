"""Hierarchy: the plateaus of bandwidth and latency beside published figures, and atomics by contention."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernellab import catalog
from kernellab.experiments import atomics, levels
from kernellab.experiments.levels import BANDWIDTH, LATENCY, Reach
from kernellab.results import Results, Shown
from kernellab.suites.bench import Bench

NEAR = 0.10
"""How far a plateau may be from a published figure, relative to it."""
ABOVE = 0.01
"""How far above a peak the clocks may carry what is measured."""
COLUMNS = (
    Shown("quantity", "of"),
    Shown("level", "level"),
    Shown("set", "set or table"),
    Shown("measured", "measured"),
    Shown("figure", "published"),
    Shown("ratio", "measured / published", digits=3),
    Shown("source", "source"),
)
ADDRESS = {"registers": 0, "shared": 6, "constant": 11, "global": 6}
"""Cycles of a step by which the load follows what makes its address: stall counts of the code for sm_90."""
HOPPER, H200 = ("H100", "H200"), ("H200",)
GUIDE = "CUDA C++ Programming Guide, 9.0"
ERNST = "RRZE-HPC/gpu-benches 1038c5d"


@dataclass(frozen=True)
class Figure:
    """What others say of a level.

    Attributes
    ----------
    value : float
        In `unit`.
    unit : {"B/clk/SM", "B/s", "cycles"}
    source : str
    chips : tuple of str
        Of whose names a device's must hold one for the figure to be its own.
    is_peak : bool
        Whether nothing can give more, so that what is measured above it was not all of that level.
    """

    value: float
    unit: str
    source: str
    chips: tuple[str, ...] = HOPPER
    is_peak: bool = False


FIGURES: Mapping[tuple[str, str], Figure] = {
    (BANDWIDTH, "registers"): Figure(
        128 * 3 * 4, "B/clk/SM", f"{GUIDE}: 128 multiply-adds a clock, 3 operands", is_peak=True
    ),
    (BANDWIDTH, "shared"): Figure(32 * 4, "B/clk/SM", f"{GUIDE}: 32 banks of 4 bytes", is_peak=True),
    (BANDWIDTH, "L1"): Figure(128, "B/clk/SM", f"{ERNST}, gpu-cache: 128 B a clock", is_peak=True),
    (BANDWIDTH, "L2"): Figure(9.77e12, "B/s", f"{ERNST}, gpu-l2-cache/h200.txt, 12 to 40 MB", H200),
    (BANDWIDTH, "DRAM"): Figure(4.8e12, "B/s", "NVIDIA H200 datasheet, HBM3e", H200, is_peak=True),
    (LATENCY, "registers"): Figure(
        4, "cycles", "the stall count that ptxas sets between dependent FFMAs for sm_90"
    ),
    (LATENCY, "L1"): Figure(32.0, "cycles", f"{ERNST}, gpu-latency/gh200.txt"),
    (LATENCY, "L2"): Figure(280.4, "cycles", f"{ERNST}, gpu-latency/gh200.txt"),
}
"""By quantity and level. Those in cycles are of pointers, which need no instruction to become an address."""


def run(bench: Bench) -> Results:
    """Sweep the size of the set, and the number of addresses; CUDA C."""
    device, say = bench.device, bench.progress
    swept = {
        BANDWIDTH: levels.bandwidths(device, "cuda-c", levels.SETS, say),
        LATENCY: levels.latencies(device, "cuda-c", levels.TABLES, say),
    }
    added = atomics.rates(device, "cuda-c", say)
    name = str(device.describe().get("device", ""))
    processors = device.limits.multiprocessors
    shown = [
        row
        for quantity, points in swept.items()
        for row in plateau_rows(quantity, levels.plateaus(points, device.l2_bytes), name, processors)
    ]
    raw = [point_row(each) for points in swept.values() for each in points]
    pictures = [levels.curves(points, levels.marks(device)) for points in swept.values()]
    clocks = [each.hz for points in swept.values() for each in points]
    return bench.results(
        "hierarchy",
        "Levels of memory beside what is published of them",
        (*shown, *atomic_rows(added), *raw, *(atomic_row(each) for each in added)),
        [rung for problem in ("reread", "chase", "tally") for rung in catalog.ladder(problem)],
        columns=COLUMNS,
        bars=bars(shown),
        notes=(
            "slopes between few repetitions and many, so that launch, ramp and the first pass fall out; SM clock "
            f"counted on the device between the samples, {min(clocks) / 1e6:.0f} to {max(clocks) / 1e6:.0f} MHz; "
            "bandwidth of global memory: one block a multiprocessor, all pass through the set before any of it is "
            f"read again, sets beyond {levels.AGAIN} times the L2 are read once; latency: one warp, a node a line in random order, less "
            "the cycles that the machine code waits for the address made of an index; every answer checked before and after",
        ),
        lines=tuple(_line(row) for row in shown),
        pictures=(*pictures, atomics.rate_curves(added)),
    )


def plateau_rows(
    quantity: str, found: Mapping[str, Reach], device: str, processors: int
) -> Iterable[dict[str, Any]]:
    """Yield a row of the table for each level."""
    for level, point in found.items():
        figure = FIGURES.get((quantity, level))
        known = figure if figure and any(chip in device for chip in figure.chips) else None
        a_clock = point.cycles / processors
        if quantity == LATENCY:
            value = point.cycles - ADDRESS[point.rung]
            text = f"{value:.1f} cycles ({point.value * 1e9:.1f} ns a step)"
        else:
            value = a_clock if figure and figure.unit == "B/clk/SM" else point.value
            text = f"{point.value / 1e12:.2f} TB/s ({a_clock:.1f} B/clk/SM)"
        ratio = value / known.value if known else None
        if known and known.is_peak and value > (1 + ABOVE) * known.value:
            ratio, text = math.nan, f"refused: {text} is more than the level can give"
        yield {
            "quantity": quantity,
            "level": level,
            "set": size_of(point.nbytes),
            "measured": text,
            "figure": f"{_plain(known)}" if known else None,
            "ratio": ratio,
            "source": known.source if known else "",
        }


def _plain(figure: Figure) -> str:
    scale, unit = (1e12, "TB/s") if figure.unit == "B/s" else (1.0, figure.unit)
    return f"{figure.value / scale:g} {unit}"


def size_of(nbytes: int) -> str:
    """Return a size in words.

    Examples
    --------
    >>> size_of(0), size_of(65536), size_of(2**24)
    ('-', '64 KiB', '16 MiB')
    """
    from kernellab.report.curves import size

    return size(nbytes, "B") if nbytes else "-"


def atomic_rows(found: Sequence[atomics.Rate]) -> Iterable[dict[str, Any]]:
    """Yield a row of the table for each rung where all additions meet, and where they meet least."""
    met = next(each.value for each in found if (each.rung, each.addresses) == ("contended", 1))
    for rung in atomics.RUNGS:
        spread = [each for each in found if (each.rung, each.pattern) == (rung, "spread")]
        for rate in (spread[0], spread[-1]):
            yield {
                "quantity": "atomics",
                "level": f"tally/{rung}",
                "set": f"{rate.addresses} address{'es' if rate.addresses > 1 else ''}",
                "measured": f"{rate.value / 1e9:.3g} G additions/s, {rate.value / met:.3g} x contended on one",
                "figure": None,
                "ratio": None,
                "source": "",
            }


def point_row(point: Reach) -> dict[str, Any]:
    """Return everything of one measured point, samples too."""
    few, many = point.timings
    return {
        "point": f"{point.quantity} {point.rung} {point.nbytes}", "rung": point.rung, "bytes": point.nbytes,
        "value": point.value, "sm_clock": point.hz, "is_throttled": few.is_throttled or many.is_throttled,
        "samples_few": list(few.samples), "samples": list(many.samples),
    }  # fmt: skip


def atomic_row(rate: atomics.Rate) -> dict[str, Any]:
    """Return everything of one rate, samples too."""
    return {
        "point": f"additions {rate.rung} {rate.pattern} {rate.addresses}", "rung": rate.rung,
        "addresses": rate.addresses, "value": rate.value, "samples": list(rate.timing.samples),
    }  # fmt: skip


def bars(rows: Iterable[Mapping[str, Any]]) -> dict[str, bool]:
    """Return whether each plateau that something is published of is near it.

    Examples
    --------
    >>> row = {"quantity": "latency", "level": "L2", "figure": "280.4 cycles", "ratio": 1.05, "measured": "294 cycles"}
    >>> bars([row, {**row, "level": "L1", "ratio": 0.5}])  # doctest: +NORMALIZE_WHITESPACE
    {'latency of L2 within 10 % of 280.4 cycles (294 cycles)': True,
     'latency of L1 within 10 % of 280.4 cycles (294 cycles)': False}
    """
    return {
        f"{row['quantity']} of {row['level']} within {100 * NEAR:.0f} % of {row['figure']} ({row['measured']})": (
            not math.isnan(row["ratio"]) and abs(row["ratio"] - 1) <= NEAR
        )
        for row in rows
        if row["figure"] is not None
    }


def _line(row: Mapping[str, Any]) -> str:
    about = f", {row['ratio']:.3f} of {row['figure']}" if row["figure"] else ""
    return f"{row['quantity']} {row['level']} ({row['set']}): {row['measured']}{about}"


__all__ = ["FIGURES", "Figure", "bars", "plateau_rows", "run"]
