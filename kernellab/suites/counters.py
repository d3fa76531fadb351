"""Counters: the emulator's counts beside the hardware's, at every point of the three experiments."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernellab.devices.emulated import EmulatedDevice
from kernellab.errors import UnavailableError
from kernellab.experiments import FUNDAMENTALS, load
from kernellab.experiments.experiment import Point
from kernellab.instruments import counters
from kernellab.kernel import Language
from kernellab.measurement import measure
from kernellab.problem import Arrays
from kernellab.results import Results, Shown
from kernellab.suites.bench import Bench, languages_of

EXACT = (
    "global_load_requests", "global_load_sectors", "global_store_requests", "global_store_sectors",
    "global_atomic_requests", "global_atomic_sectors", "local_load_requests", "local_load_sectors",
    "local_store_requests", "local_store_sectors", "shared_load_requests", "shared_store_requests",
    "shared_load_wavefronts", "shared_store_wavefronts", "divergent_branches",
)  # fmt: skip
"""Must be equal."""
NEAR = {
    "shared_load_wavefronts": "shared_load_wavefronts_hardware",
    "shared_store_wavefronts": "shared_store_wavefronts_hardware",
    "warp_efficiency": "warp_efficiency",
}
"""The emulator's name -> the hardware's: must agree within `TOLERANCE`."""
TOLERANCE = 0.05
SHOWN = 8
COLUMNS = (
    Shown("experiment", "experiment"),
    Shown("language", "language"),
    Shown("points", "points", digits=0),
    Shown("equal", "counts equal", digits=0),
    Shown("compared", "of", digits=0),
    Shown("worst_wavefronts", "hardware wavefronts within %", 100, 2),
    Shown("worst_efficiency", "warp efficiency within %", 100, 2),
)


@dataclass(frozen=True)
class Task:
    """One point of one experiment in one language."""

    experiment: str
    point: Point
    language: Language

    @property
    def arrays(self) -> Arrays:
        """Its inputs."""
        point = self.point
        given = point.arrays() if point.arrays is not None else point.kernel.problem.inputs(point.case)
        return {item.name: given[item.name] for item in point.kernel.inputs}

    @property
    def parameters(self) -> dict[str, Any]:
        """Its scalars, those that the kernel takes."""
        taken = {item.name for item in self.point.kernel.parameters}
        return {key: value for key, value in self.point.case.parameters.items() if key in taken}


def tasks() -> tuple[Task, ...]:
    """Return every right point of every experiment, in its languages."""
    return tuple(
        Task(name, point, language)
        for name in FUNDAMENTALS
        for point in load(name).points
        if not point.kernel.fault
        for language in languages_of(point.kernel)
    )


def run(bench: Bench) -> Results:
    """Read the hardware's counters in one child process, count on the emulator, and compare."""
    chosen = tasks()
    bench.progress(f"counters: {len(chosen)} launches under ncu")
    jobs = [counters.Job(t.point.kernel, t.arrays, t.parameters, t.language) for t in chosen]
    kernels = [task.point.kernel for task in chosen]
    try:
        measured = counters.read_counters(jobs)
    except UnavailableError as error:
        return bench.results("counters", "Counters", (), (), notes=(str(error),), lines=(str(error),))
    emulator = EmulatedDevice(bench.device.arch)
    found = []
    for task, launches in zip(chosen, measured, strict=True):
        bench.progress(f"counters: emulating {task.point.label}")
        found.append(compare(task, hardware(launches), emulated(task, emulator)))
    rows = summaries(found)
    wrong = [
        f"{f['experiment']}, {f['point']}, {f['language']}: {text}" for f in found for text in f["differs"]
    ]
    more = (f"and {len(wrong) - SHOWN} more",) if len(wrong) > SHOWN else ()
    total, equal = (sum(row[key] for row in rows) for key in ("compared", "equal"))
    near = all(max(row["worst_wavefronts"], row["worst_efficiency"]) <= TOLERANCE for row in rows)
    return bench.results(
        "counters",
        "The emulator beside the hardware's counters (Nsight Compute), every point of the three experiments",
        (*rows, *found),
        kernels,
        columns=COLUMNS,
        bars={
            f"requests, sectors, wavefronts, divergent branches equal ({equal} of {total})": equal == total,
            "hardware wavefronts and warp efficiency within 5 %": near,
        },
        notes=(
            "equal: requests and sectors of global and local memory, requests and wavefronts of shared "
            "memory (smsp__sass family), divergent branches; warp efficiency: "
            "smsp__thread_inst_executed_per_inst_executed.ratio / 32, in which lanes that a predicate switches "
            "off still count: ptxas turns short branches into predicates, and the share that does something "
            "(smsp__sass_thread_inst_executed_pred_on) is smaller by as much",
        ),
        lines=(*(_line(row) for row in rows), *wrong[:SHOWN], *more),
    )


