"""Whole kernels of one access against what an H200 counted (`benchmarks/measure_accesses.py` took it)."""

from __future__ import annotations

import csv
import importlib.util
from pathlib import Path

import numpy as np
import pytest

import kernellab as kl

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "h200_accesses.csv"


def _script():
    spec = importlib.util.spec_from_file_location(
        "measure_accesses", ROOT / "benchmarks" / "measure_accesses.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MEASURE = _script()
SOURCE = MEASURE.source()
with GOLDEN.open(newline="", encoding="utf-8") as file:
    ROWS = {(row["operation"], row["pattern"]): row for row in csv.DictReader(file)}


def _counted(totals, name):
    if name.startswith("global_red"):
        return 0  # the emulator keeps one number for both kinds of atomics
    if name.startswith("global_atom_"):
        return totals[name.replace("atom_", "atomic_")]
    return totals[name]


def _measured(row, name):
    value = int(row[name] or 0)
    if name.startswith("global_atom_"):
        return value + int(row[name.replace("atom_", "red_")] or 0)
    return 0 if name.startswith("global_red") else value


@pytest.fixture(scope="module")
def traces():
    """Every launch in the order of the measurement, on memory that they share as they did there."""
    memory, never = np.zeros(4096, np.uint8), np.zeros(1, np.uint64)
    found = {}
    for number, name, pattern, offsets, mask in MEASURE.launches():
        found[name, pattern] = kl.trace(
            SOURCE,
            f"access{number}",
            1,
            32,
            (memory, np.uint32(mask), never),
            shared_mem=2048,
            globals={"offsets": offsets},
        )
    return found


def _is_one_off(name, pattern, metric, counted, measured):
    """The one pattern of 4-byte atomics for which the rule of sectors gives one less than the hardware."""
    is_atomic = name.startswith(("atom.", "red."))
    return is_atomic and pattern == "random" and metric == "global_atom_sectors" and measured == counted + 1


@pytest.mark.parametrize("operation", MEASURE.operations())
def test_a_warp_costs_what_the_hardware_counted(operation, traces):
    wrong = []
    for (name, pattern), trace in traces.items():
        if name != operation:
            continue
        assert trace.source == "SASS"
        row = ROWS[name, pattern]
        for metric in MEASURE.METRICS:
            pair = _counted(trace.totals, metric), _measured(row, metric)
            if pair[0] != pair[1] and not _is_one_off(name, pattern, metric, *pair):
                wrong.append((pattern, metric, *pair))
    assert wrong == []


def test_every_row_belongs_to_a_launch():
    assert set(ROWS) == {(name, pattern) for _, name, pattern, _, _ in MEASURE.launches()}
