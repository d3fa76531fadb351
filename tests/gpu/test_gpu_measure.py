"""measure on a GPU: verified speeds, their labels, large arrays, the emulator beside."""

from __future__ import annotations

import json

import numpy as np
import pytest

import kernellab as kl


@pytest.mark.parametrize("mode", ["cold", "hot", "graph"])
@pytest.mark.parametrize("language", ["cuda-c", "numba"])
def test_modes(device, mode, language):
    record = kl.measure("transpose/padded", device="gpu", mode=mode, language=language)
    assert record.is_right
    assert 1e-7 < record.value(f"seconds_{mode}") < 1e-2
    assert record.reading(f"seconds_{mode}").source == "measured"
    assert record.value("bytes_per_second") > 0
    assert any(note.startswith(f"{mode}:") for note in record.notes)
    assert len(record.timings[0].samples) >= 15
    assert kl.Record.from_dict(json.loads(json.dumps(record.to_dict(), allow_nan=False))) == record


def test_a_large_copy_reaches_the_copy_ceiling(device):
    x = np.random.default_rng(0).standard_normal(2**26, dtype=np.float32)
    record = kl.measure("copy/float4", x, device="gpu")
    assert record.is_right
    assert 0.95 < record.value("fraction_of_copy") < 1.05


def test_cupy_inputs_stay_as_they_are(cupy):
    x = cupy.asarray(np.random.default_rng(0).random((1000, 1000), dtype=np.float32))
    before = x.copy()
    record = kl.measure("transpose/tiled", x)
    assert record.device == "gpu"
    assert record.is_right
    assert (x == before).all()


def test_accumulators_are_zeroed_outside_the_timed_span(device):
    from kernellab import catalog

    kernel = next(k for k in catalog.kernels() if k.zeroed and not k.fault)
    assert kl.measure(kernel, device="gpu").is_right


def test_a_wrong_kernel_has_no_speed(device, write_kernel):
    kernel = write_kernel("if (i < n) y[i] = i == 17 ? x[i] + 1 : x[i];")
    record = kl.measure(kernel, device="gpu")
    assert "y differs in 1 of" in record.verdict.message
    assert not [item for item in record.readings if item.source == "measured"]


def test_a_kernel_that_works_only_on_fresh_outputs_is_caught(device, write_kernel):
    # The poison of floats is NaN: this one writes where it finds it, and then never again.
    kernel = write_kernel("if (i < n) y[i] = y[i] != y[i] ? x[i] : y[i] + 1;")
    record = kl.measure(kernel, device="gpu")
    assert not record.is_right
    assert "(after the timed loop)" in record.verdict.message


def test_both_puts_the_emulators_counts_beside(device):
    record = kl.measure("transpose/tiled", device="both")
    assert record.value("shared_load_bank_conflicts", "counted") == 31 * 2048
    assert record.value("seconds_cold") > 0
    assert record.lines


def test_the_record_says_what_ran(device):
    record = kl.measure("copy/float4", device="gpu", mode=None)
    assert record.arch == device.arch
    assert record.environment["driver"]
    assert record.value("registers") > 0
