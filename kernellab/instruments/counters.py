"""Hardware counters: Nsight Compute in a child process, its metrics under kernellab's names.

`ncu` replays each launch with cold caches and the clocks as they are. Where it is missing, or the counters
are locked, `UnavailableError` says so, and the emulator's counts are what remains.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kernellab.errors import ExecutionError, UnavailableError
from kernellab.instruments.reading import Reading
from kernellab.instruments.trace import unit_of
from kernellab.kernel import Kernel, Language

if TYPE_CHECKING:
    from kernellab.emulator.summary import Line

METRICS: Mapping[str, str] = {
    "global_load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "global_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "global_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "global_atom_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum",
    "global_red_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum",
    "global_atom_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum",
    "global_red_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum",
    "local_load_requests": "l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum",
    "local_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
    "local_store_requests": "l1tex__t_requests_pipe_lsu_mem_local_op_st.sum",
    "local_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",
    "shared_load_requests": "smsp__sass_inst_executed_op_shared_ld.sum",
    "shared_store_requests": "smsp__sass_inst_executed_op_shared_st.sum",
    "shared_load_wavefronts": "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_store_wavefronts": "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared_load_wavefronts_hardware": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_store_wavefronts_hardware": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared_load_bank_conflicts_hardware": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared_store_bank_conflicts_hardware": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "warp_instructions": "smsp__inst_executed.sum",
    "warp_instructions_sass": "smsp__sass_inst_executed.sum",
    "thread_instructions": "smsp__thread_inst_executed.sum",
    "thread_instructions_on": "smsp__sass_thread_inst_executed_pred_on.sum",
    "divergent_branches": "smsp__sass_branch_targets_threads_divergent.sum",
    "branches": "smsp__sass_branch_targets.sum",
    "seconds": "gpu__time_duration.sum",
    "dram_bytes_read": "dram__bytes_read.sum",
    "dram_bytes_written": "dram__bytes_write.sum",
    "achieved_occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
}
"""kernellab's name -> Nsight Compute's metric."""

RENAMED: Mapping[str, str] = {"seconds": "seconds_ncu", "branches": "branch_targets"}
"""Where a Reading has another name than above: the emulator counts something else under that one."""

_UNITS = {"seconds": "s", "dram_bytes_read": "B", "dram_bytes_written": "B", "achieved_occupancy": "1"}

_SCALES = {
    "nsecond": 1e-9, "ns": 1e-9, "usecond": 1e-6, "us": 1e-6, "msecond": 1e-3, "ms": 1e-3, "second": 1.0,
    "s": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "%": 0.01,
}  # fmt: skip


@dataclass(frozen=True)
class Job:
    """One plan to be run under the profiler.

    Attributes
    ----------
    kernel : Kernel
        Of the catalogue, with any constants.
    inputs : mapping of str to numpy.ndarray
    parameters : mapping of str to number
    language : {"cuda-c", "numba"}
    """

    kernel: Kernel
    inputs: Mapping[str, Any]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    language: Language = "cuda-c"


def find_ncu() -> str:
    """Return the path of ``ncu``.

    Raises
    ------
    UnavailableError
        If there is none.
    """
    found = shutil.which("ncu")
    for folder in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        if found is None and folder and os.access(Path(folder) / "bin" / "ncu", os.X_OK):
            found = str(Path(folder) / "bin" / "ncu")
    if found is None:
        raise UnavailableError(
            "counters: there is no ncu (Nsight Compute) on the PATH; install it, or take the emulator's "
            "counts"
        )
    return found


def read_counters(
    jobs: Sequence[Job], metrics: Sequence[str] = tuple(METRICS), timeout: float = 600.0
) -> list[list[dict[str, float]]]:
    """Run jobs under Nsight Compute, all in one child process.

    Parameters
    ----------
    jobs : sequence of Job
    metrics : sequence of str
        Keys of `METRICS`.
    timeout : float
        Seconds for all of them.

    Returns
    -------
    list of list of dict
        For each job one dict a launch: kernellab's name -> value, in SI units; nan where ncu gave none.

    Raises
    ------
    UnavailableError
        No ncu, or the counters are locked; says which.
    ExecutionError
        If the child failed otherwise.
    """
    options = ["--csv", "--page", "raw", "--metrics", ",".join(METRICS[name] for name in metrics)]
    output, launches = profile(jobs, options, timeout)
    rows = parse_raw_page(output, metrics)
    if len(rows) != sum(launches):
        raise ExecutionError(f"counters: ncu reported {len(rows)} launches, {sum(launches)} were made")
    found, position = [], 0
    for count in launches:
        found.append(rows[position : position + count])
        position += count
    return found


def profile(jobs: Sequence[Job], options: Sequence[str], timeout: float) -> tuple[str, list[int]]:
    """Run jobs under Nsight Compute in a child process; return what it printed, and each job's launches.

    Raises
    ------
    UnavailableError, ExecutionError
        See `read_counters`.
    """
    program = find_ncu()
    with tempfile.TemporaryDirectory() as folder:
        write_jobs(Path(folder), jobs)
        command = [
            program, "--clock-control", "none", "--profile-from-start", "off", *options,
            sys.executable, "-m", "kernellab.instruments.profiled", folder,
        ]  # fmt: skip
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            raise ExecutionError(
                f"counters: ncu took longer than {timeout:.0f} s; give it fewer jobs"
            ) from None
        check_output(done.returncode, done.stdout, done.stderr)
        launches = json.loads((Path(folder) / "launches.json").read_text(encoding="utf-8"))
    return done.stdout, launches


def readings(launches: Sequence[Mapping[str, float]]) -> tuple[Reading, ...]:
    """Return hardware counters as Readings, launches added up.

    Parameters
    ----------
    launches : sequence of mapping of str to float
        As `read_counters` gives for one job.

    Returns
    -------
    tuple of Reading
        All ``measured``; the note is Nsight Compute's name. What this chip lacks is left out.

    Examples
    --------
    >>> found = readings([{"global_load_sectors": 3.0}, {"global_load_sectors": 4.0}])
    >>> [(item.name, item.value) for item in found]
    [('global_load_sectors', 7.0)]
    """
    names = dict.fromkeys(name for launch in launches for name in launch)
    total = {name: sum(launch.get(name, math.nan) for launch in launches) for name in names}
    if "achieved_occupancy" in total:
        total["achieved_occupancy"] /= max(len(launches), 1)
    found = [
        Reading(RENAMED.get(name, name), value, _UNITS.get(name) or unit_of(name), "measured", METRICS[name])
        for name, value in total.items()
        if not math.isnan(value)
    ]
    return (*found, *_derived(total))


def _derived(total: Mapping[str, float]) -> list[Reading]:
    """Return what the emulator counts in one number and the hardware in two, and ratios."""
    found = []

    def add(name: str, value: float, unit: str, note: str) -> None:
        if not math.isnan(value):
            found.append(Reading(name, value, unit, "measured", note))

    def get(name: str) -> float:
        return total.get(name, math.nan)

    for what in ("requests", "sectors"):
        add(
            f"global_atomic_{what}",
            get(f"global_atom_{what}") + get(f"global_red_{what}"),
            what,
            "atom + red",
        )
    for kind in ("load", "store"):
        requests = get(f"global_{kind}_requests")
        ratio = get(f"global_{kind}_sectors") / requests if requests else math.nan
        add(f"sectors_per_request_{kind}", ratio, "sectors/request", "sectors / requests")
    issued = get("warp_instructions")
    lanes = get("thread_instructions") / (32 * issued) if issued else math.nan
    add("warp_efficiency", lanes, "1", "smsp__thread_inst_executed_per_inst_executed.ratio / 32")
    return found


def check_output(status: int, output: str, errors: str) -> None:
    """Turn what ncu says when it fails into one sentence."""
    text = output + errors
    if "ERR_NVGPUCTRPERM" in text:
        raise UnavailableError(
            "counters: this GPU's performance counters are locked (ERR_NVGPUCTRPERM); run as root, or let "
            "the "
            "administrator set NVreg_RestrictProfilingToAdminUsers=0; the emulator's counts remain"
        )
    if "LibraryNotLoaded" in text or "Failed to initialize the profiler" in text:
        raise UnavailableError("counters: ncu cannot start its profiler here; the emulator's counts remain")
    if status != 0:
        tail = " | ".join(text.strip().splitlines()[-6:])
        raise ExecutionError(f"counters: ncu ended with status {status}: {tail}")


def parse_raw_page(text: str, metrics: Sequence[str]) -> list[dict[str, float]]:
    """Read ``ncu --csv --page raw``: a header, a line of units, a line a launch."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    rows = list(csv.reader(io.StringIO("\n".join(lines[start:]))))
    header, units = rows[0], rows[1]
    found = []
    for row in rows[2:]:
        if len(row) != len(header):
            continue
        values = {}
        for name in metrics:
            try:
                column = header.index(METRICS[name])
                number = float(row[column].replace(",", ""))
            except ValueError:  # a metric that this chip lacks, or "n/a"
                values[name] = float("nan")
                continue
            values[name] = number * _SCALES.get(units[column], 1.0)
        found.append(values)
    return found


def write_jobs(folder: Path, jobs: Sequence[Job]) -> None:
    """Write jobs for the child: one JSON file and one archive of inputs for each."""
    described = []
    for i, job in enumerate(jobs):
        np.savez(folder / f"inputs{i}.npz", **{name: np.asarray(a) for name, a in job.inputs.items()})  # type: ignore[arg-type]
        described.append(
            {
                "kernel": job.kernel.id,
                "constants": dict(job.kernel.constants),
                "source": None if job.kernel.source is None else str(job.kernel.source),
                "parameters": {name: np.asarray(value).item() for name, value in job.parameters.items()},
                "language": job.language,
                "dtypes": {name: np.asarray(array).dtype.name for name, array in job.inputs.items()},
            }
        )
    (folder / "jobs.json").write_text(json.dumps(described), encoding="utf-8")


def line_counters(job: Job, timeout: float = 300.0) -> tuple[Line, ...]:
    """Run one job under Nsight Compute and return its counters by source line.

    As `counter_lines.line_counters`, which says what each number is.
    """
    from kernellab.instruments import counter_lines

    return counter_lines.line_counters(job, timeout)
