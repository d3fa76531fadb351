"""Hardware counters by source line: Nsight Compute's source page, in the rows that the emulator gives."""

from __future__ import annotations

import csv
import io
import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from kernellab.emulator.summary import Line
from kernellab.errors import ExecutionError
from kernellab.instruments import counters

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "number": ("Line No", "# Line", "#"),
    "text": ("Source",),
    "warp_instructions": ("Instructions Executed", "# Instructions Executed", "inst_executed"),
    "lanes": ("Thread Instructions Executed", "thread_inst_executed"),
    "mean_active_lanes": ("Avg. Threads Executed", "Average Threads Executed"),
    "lanes_on": ("Predicated-On Thread Instructions Executed", "thread_inst_executed_true"),
    "mean_lanes_on": ("Avg. Predicated-On Threads Executed", "Average Predicated-On Threads Executed"),
    "branches": ("Branch Instructions", "derived__branch_inst_executed"),
    "divergent_branches": ("Divergent Branches", "smsp__branch_targets_threads_divergent"),
    "space": ("Address Space", "memory_type"),
    "access_bits": ("Access Size", "memory_access_size_type"),
    "requests": ("L1 Tag Requests Global", "memory_l1_tag_requests_global"),
    "sectors": ("L2 Theoretical Sectors Global", "memory_l2_theoretical_sectors_global"),
    "ideal_sectors": ("L2 Theoretical Sectors Global Ideal", "memory_l2_theoretical_sectors_global_ideal"),
    "shared_wavefronts": ("L1 Wavefronts Shared", "memory_l1_wavefronts_shared"),
    "shared_ideal": ("L1 Wavefronts Shared Ideal", "memory_l1_wavefronts_shared_ideal"),
}
"""Our name -> the headings under which versions of Nsight Compute print it."""


def line_counters(job: counters.Job, timeout: float = 300.0) -> tuple[Line, ...]:
    """Run one job under Nsight Compute and return its counters by source line.

    Parameters
    ----------
    job : counters.Job
    timeout : float
        Seconds.

    Returns
    -------
    tuple of Line
        Rows as the emulator gives them, ``sectors`` and ``ideal_sectors`` being the L2's theoretical ones,
        and ``bank_conflicts`` the wavefronts beyond the ideal. Instructions are those of the machine code.
        Where a launch has several kernels their rows follow each other.

    Raises
    ------
    UnavailableError
        If there is no Nsight Compute, or the counters are locked.
    ExecutionError
        If it failed otherwise, or its page has no column that is known here.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "lines"
        options = ["--section", "SourceCounters", "--import-source", "yes", "-f", "-o", str(report)]
        counters.profile([job], options, timeout)
        command = [
            counters.find_ncu(), "-i", f"{report}.ncu-rep", "--page", "source", "--csv",
            "--print-source", "cuda,sass",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        counters.check_output(done.returncode, done.stdout, done.stderr)
    return parse_source_page(done.stdout)


def parse_source_page(text: str) -> tuple[Line, ...]:
    """Read ``ncu --page source --csv --print-source cuda,sass``.

    Parameters
    ----------
    text : str
        For each file its path, for each kernel its name, a header with ``Line No`` and ``Address`` (and
        ``Source`` twice), and a row a source line, with the sums of its SASS instructions, whose rows follow:
        those have an address and no number.

    Returns
    -------
    tuple of Line
        Of source lines that were executed.

    Raises
    ------
    ExecutionError
        If no header is found.
    """
    found: list[Line] = []
    header: list[str] = []
    file = ""
    for row in csv.reader(io.StringIO(text)):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if _is_header(cells):
            header = cells
        elif (name := _file_of(cells)) is not None:
            file, header = name, []
        elif header and (line := _line(header, cells, file)) is not None:
            found.append(line)
    if not found and not _has_header(text):
        start = text.strip().splitlines()[:2]
        raise ExecutionError(
            f"counters: ncu's source page has no header that is known here: {' | '.join(start)}"
        )
    return tuple(found)


def _is_header(cells: list[str]) -> bool:
    return any(name in cells for name in COLUMNS["warp_instructions"]) and any(
        name in cells for name in COLUMNS["text"]
    )


def _has_header(text: str) -> bool:
    return any(_is_header([cell.strip() for cell in row]) for row in csv.reader(io.StringIO(text)))


def _file_of(cells: list[str]) -> str | None:
    """Return the path that a title row names, or None for any other row."""
    filled = [cell for cell in cells if cell]
    if filled[0] in ("File Path", "File Name", "File") and len(filled) == 2:
        return filled[1]
    return None


def _line(header: list[str], cells: list[str], file: str) -> Line | None:
    """Return one row's numbers; None for SASS instructions, and for lines that nothing executed."""
    values: dict[str, str] = {}
    for name, cell in zip(header, cells, strict=False):
        values.setdefault(name, cell)  # the first "Source" is the line's, the second the instruction's

    def text_of(what: str) -> str:
        return next((values[each] for each in COLUMNS[what] if values.get(each)), "")

    def number(what: str) -> float:
        try:
            return float(text_of(what).replace(",", ""))
        except ValueError:  # empty, "-", or "n/a"
            return 0.0

    if not re.fullmatch(r"\d+", text_of("number")) or not number("warp_instructions"):
        return None
    issued = int(number("warp_instructions"))
    lanes = number("lanes_on") or number("lanes")
    mean = number("mean_lanes_on") or number("mean_active_lanes") or lanes / issued
    wavefronts, ideal = int(number("shared_wavefronts")), int(number("shared_ideal"))
    line = Line(file, int(text_of("number")), text_of("text"))
    return replace(
        line,
        warp_instructions=issued,
        mean_active_lanes=mean,
        branches=int(number("branches")),
        divergent_branches=int(number("divergent_branches")),
        requests=int(number("requests")),
        sectors=int(number("sectors")),
        ideal_sectors=int(number("ideal_sectors")),
        shared_wavefronts=wavefronts,
        bank_conflicts=max(wavefronts - ideal, 0),
    )
