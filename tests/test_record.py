"""Records: what ran is what they say; strict JSON there and back."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import kernellab as kl
from kernellab import catalog
from kernellab.record import Record
from kernellab.source_code import source_hash


def measure(kernel="transpose/padded", *arrays, **options):
    return kl.measure(kernel, *arrays, device="emulator", **options)


def back(record):
    return Record.from_dict(json.loads(json.dumps(record.to_dict(), allow_nan=False)))


@pytest.mark.parametrize("kernel", ["transpose/padded", "shared_stride/quads", "copy/float4_faulty"])
@pytest.mark.parametrize("language", ["cuda-c", "numba"])
def test_json_there_and_back(kernel, language):
    record = measure(kernel, language=language)
    assert back(record) == record


def test_nan_becomes_null_and_nan_again():
    record = replace(measure(), readings=(kl.Reading("ratio", math.nan, "1", "counted"),))
    data = record.to_dict()
    assert data["readings"][0]["value"] is None
    assert math.isnan(back(record).value("ratio"))


def test_it_says_what_ran():
    kernel = replace(catalog.kernel("transpose/padded"), constants={"TILE": 16})
    record = measure(kernel, np.zeros((20, 50), "float32"))
    assert (record.grid, record.block, record.constants) == ((4, 2, 1), (16, 16, 1), {"TILE": 16})
    assert record.sizes == {"rows": 20, "columns": 50}
    assert record.dtypes == {"x": "float32", "y": "float32"}
    assert (record.kernel, record.language, record.device, record.arch) == (
        "transpose/padded", "cuda-c", "emulator", "sm_90",
    )  # fmt: skip
    assert record.case == ""
    assert record.verdict.is_right
    assert {"python", "numpy", "system", "device", "arch"} <= set(record.environment)


def test_case_and_parameters():
    record = measure("copy/strided", case="stride 3, offset 17")
    assert record.case == "stride 3, offset 17"
    assert record.parameters == {"stride": 3}
    assert type(record.parameters["stride"]) is int
    assert measure("copy/strided", case="stride 3, offset 17", stride=5).parameters == {"stride": 5}


def test_sources_have_their_own_hashes(tmp_path):
    kernel = catalog.kernel("copy/scalar")
    changed = tmp_path / "scalar.cu"
    changed.write_text(kernel.text() + "\nconstexpr int more = 1;\n")
    hashes = [
        measure(kernel).source_hash,
        measure(replace(kernel, source=changed)).source_hash,
        measure("copy/offset").source_hash,
        measure(kernel, language="numba").source_hash,
    ]
    assert len(set(hashes)) == 4
    assert measure(kernel).source_hash == hashes[0]
    changed.write_text(kernel.text() + "\n// one more comment\n")
    assert source_hash(replace(kernel, source=changed), "cuda-c") == hashes[0]


def test_a_header_decides_the_hash_too(tmp_path):
    source, header = tmp_path / "scalar.cu", tmp_path / "shared.cuh"
    source.write_text('#include "shared.cuh"\n' + catalog.kernel("copy/scalar").text())
    header.write_text("#define MORE 1\n")
    kernel = replace(catalog.kernel("copy/scalar"), source=source)
    first = source_hash(kernel, "cuda-c")
    header.write_text("#define MORE 2  // other\n")
    assert source_hash(kernel, "cuda-c") != first


def test_reading_by_name():
    record = measure()
    assert record.reading("registers").source == "derived"
    assert record.value("registers") == record.reading("registers").value
    with pytest.raises(
        kl.SpecError, match="transpose/padded: there is no reading 'speed'; there are warp_ins"
    ):
        record.reading("speed")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.pop("format"), "its format is None, this version reads 1; measure again"),
        (lambda data: data.pop("grid"), "it is damaged \\('grid'\\), it must be what to_dict gave"),
        (lambda data: data.update(grid=[1, 2]), "it is damaged \\(not enough values"),
        (lambda data: data["readings"][0].pop("unit"), "it is damaged"),
    ],
)
def test_damaged(change, message):
    data = measure().to_dict()
    change(data)
    with pytest.raises(kl.SpecError, match=message):
        Record.from_dict(data)


def test_not_a_record():
    with pytest.raises(
        kl.SpecError, match="record: its format is 'list', this version reads 1; measure again"
    ):
        Record.from_dict([])


@pytest.mark.parametrize("name", ["seconds_cold", "bytes_per_second", "fraction_of_copy"])
def test_a_wrong_kernel_has_no_speed(name):
    speed = kl.Reading(name, 1.0, "1", "measured")
    right, wrong = measure(), measure("relu/multiply", case="special values")
    assert replace(right, readings=(speed,)).value(name) == 1
    with pytest.raises(
        kl.SpecError, match=f"relu/multiply: a wrong kernel has no speed, it carries {name}; leave"
    ):
        replace(wrong, readings=(speed,))
