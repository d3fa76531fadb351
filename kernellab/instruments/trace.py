"""The emulator's counts as Readings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from kernellab.instruments.reading import Reading

if TYPE_CHECKING:
    from kernellab.devices.program import Device, Program
    from kernellab.emulator.summary import Line
    from kernellab.plan import Plan
    from kernellab.trace import Trace

# Counted on the PTX that ran, whatever ptxas made of it.
ON_PTX = ("ptx_warp_instructions", "ptx_thread_instructions")
UNITS = {
    "instructions": "instructions",
    "efficiency": "1",
    "branches": "branches",
    "requests": "requests",
    "sectors": "sectors",
    "lines": "lines",
    "wavefronts": "wavefronts",
    "conflicts": "conflicts",
    "bytes": "bytes",
    "flops": "flops",
}


def read(device: Device, program: Program, plan: Plan) -> tuple[Reading, ...]:
    """Run a plan on the emulator and return its counts."""
    return readings(device.run(program, plan).traces)


def readings(traces: Sequence[Trace]) -> tuple[Reading, ...]:
    """Return the counts of a run.

    Parameters
    ----------
    traces : sequence of Trace
        One a launch; counts are added up.

    Returns
    -------
    tuple of Reading
        By the names in ``Trace.totals``. Accesses, instructions and branches are as SASS has them, or
        marked approximate; the instructions of the PTX that ran say so.
    """
    if not traces:
        return ()
    is_exact = all(trace.source == "SASS" for trace in traces)
    note = "SASS" if is_exact else "approximate"
    return tuple(
        Reading(name, float(value), unit_of(name), "counted", "PTX" if name in ON_PTX else note)
        for name, value in totals(traces).items()
    )


def totals(traces: Sequence[Trace]) -> Mapping[str, float]:
    """Return the totals of several launches, ratios worked out anew."""
    if len(traces) == 1:
        return traces[0].totals
    from kernellab.emulator.summary import add_ratios

    names = dict.fromkeys(name for trace in traces for name in trace.totals)
    summed = {n: sum(trace.totals.get(n, 0) for trace in traces) for n in names if not is_ratio(n)}
    lanes = 32 * summed["warp_instructions"]
    summed["warp_efficiency"] = summed["thread_instructions"] / lanes if lanes else float("nan")
    add_ratios(summed)
    return {name: summed[name] for name in names}


def is_ratio(name: str) -> bool:
    """Whether a total is a ratio of others."""
    return name == "warp_efficiency" or "_per_" in name


def unit_of(name: str) -> str:
    """Return the unit of a total.

    Examples
    --------
    >>> unit_of("shared_load_wavefronts"), unit_of("sectors_per_request_load")
    ('wavefronts', 'sectors/request')
    """
    if name.startswith("sectors_per_request"):
        return "sectors/request"
    return UNITS.get(name.rpartition("_")[2], "1")


def lines(traces: Sequence[Trace]) -> tuple[Line, ...]:
    """Return the counts by source line, launch after launch."""
    return tuple(line for trace in traces for line in trace.lines)
