"""Hardware counters by source line, on a page built from Nsight Compute's documented columns."""

from __future__ import annotations

import csv
import io
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest

import kernellab as kl
from kernellab import catalog
from kernellab.instruments import counter_lines, counters
from kernellab.instruments.counter_lines import parse_source_page

HEADER = (
    "Line No", "Source", "Address", "Source", "Warp Stall Sampling (All Samples)", "# Samples",
    "Instructions Executed", "Thread Instructions Executed", "Predicated-On Thread Instructions Executed",
    "Avg. Threads Executed", "Avg. Predicated-On Threads Executed", "Divergent Branches", "Address Space",
    "Access Operation", "Access Size", "L1 Tag Requests Global", "L1 Wavefronts Shared",
    "L1 Wavefronts Shared Ideal",
    "L2 Theoretical Sectors Global", "L2 Theoretical Sectors Global Ideal",
)  # fmt: skip


def row(number, text, address="-", sass="-", *, executed=0, lanes=0, on=0, divergent=0, space="-", requests=0,
        wavefronts=0, ideal=0, sectors=0, least=0):  # fmt: skip
    mean, mean_on = (f"{count / executed:.2f}" if executed else "0" for count in (lanes, on))
    return (
        number, text, address, sass, 3, 1, f"{executed:,}", f"{lanes:,}", f"{on:,}", mean, mean_on, divergent,
        space,
        "-", "-", f"{requests:,}", wavefronts, ideal, f"{sectors:,}", least,
    )  # fmt: skip


def page(*kernels):
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    for path, name, rows in kernels:
        writer.writerow(("File Path", path))
        writer.writerow(("Function Name", name))
        writer.writerow(HEADER)
        writer.writerows(rows)
    return "==PROF== importing\n" + out.getvalue()


TILED = (
    row(1, "// comment"),
    row(10, "tile[j][i] = x[k];", executed=4096, lanes=131072, on=131072, requests=2048, wavefronts=2048,
        ideal=2048, sectors=8192, least=8192),
    row("", "", "0x7f0010", "LDG.E.CONSTANT R2, [R4]", executed=2048, lanes=65536, on=65536, requests=2048,
        sectors=8192, least=8192, space="Global"),
    row("", "", "0x7f0020", "STS [R6], R2", executed=2048, lanes=65536, on=65536, wavefronts=2048, ideal=2048,
        space="Shared"),
    row("...", "..."),
    row(14, "y[m] = tile[i][j];", executed=2048, lanes=65536, on=32768, divergent=7, requests=2048,
        wavefronts=65536, ideal=2048, sectors=8192, least=8192),
)  # fmt: skip


def test_lines_hold_the_sums_and_sass_rows_are_not_added_again():
    first, second = parse_source_page(page(("/k/tiled.cu", "transpose_tiled", TILED)))
    assert (first.file, first.number, first.text) == ("/k/tiled.cu", 10, "tile[j][i] = x[k];")
    assert (first.warp_instructions, first.mean_active_lanes) == (4096, 32)
    assert (first.requests, first.sectors, first.ideal_sectors) == (2048, 8192, 8192)
    assert (first.shared_wavefronts, first.bank_conflicts) == (2048, 0)
    assert (second.number, second.bank_conflicts, second.divergent_branches) == (14, 63488, 7)
    assert second.mean_active_lanes == 16  # lanes that are on


def test_several_kernels_and_files_follow_each_other():
    other = (row(3, "y[i] = x[i];", executed=2, lanes=64, on=64, requests=4, sectors=16, least=16),)
    found = parse_source_page(page(("a.cu", "k", TILED), ("b.cu", "m", other)))
    assert [(line.file, line.number) for line in found] == [("a.cu", 10), ("a.cu", 14), ("b.cu", 3)]


@pytest.mark.parametrize("cell", ["n/a", "-", ""])
def test_cells_without_a_number_count_nothing(cell):
    rows = [list(TILED[1])]
    rows[0][HEADER.index("L1 Tag Requests Global")] = cell
    (line,) = parse_source_page(page(("a.cu", "k", rows)))
    assert (line.requests, line.sectors) == (0, 8192)


def test_a_page_of_nothing_that_ran_is_empty():
    assert parse_source_page(page(("a.cu", "k", (row(1, "// comment"),)))) == ()


@pytest.mark.parametrize("text", ["", "==ERROR== no report", '"ID","Kernel Name"\n"0","k"\n'])
def test_a_page_that_is_none_is_an_error(text):
    with pytest.raises(kl.ExecutionError, match="source page has no header that is known here"):
        parse_source_page(text)


def test_ncu_is_run_twice_and_its_page_read(monkeypatch):
    commands = []

    def run(command, **options):
        commands.append(command)
        return SimpleNamespace(returncode=0, stdout=page(("a.cu", "k", TILED)), stderr="")

    monkeypatch.setattr(counters, "profile", lambda jobs, options, timeout: commands.append(options))
    monkeypatch.setattr(counters, "find_ncu", lambda: "ncu")
    monkeypatch.setattr(subprocess, "run", run)
    job = counters.Job(catalog.kernel("copy/scalar"), {"x": np.zeros(3, np.float32)})
    assert [line.number for line in counters.line_counters(job)] == [10, 14]
    collect, read = commands
    assert collect[:4] == ["--section", "SourceCounters", "--import-source", "yes"]
    assert read[-4:] == ["source", "--csv", "--print-source", "cuda,sass"]
    assert read[2] == f"{collect[-1]}.ncu-rep"


def test_locked_counters_are_said(monkeypatch):
    def locked(jobs, options, timeout):
        counters.check_output(1, "ERR_NVGPUCTRPERM", "")

    monkeypatch.setattr(counters, "profile", locked)
    job = counters.Job(catalog.kernel("copy/scalar"), {"x": np.zeros(3, np.float32)})
    with pytest.raises(kl.UnavailableError, match="locked"):
        counter_lines.line_counters(job)
