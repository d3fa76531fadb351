"""The suite of the hierarchy: a row a level beside what is published, bars that can be missed, pictures."""

from __future__ import annotations

import math
import re
import subprocess
from itertools import pairwise
from pathlib import Path
from statistics import mode

import pytest
from timing_fakes import FakeGpu, FakeStopwatch

from kernellab import catalog
from kernellab.compile.toolchain import require_nvdisasm
from kernellab.devices.emulated import EmulatedDevice
from kernellab.experiments import atomics, levels
from kernellab.experiments.levels import BANDWIDTH, LATENCY, Reach
from kernellab.instruments.clock import Timing
from kernellab.report.results import section, shown_rows
from kernellab.results import Results, load, save, stale
from kernellab.suites import hierarchy
from kernellab.suites.bench import Bench

SAMPLES = (Timing("cold", (1e-4,) * 9), Timing("cold", (2e-4,) * 9))
HZ, PROCESSORS, L2 = 2e9, 132, 60 * levels.MIB
A_CLOCK = {"registers": 1500.0, "shared": 127.0, 64 * levels.KIB: 120.0, 16 * levels.MIB: 38.0, 2**28: 17.0}
CYCLES = {"registers": 4.0, "shared": 33.0, "constant": 40.0, 64 * levels.KIB: 37.0, 16 * levels.MIB: 290.0, 2**29: 700.0}  # fmt: skip


def reaches(quantity: str, found: dict[str | int, float]) -> tuple[Reach, ...]:
    factor = HZ * PROCESSORS if quantity == BANDWIDTH else 1 / HZ
    return tuple(
        Reach(quantity, key, 0 if key == "registers" else 1024, value * factor, HZ, SAMPLES)
        if isinstance(key, str)
        else Reach(quantity, "global", key, value * factor, HZ, SAMPLES)
        for key, value in found.items()
    )


def run(monkeypatch: pytest.MonkeyPatch, device: str = "NVIDIA H200", **slower: float) -> Results:
    given = {**A_CLOCK, **slower}
    monkeypatch.setattr(levels, "bandwidths", lambda *_: reaches(BANDWIDTH, given))
    monkeypatch.setattr(levels, "latencies", lambda *_: reaches(LATENCY, CYCLES))
    rates = [("contended", 1, 1e-2), ("contended", 2**20, 1e-4), ("warp", 1, 2e-4), ("block", 1, 1e-4)]
    found = tuple(atomics.Rate(rung, "spread", each, Timing("hot", (s,))) for rung, each, s in rates)
    monkeypatch.setattr(atomics, "rates", lambda *_: found)
    stopwatch = FakeStopwatch()
    gpu = FakeGpu(stopwatch, device)
    gpu.l2_bytes = L2
    return hierarchy.run(Bench(gpu, stopwatch))  # type: ignore[arg-type]


def test_each_level_is_a_row_and_what_is_published_a_bar(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = run(monkeypatch)
    levels_of = {(row["quantity"], row["level"]): row for row in shown_rows(found)}
    assert levels_of[BANDWIDTH, "L1"]["ratio"] == pytest.approx(120 / 128)
    assert levels_of[BANDWIDTH, "L2"]["ratio"] == pytest.approx(38 * HZ * PROCESSORS / 9.77e12)
    assert levels_of[LATENCY, "L1"]["ratio"] == pytest.approx((37 - 6) / 32)  # without making the address
    assert levels_of[LATENCY, "constant"]["measured"].startswith("29.0 cycles")
    assert levels_of[LATENCY, "shared"]["figure"] is None
    assert len(found.bars) == len(hierarchy.FIGURES)
    assert [text for text, is_near in found.bars.items() if not is_near] == []
    assert levels_of["atomics", "tally/block"]["measured"].endswith(", 100 x contended on one")
    again = load(save(found, tmp_path))
    assert again.pictures == found.pictures
    assert stale(again) == ()
    text = section([again])
    assert "additions by the addresses they go to" in text
    assert "| latency | L2 | 16 MiB |" in text


def test_more_than_a_peak_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = run(monkeypatch, shared=128.5)  # within what the clocks may do
    assert not any("refused" in line for line in found.lines)
    found = run(monkeypatch, shared=131.0)
    (refused,) = [row for row in shown_rows(found) if "refused" in str(row["measured"])]
    assert (refused["quantity"], refused["level"]) == (BANDWIDTH, "shared")
    assert math.isnan(refused["ratio"])
    assert [is_near for text, is_near in found.bars.items() if "refused" in text] == [False]
    peaks = {level for (_, level), figure in hierarchy.FIGURES.items() if figure.is_peak}
    assert peaks == {"registers", "shared", "L1", "DRAM"}


WORD = re.compile(r"/\* 0x([0-9a-f]{16}) \*/")
STALL = 105 - 64
"""Of an instruction's 128 bits the one where its stall count of four begins, in the upper word."""


@pytest.mark.parametrize("rung", ["shared", "constant", "global"])
def test_cycles_of_an_address_are_those_of_the_machine_code(rung: str, tmp_path: Path) -> None:
    each = catalog.kernel(f"chase/{rung}")
    program = EmulatedDevice().build(each)
    (tmp_path / "chase.cubin").write_bytes(program.binary(each).cubin or b"")
    command = [require_nvdisasm(), "-c", "-hex", str(tmp_path / "chase.cubin")]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (code,) = [part for part in listing.split(".section\t.text.") if part.startswith(program.entry(each))]
    found = []
    for line in code.splitlines():
        word = WORD.search(line)
        if ";" in line and word:
            found.append(line)
        elif word:
            found[-1] += f" stall {int(word[1], 16) >> STALL & 15}"
    loads = [i for i, line in enumerate(found) if re.search(r" (LDS|LDC|LDG\.E\.CONSTANT) ", line)]
    # In the middle of the loop, where nothing but what makes the address stands between two loads.
    waits = [
        sum(int(line.rsplit(" ", 1)[1]) for line in found[before + 1 : after])
        for before, after in pairwise(loads)
        if after - before == (3 if rung == "constant" else 2)
    ]
    assert len(waits) >= 10
    assert mode(waits) == hierarchy.ADDRESS[rung]  # one or two have the loop's own instructions about them


def test_a_bar_is_missed_and_no_other_chip_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = run(monkeypatch, shared=100.0)
    assert [text.partition(" within")[0] for text, is_near in slow.bars.items() if not is_near] == [
        "bandwidth of shared"
    ]
    assert run(monkeypatch, "another GPU").bars == {}
    assert len(run(monkeypatch, "NVIDIA H100 80GB").bars) == len(hierarchy.FIGURES) - 2
