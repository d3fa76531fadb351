"""``kernellab bench``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kernellab.cli import output
from kernellab.errors import SpecError
from kernellab.report.numbers import plain
from kernellab.report.table import Column, Table

if TYPE_CHECKING:
    from kernellab.bench import Speeds


def bench(what: str, json_file: Path | None, html_file: Path | None, folder: Path | None = None) -> None:
    """Time the emulator, print a table, and fail if a bar is missed; or run a GPU's suites."""
    if what != "emulator":
        from kernellab.cli.suites_command import run_suites
        from kernellab.suites import SUITES

        if what != "gpu" and what not in SUITES:
            known = ", ".join(SUITES)
            raise SpecError(
                f"bench: {what!r} is nothing to time; write emulator, gpu for all suites, or one: {known}"
            )
        run_suites(SUITES if what == "gpu" else (what,), folder)
        return
    from kernellab.bench import measure_speeds
    from kernellab.report.document import Document
    from kernellab.report.text import console, print_table

    output.check_files(json_file, html_file)
    with output.progress() as progress:
        speeds = measure_speeds(progress)
    table = speed_table(speeds)
    document = Document("bench", tables=(table,), values=values_of(speeds), environment=machine())
    output.save(document, json_file, html_file)
    if not output.is_silent(json_file):
        print_table(console(), table)
    output.fail(not speeds.is_fast)


def machine() -> dict[str, str]:
    """Return versions, the processor and how many cores this process may use."""
    import os
    import platform

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        **output.environment(),
        "processor": platform.processor() or platform.machine(),
        "cores": str(cores),
    }


def values_of(speeds: Speeds) -> dict[str, float]:
    """Return the numbers by name, in SI units."""
    found = {}
    for timing in speeds.timings:
        found[f"{timing.name}: thread_instructions"] = float(timing.instructions)
        found[f"{timing.name}: seconds"] = timing.seconds
        found[f"{timing.name}: thread_instructions_per_second"] = timing.rate
    found["geometric_mean: thread_instructions_per_second"] = speeds.mean_rate
    found["simulator: seconds"] = speeds.simulator_seconds
    found["simulator: seconds of this emulator"] = speeds.emulator_seconds
    return found


def speed_table(speeds: Speeds) -> Table:
    """Return the timings as a table."""
    from kernellab.bench import MEAN_BAR

    rows = []
    for timing in speeds.timings:
        bar = f"{plain(timing.bar / 1e6)} M/s" if timing.bar else ""
        limit = f"{plain(timing.most_seconds)} s" if timing.most_seconds else ""
        rows.append(
            (
                timing.name,
                f"{timing.threads:,}",
                f"{timing.instructions / 1e6:.2f}",
                f"{timing.seconds:.4f}",
                f"{timing.rate / 1e6:.1f}",
                bar or limit,
                "yes" if timing.is_fast else "NO",
            )
        )
    mean = speeds.mean_rate
    mean_bar = f"{plain(MEAN_BAR / 1e6)} M/s"
    rows.append(
        (
            "geometric mean of the first four",
            "",
            "",
            "",
            f"{mean / 1e6:.1f}",
            mean_bar,
            "yes" if mean >= MEAN_BAR else "NO",
        )
    )
    ratio = speeds.simulator_seconds / speeds.emulator_seconds
    note = speeds.simulator_note
    if ratio == ratio:
        note = (
            f"Numba's simulator: {speeds.simulator_seconds:.3f} s, this emulator: "
            f"{speeds.emulator_seconds:.4f} s, {ratio:.0f} x ({note})"
        )
    columns = (
        Column("kernel"),
        Column("threads", "counted", is_number=True),
        Column("million\nthread-instr.", "counted", is_number=True),
        Column("seconds", "measured", is_number=True),
        Column("million\na second", "measured", is_number=True),
        Column("bar"),
        Column("reached"),
    )
    return Table(
        "The emulator with counting on (median of runs after one to warm up)", columns, tuple(rows), (note,)
    )
