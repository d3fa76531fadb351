"""Counts beside each other: a GPU's hardware counters, the emulator's counts, and where they differ."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kernellab import timing
from kernellab.devices import device as find_device
from kernellab.errors import UnavailableError
from kernellab.instruments import counters as ncu
from kernellab.instruments import trace as counts
from kernellab.instruments.reading import Reading
from kernellab.measurement import Job, judge
from kernellab.record import Record, is_speed

if TYPE_CHECKING:
    from kernellab.devices.program import Device, Run
    from kernellab.emulator.summary import Line
    from kernellab.kernel import Language
    from kernellab.verify import Verdict

MOST_COUNTED = 2**22
"""Threads up to which the emulator counts what locked hardware counters do not tell."""


def with_counts(record: Record, job: Job, device: Device, counters: str, is_both: bool) -> Record:
    """Return a GPU's Record with hardware counters, the emulator's counts, and notes on where they differ.

    Parameters
    ----------
    record : Record
        Of the job, in its language.
    job : Job
    device : Device
    counters : {"", "ncu", "ncu-lines"}
        Which hardware counters to read. Where they cannot be read the emulator counts, if the grid is small.
    is_both : bool
        Whether the emulator is to count in any case.
    """
    if not job.plan.steps or not (counters or is_both):
        return record
    if device.name != "gpu":
        note = "counters: the emulator has none, its own counts stand for them; pass device='gpu'"
        return replace(record, notes=(*record.notes, note))
    language: Language = record.language  # type: ignore[assignment]
    notes, found, lines = list(record.notes), list(record.readings), record.lines
    is_missing = bool(counters)
    if counters:
        try:
            measured, lines = _measured(job, device, language, counters)
            found += [item for item in measured if record.is_right or not is_speed(item.name)]
            is_missing = False
        except UnavailableError as error:
            notes.append(str(error))
    threads = max(math.prod(step.grid) * math.prod(step.block) for step in job.plan.steps)
    if is_both or (is_missing and threads <= MOST_COUNTED):
        verdict, run = _counted(job, device, language)
        found += counts.readings(run.traces)
        notes += [note for trace in run.traces for note in trace.notes]
        notes += [f"emulator: {verdict.message}"] if verdict.message else []
        notes += line_differences(counts.lines(run.traces), lines)
        lines = counts.lines(run.traces)
    elif is_missing:
        notes.append(f"counters: the emulator did not count, {threads} threads are more than {MOST_COUNTED}")
    elif lines:
        notes.append("lines: by Nsight Compute; instructions are those of the machine code")
    notes += differences(found)
    return replace(record, readings=tuple(found), notes=tuple(dict.fromkeys(notes)), lines=lines)


def _measured(
    job: Job, device: Device, language: Language, counters: str
) -> tuple[tuple[Reading, ...], tuple[Line, ...]]:
    inputs = timing.host_plan(device, job.plan).inputs
    asked = ncu.Job(job.plan.kernel, inputs, job.plan.parameters, language)
    (launches,) = ncu.read_counters([asked])
    return ncu.readings(launches), ncu.line_counters(asked) if counters == "ncu-lines" else ()


def _counted(job: Job, device: Device, language: Language) -> tuple[Verdict, Run]:
    from kernellab.devices.emulated import EmulatedDevice

    known = find_device("emulator")
    emulator = known if known.arch == device.arch else EmulatedDevice(device.arch)
    plan = timing.host_plan(device, job.plan)
    run = emulator.run(emulator.build(plan.kernel, language), plan)
    return judge(plan, run), run


def differences(readings: Iterable[Reading]) -> list[str]:
    """Return one sentence for each count that the hardware and the emulator see differently.

    Examples
    --------
    >>> counted = Reading("global_load_sectors", 4.0, "sectors", "counted")
    >>> differences([counted, Reading("global_load_sectors", 5.0, "sectors", "measured")])
    ['global_load_sectors: counted 4, measured 5 (+25 %)']
    """
    held = list(readings)
    counted = {item.name: item.value for item in held if item.source == "counted"}
    found = []
    for item in held:
        is_known = item.name in counted and item.name not in counts.ON_PTX
        if item.source == "measured" and is_known and not math.isnan(item.value):
            found += _difference(item.name, counted[item.name], item.value)
    return found


def line_differences(counted: Sequence[Line], measured: Sequence[Line]) -> list[str]:
    """Return one sentence for each source line whose sectors or bank conflicts differ; none without both.

    Lines are told apart by file name and number, as a compiler may spell the folder otherwise.
    """
    known = {(Path(line.file).name, line.number): line for line in counted}
    found = []
    for line in measured:
        place = (Path(line.file).name, line.number)
        if place not in known:
            continue
        for name in ("sectors", "bank_conflicts"):
            who = f"{place[0]}:{line.number} {name}"
            found += _difference(who, getattr(known[place], name), getattr(line, name))
    return found


def _difference(who: str, counted: float, measured: float) -> list[str]:
    if math.isclose(counted, measured, rel_tol=1e-9):
        return []
    share = f" ({100 * (measured - counted) / counted:+.3g} %)" if counted else ""
    return [f"{who}: counted {counted:g}, measured {measured:g}{share}"]
