"""Hardware counters on a fake ncu: its table, what it lacks, and how it refuses."""

from __future__ import annotations

import json
import math
import os
import stat
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from fakes import make_gpu

import kernellab as kl
from kernellab import catalog
from kernellab.instruments import counters
from kernellab.instruments.counters import METRICS, Job, parse_raw_page, read_counters, readings
from kernellab.kernel import Tuning

JOB = Job(catalog.kernel("copy/scalar"), {"x": np.zeros(8, np.float32)})
NAMES = ("global_load_requests", "global_load_sectors", "seconds")


def page(*rows, units=("", "", "nsecond"), metrics=tuple(METRICS[name] for name in NAMES)):
    """Write what ``ncu --csv --page raw`` prints."""
    lines = ["==PROF== Connected to process 1234", "==PROF== Profiling 'copy_scalar'"]
    table = [
        ("ID", "Kernel Name", *metrics),
        ("", "", *units),
        *((str(i), "k", *row) for i, row in enumerate(rows)),
    ]
    lines += [",".join(f'"{cell}"' for cell in row) for row in table]
    return "\n".join(lines) + "\n"


@pytest.fixture
def ncu(tmp_path, monkeypatch):
    """Return a function that puts a program called ncu on the PATH, which prints a text and ends."""

    def install(output="", status=0, launches=(1,)):
        program = tmp_path / "ncu"
        answer = tmp_path / "output.txt"
        answer.write_text(output, encoding="utf-8")
        program.write_text(
            f"#!{sys.executable}\nimport json, sys, pathlib\n"
            f"pathlib.Path({str(tmp_path / 'seen.json')!r}).write_text(json.dumps(sys.argv[1:]))\n"
            "folder = pathlib.Path(sys.argv[-1])\n"
            f"if folder.is_dir(): (folder / 'launches.json').write_text({json.dumps(list(launches))!r})\n"
            f"sys.stdout.write(open({str(answer)!r}).read())\n"
            f"sys.exit({status})\n",
            encoding="utf-8",
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        return lambda: json.loads((tmp_path / "seen.json").read_text(encoding="utf-8"))

    return install


def test_values_have_names_and_si_units(ncu):
    seen = ncu(page(("1,024", "4,096", "5,250.5")))
    ((values,),) = read_counters([JOB], NAMES)
    assert values == {
        "global_load_requests": 1024,
        "global_load_sectors": 4096,
        "seconds": pytest.approx(5.2505e-6),
    }
    arguments = seen()
    assert arguments[arguments.index("--metrics") + 1] == ",".join(METRICS[name] for name in NAMES)
    assert arguments[:2] == ["--clock-control", "none"]


@pytest.mark.parametrize(
    ("unit", "scale"),
    [("nsecond", 1e-9), ("us", 1e-6), ("msecond", 1e-3), ("second", 1.0), ("Gbyte", 1e9), ("%", 0.01)],
)
def test_units(unit, scale):
    (values,) = parse_raw_page(page(("1", "1", "2.5"), units=("", "", unit)), NAMES)
    assert values["seconds"] == pytest.approx(2.5 * scale)


@pytest.mark.parametrize("cell", ["n/a", "", "(!) nan"])
def test_a_value_that_is_not_there_is_not_a_number(cell):
    (values,) = parse_raw_page(page((cell, "4", "1")), NAMES)
    assert math.isnan(values["global_load_requests"])
    assert values["global_load_sectors"] == 4


def test_a_metric_that_the_chip_lacks_is_not_a_number():
    text = page(("4",), units=("",), metrics=(METRICS["global_load_sectors"],))
    (values,) = parse_raw_page(text, NAMES)
    assert math.isnan(values["seconds"])
    assert values["global_load_sectors"] == 4


def test_launches_go_to_their_jobs(ncu):
    ncu(page(("1", "1", "1"), ("2", "2", "2"), ("3", "3", "3")), launches=(1, 2))
    found = read_counters([JOB, JOB], NAMES)
    assert [[values["global_load_requests"] for values in job] for job in found] == [[1], [2, 3]]


def test_a_launch_that_ncu_did_not_see_is_an_error(ncu):
    ncu(page(("1", "1", "1")), launches=(2,))
    with pytest.raises(kl.ExecutionError, match="ncu reported 1 launches, 2 were made"):
        read_counters([JOB], NAMES)


def test_locked_counters(ncu):
    ncu("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance", 1)
    with pytest.raises(
        kl.UnavailableError, match=r"counters are locked .*; run as root, .*emulator's counts remain"
    ):
        read_counters([JOB], NAMES)


def test_a_profiler_that_does_not_start(ncu):
    ncu("==ERROR== Failed to initialize the profiler", 1)
    with pytest.raises(kl.UnavailableError, match="ncu cannot start its profiler here"):
        read_counters([JOB], NAMES)


def test_another_failure_carries_the_last_words(ncu):
    ncu("Traceback\nValueError: no", 9)
    with pytest.raises(kl.ExecutionError, match=r"ncu ended with status 9: Traceback \| ValueError: no"):
        read_counters([JOB], NAMES)


def test_no_ncu(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.setattr(counters.os, "access", lambda *arguments: False)
    with pytest.raises(kl.UnavailableError, match="there is no ncu"):
        read_counters([JOB], NAMES)


def test_jobs_are_written_whole(tmp_path):
    counters.write_jobs(
        tmp_path, [Job(catalog.kernel("copy/strided"), {"x": np.arange(4.0)}, {"stride": np.int32(3)})]
    )
    (job,) = json.loads((tmp_path / "jobs.json").read_text(encoding="utf-8"))
    assert (job["kernel"], job["parameters"], job["language"]) == ("copy/strided", {"stride": 3}, "cuda-c")
    assert np.load(tmp_path / "inputs0.npz")["x"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("language", ["cuda-c", "numba"])
def test_the_child_shows_the_profiler_the_plan_and_nothing_else(tmp_path, monkeypatch, language):
    from kernellab.instruments import profiled

    world, _ = make_gpu(monkeypatch)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    counters.write_jobs(tmp_path, [Job(catalog.kernel("transpose/naive"), {"x": x}, {}, language)] * 2)
    profiled.main(str(tmp_path))
    assert json.loads((tmp_path / "launches.json").read_text(encoding="utf-8")) == [1, 1]
    kinds = [item[0] for item in world.log if item[0] in ("launch", "profile", "done")]
    shown = ["profile", "launch", "done"]
    assert kinds == (shown * 2 if language == "cuda-c" else ["launch", *shown] * 2)


def test_the_child_runs_a_kernel_as_it_is_tuned_for_its_sizes(tmp_path, monkeypatch):
    from kernellab.instruments import profiled

    world, _ = make_gpu(monkeypatch)
    tuned = replace(
        catalog.kernel("transpose/naive"), tuning=Tuning({"TILE": 32}, lambda sizes, element: {"TILE": 16})
    )
    monkeypatch.setattr(catalog, "kernel", lambda name: tuned)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    counters.write_jobs(tmp_path, [Job(tuned, {"x": x})])
    profiled.main(str(tmp_path))
    assert [item[0] for item in world.log].count("launch") == 1


def test_importing_the_child_does_nothing():
    code = "import sys, kernellab.instruments.profiled as first; print('cupy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# -- as Readings
def test_readings_add_launches_up_and_work_out_ratios():
    launch = {
        "global_load_requests": 4.0, "global_load_sectors": 16.0, "global_store_requests": 0.0,
        "global_store_sectors": 0.0, "global_atom_requests": 1.0, "global_red_requests": 2.0,
        "warp_instructions": 10.0, "thread_instructions": 160.0, "achieved_occupancy": 0.5,
        "seconds": 1e-6,
        "branches": 3.0, "dram_bytes_read": math.nan,
    }  # fmt: skip
    found = {item.name: item for item in readings([launch, launch])}
    assert found["global_load_requests"].value == 8
    assert found["sectors_per_request_load"].value == 4
    assert "sectors_per_request_store" not in found  # no requests
    assert found["global_atomic_requests"].value == 6
    assert found["warp_efficiency"].value == 0.5
    assert found["achieved_occupancy"].value == 0.5
    assert (found["seconds_ncu"].value, found["seconds_ncu"].unit) == (2e-6, "s")
    assert "branch_targets" in found
    assert "dram_bytes_read" not in found
    assert {item.source for item in found.values()} == {"measured"}
    assert found["global_load_requests"].note == METRICS["global_load_requests"]


def test_no_launch_no_readings():
    assert readings([]) == ()
