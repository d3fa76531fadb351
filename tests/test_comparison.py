"""`compare`: both languages on the same arrays, side by side."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import kernellab as kl
from kernellab import catalog


@pytest.fixture(scope="module")
def both():
    return kl.compare("shared_stride/pairs", device="emulator")


def test_both_are_right_and_equal(both):
    assert [record.language for record in both.records] == ["cuda-c", "numba"]
    assert both.is_right
    assert both.has_equal_outputs


def test_rows_hold_both_values(both):
    rows = {row.name: row for row in both.rows}
    for name in (
        "shared_load_bank_conflicts",
        "registers",
        "occupancy",
        "ptx_instructions",
        "sass_instructions",
    ):
        values = tuple(record.value(name) for record in both.records)
        assert rows[name].values == values
    assert rows["shared_load_bank_conflicts"].is_equal
    assert not rows["ptx_instructions"].is_equal
    assert not [name for name in rows if "/" in name]


def test_mix(both):
    ptx = {row.name: row.values for row in both.mix("ptx")}
    assert ptx["ptx/ld.global"] == (1, 1)
    totals = {row.name: row.values for row in both.rows}
    for kind in ("ptx", "sass"):
        sums = tuple(sum(row.values[side] for row in both.mix(kind)) for side in (0, 1))
        assert sums == totals[f"{kind}_instructions"]
    counts = [max(row.values) for row in both.mix("sass")]
    assert counts == sorted(counts, reverse=True)
    with pytest.raises(kl.SpecError, match="shared_stride/pairs: mix is 'llvm', it must be 'ptx' or 'sass'"):
        both.mix("llvm")


def test_own_arrays_and_parameters():
    x = np.arange(64, dtype=np.float32)
    found = kl.compare("copy/strided", x[::-1], stride=4, device="emulator")
    assert [record.parameters for record in found.records] == [{"stride": 4}] * 2
    assert all("x was copied" in record.notes[0] for record in found.records)


def test_outputs_that_differ_are_seen():
    def doubling(element):
        from numba import cuda

        def copy_scalar(x, y):
            i = cuda.grid(1)
            if i < x.size:
                y[i] = x[i] * x[i]

        return copy_scalar

    kernel = replace(catalog.kernel("copy/scalar"), twin=doubling)
    found = kl.compare(kernel, np.array([1, 2, 3], np.float32), device="emulator")
    assert not found.has_equal_outputs
    assert [record.is_right for record in found.records] == [True, False]
    assert found.outputs[0].message.startswith(
        "y differs in 2 of 3 elements, first at [1]: expected 2.0, got 4.0"
    )


def test_json(both):
    data = json.loads(json.dumps(both.to_dict(), allow_nan=False))
    assert [kl.Record.from_dict(item) for item in data["records"]] == list(both.records)
    assert data["outputs"][0]["wrong"] == 0


def test_a_reading_that_only_one_has():
    found = kl.compare("relu/branch", case="33 elements", device="emulator")
    first, second = found.records
    readings = tuple(item for item in second.readings if item.name != "registers")
    lame = replace(found, records=(first, replace(second, readings=readings)))
    (row,) = [row for row in lame.rows if row.name == "registers"]
    assert row.values[0] == first.value("registers")
    assert math.isnan(row.values[1])
    assert not row.is_equal