def hardware(launches: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the hardware's counts by kernellab's names, launches added up."""
    return {item.name: item.value for item in counters.readings(launches)}


def emulated(task: Task, emulator: EmulatedDevice) -> dict[str, float]:
    """Return the emulator's counts."""
    arrays = [task.arrays[item.name] for item in task.point.kernel.inputs]
    record = measure(task.point.kernel, *arrays, language=task.language, device=emulator, **task.parameters)
    return {item.name: item.value for item in record.readings if item.source == "counted"}


def compare(task: Task, real: Mapping[str, float], counted: Mapping[str, float]) -> dict[str, Any]:
    """Return a row: both sides, what differs, and the largest relative differences.

    A count that one side lacks differs.
    """
    differs = [
        f"{name} {counted.get(name, math.nan):g}, hardware {real.get(name, math.nan):g}"
        for name in EXACT
        if counted.get(name) != real.get(name)
    ]
    gaps = {name: gap(counted.get(name, math.nan), real.get(other, math.nan)) for name, other in NEAR.items()}
    names = {*EXACT, *NEAR, *NEAR.values(), "warp_instructions", "thread_instructions"}
    return {
        "experiment": task.experiment, "point": task.point.label, "kernel": task.point.kernel.id,
        "language": task.language, "differs": differs,
        "wavefronts_gap": max(gaps["shared_load_wavefronts"], gaps["shared_store_wavefronts"]),
        "efficiency_gap": gaps["warp_efficiency"],
        "emulator": {name: counted[name] for name in sorted(names) if name in counted},
        "hardware": dict(real),
    }  # fmt: skip


def gap(counted: float, real: float) -> float:
    """Return the relative difference; 0 if both are 0, infinite if one is missing.

    Examples
    --------
    >>> gap(100.0, 104.0), gap(0.0, 0.0), gap(1.0, float("nan"))
    (0.04, 0.0, inf)
    """
    if math.isnan(counted) or math.isnan(real):
        return math.inf
    return abs(real - counted) / counted if counted else (math.inf if real else 0.0)


def summaries(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each experiment and language."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for item in found:
        groups.setdefault((item["experiment"], item["language"]), []).append(item)
    return [
        {
            "experiment": experiment, "language": language, "points": len(items),
            "compared": len(EXACT) * len(items),
            "equal": sum(len(EXACT) - len(item["differs"]) for item in items),
            "worst_wavefronts": max(item["wavefronts_gap"] for item in items),
            "worst_efficiency": max(item["efficiency_gap"] for item in items),
        }
        for (experiment, language), items in groups.items()
    ]  # fmt: skip


def _line(row: Mapping[str, Any]) -> str:
    return (
        f"{row['experiment']} {row['language']}: {row['equal']}/{row['compared']} equal, hardware wavefronts "
        f"within {100 * row['worst_wavefronts']:.2f} %, efficiency {100 * row['worst_efficiency']:.2f} %"
    )
