"""Hardware counters beside the emulator's: requests, sectors and wavefronts agree, by launch and by line."""

from __future__ import annotations

import numpy as np
import pytest

import kernellab as kl
from kernellab import catalog
from kernellab.instruments import counters

KERNELS = ("copy/scalar", "copy/strided", "transpose/naive", "transpose/tiled", "transpose/padded")
NAMES = (
    "global_load_requests", "global_load_sectors", "global_store_requests", "global_store_sectors",
    "shared_load_requests", "shared_store_requests", "shared_load_wavefronts", "shared_store_wavefronts",
)  # fmt: skip


def job(name, language="cuda-c"):
    kernel = catalog.kernel(name)
    given = kernel.problem.inputs(kernel.problem.cases[0])
    return counters.Job(
        kernel, {operand.name: given[operand.name] for operand in kernel.inputs}, {}, language
    )


def or_skip(function, *arguments):
    try:
        return function(*arguments)
    except kl.UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def hardware():
    jobs = [job(name, language) for name in KERNELS for language in ("cuda-c", "numba")]
    found = or_skip(counters.read_counters, jobs)
    keys = [(name, language) for name in KERNELS for language in ("cuda-c", "numba")]
    return dict(zip(keys, found, strict=True))


@pytest.mark.parametrize("language", ["cuda-c", "numba"])
@pytest.mark.parametrize("name", KERNELS)
def test_the_emulator_counts_what_the_hardware_counts(hardware, name, language):
    (launch,) = hardware[name, language]
    device = kl.EmulatedDevice(kl.device("gpu").arch)
    record = kl.measure(name, device=device, language=language)
    assert {key: launch[key] for key in NAMES} == {key: record.value(key) for key in NAMES}


def test_time_agrees_with_ncu(hardware):
    """Within 2 us or 2 %: cold in both, ncu's own clocks left alone."""
    (launch,) = hardware["transpose/naive", "cuda-c"]
    record = kl.measure("transpose/naive", device="gpu")
    assert record.value("seconds_cold") == pytest.approx(launch["seconds"], rel=0.02, abs=2e-6)


def test_measure_puts_them_beside_each_other(device):
    record = kl.measure("transpose/tiled", device="both", counters="ncu", mode=None)
    assert record.value("shared_load_wavefronts", "counted") > 0
    if not any(item.source == "measured" for item in record.readings):
        pytest.skip(next(note for note in record.notes if note.startswith("counters")))
    assert record.value("shared_load_wavefronts", "measured") == record.value(
        "shared_load_wavefronts", "counted"
    )


def test_by_line(device):
    lines = or_skip(counters.line_counters, job("transpose/tiled"))
    counted = kl.measure("transpose/tiled", device=kl.EmulatedDevice(device.arch)).lines
    conflicts = {line.number: line.bank_conflicts for line in counted if line.bank_conflicts}
    assert conflicts
    assert {line.number: line.bank_conflicts for line in lines if line.bank_conflicts} == conflicts
    sectors = {line.number: line.sectors for line in counted if line.sectors}
    assert {line.number: line.sectors for line in lines if line.sectors} == sectors


def test_reading_counters_leaves_this_process_alone(hardware, device):
    x = np.ones(8, np.float32)
    assert np.array_equal(kl.copy(x, device="gpu"), x)
