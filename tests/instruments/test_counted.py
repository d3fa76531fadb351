"""The emulator's counts as Readings: names, units, notes."""

from __future__ import annotations

import re

import numpy as np
import pytest

import kernellab as kl
from kernellab import catalog
from kernellab.instruments import trace as counts
from kernellab.plan import bind

CATEGORIES = [f"global_{kind}" for kind in ("load", "store", "atomic")]
CATEGORIES += [f"shared_{kind}" for kind in ("load", "store", "atomic")] + ["local_load", "local_store"]


def run(name):
    device = kl.EmulatedDevice()
    kernel = catalog.kernel(name)
    program = device.build(kernel)
    plan = bind(kernel, kernel.problem.inputs(kernel.problem.cases[0]))
    return device, program, plan


def test_names_and_units():
    found = {item.name: item for item in counts.read(*run("transpose/tiled"))}
    expected = {
        "warp_instructions": "instructions",
        "thread_instructions": "instructions",
        "warp_efficiency": "1",
    }
    expected |= {"branches": "branches", "divergent_branches": "branches"}
    expected |= {f"sectors_per_request_{kind}": "sectors/request" for kind in ("load", "store")}
    for category in CATEGORIES:
        expected[f"{category}_requests"] = "requests"
        if category.startswith("shared"):
            expected |= {f"{category}_wavefronts": "wavefronts", f"{category}_bank_conflicts": "conflicts"}
        else:
            expected |= {f"{category}_sectors": "sectors", f"{category}_lines": "lines"}
    assert {name: found[name].unit for name in expected} == expected
    assert {item.source for item in found.values()} == {"counted"}


def test_notes_say_on_what_it_was_counted():
    found = {item.name: item.note for item in counts.read(*run("transpose/tiled"))}
    on_ptx = {name for name, note in found.items() if note == "PTX"}
    assert on_ptx == {"ptx_warp_instructions", "ptx_thread_instructions"}
    assert {note for name, note in found.items() if name not in on_ptx} == {"SASS"}


def test_values_are_those_of_the_trace():
    device, program, plan = run("copy/strided")
    traces = device.run(program, plan).traces
    assert {item.name: item.value for item in counts.readings(traces)} == pytest.approx(
        dict(traces[0].totals), nan_ok=True
    )


def test_no_launch_no_reading():
    device = kl.EmulatedDevice()
    kernel = catalog.kernel("copy/scalar")
    empty = bind(kernel, {"x": np.zeros(0, "float32")})
    assert counts.read(device, device.build(kernel), empty) == ()


def test_counts_in_headers_are_what_is_measured():
    for rung in catalog.ladder("transpose"):
        record = kl.measure(rung, device="emulator")
        for count in rung.header.counts:
            if count.space == "global":
                assert record.value(f"sectors_per_request_{count.operation}") == count.value
        assert not [text for text in record.diagnostics if re.search("race|unwritten", text)]
