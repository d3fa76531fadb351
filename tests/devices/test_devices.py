"""Choosing a device by name."""

from __future__ import annotations

import pytest

import kernellab as kl
from kernellab import devices


@pytest.fixture
def no_gpu(monkeypatch):
    def absent():
        raise kl.UnavailableError("device: 'gpu' is not here; pass device='emulator'")

    monkeypatch.setattr(devices, "_gpu", absent)


def test_the_emulator_is_one_object():
    assert kl.device("emulator") is kl.device("emulator")
    assert kl.device("emulator").name == "emulator"


@pytest.mark.parametrize("has_driver", [True, False])
def test_auto_without_a_gpu_is_the_emulator(no_gpu, monkeypatch, has_driver):
    monkeypatch.setattr(devices, "has_driver", lambda: has_driver)
    assert kl.device("auto") is kl.device("emulator")
    assert kl.device() is kl.device("emulator")


def test_auto_warns_where_only_cupy_is_missing(monkeypatch):
    def broken():
        raise kl.UnavailableError("device: 'gpu' needs CuPy; install it") from ImportError("no module")

    monkeypatch.setattr(devices, "has_driver", lambda: True)
    monkeypatch.setattr(devices, "_gpu", broken)
    with pytest.warns(
        UserWarning, match="^device: 'auto' is the emulator; device: 'gpu' needs CuPy; install it$"
    ):
        assert kl.device() is kl.device("emulator")


def test_auto_takes_a_gpu(monkeypatch):
    found = kl.EmulatedDevice()
    monkeypatch.setattr(devices, "has_driver", lambda: True)
    monkeypatch.setattr(devices, "_gpu", lambda: found)
    assert kl.device("auto") is found


def test_without_a_driver_nobody_looks_for_a_gpu(monkeypatch):
    monkeypatch.setattr(devices, "has_driver", lambda: False)
    monkeypatch.setattr(devices, "_gpu", None)
    assert kl.device("auto").name == "emulator"


def test_the_gpu_asked_for_and_absent(no_gpu):
    with pytest.raises(kl.UnavailableError, match="device: 'gpu' is not here"):
        kl.measure("copy/scalar", device="gpu")


def test_unknown():
    with pytest.raises(
        kl.SpecError, match="device: 'cuda' is no device, it must be one of auto, gpu, emulator"
    ):
        kl.device("cuda")
    with pytest.raises(kl.ArgumentError, match="device is a NoneType, it must be a name or a device"):
        kl.device(None)


def test_a_device_comes_back():
    own = kl.EmulatedDevice("sm_80")
    assert kl.device(own) is own
