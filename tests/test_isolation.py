"""Kernels in a process of their own: what they break stays there."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import kernellab as kl
from kernellab import catalog, isolation
from kernellab.problem import Case


def apart(kernel, *arrays, **options):
    return kl.measure(kernel, *arrays, isolated=True, **{"device": "emulator", **options})


def test_the_record_is_the_one_made_here():
    x = np.arange(70, dtype=np.float32)
    assert apart("copy/strided", x, stride=3) == kl.measure("copy/strided", x, device="emulator", stride=3)


def test_cases_constants_and_sources_travel(tmp_path):
    kernel = catalog.kernel("transpose/naive")
    wrong = tmp_path / "wrong.cu"
    wrong.write_text(kernel.text().replace("y[j * rows + i]", "y[i * columns + j]"), encoding="utf-8")
    record = apart(
        replace(kernel, constants={**kernel.constants, "TILE": 16}, source=wrong),
        case=Case("mine", {"rows": 3, "columns": 5}),
    )
    assert (record.case, record.block, record.is_right) == ("mine", (16, 16, 1), False)


def test_errors_come_back_as_themselves():
    with pytest.raises(kl.ArgumentError, match="relu/branch: x has dtype float64, it must be float32"):
        apart("relu/branch", np.zeros(3))


def test_a_child_that_dies_is_named(monkeypatch):
    real = subprocess.run

    def dying(command, **options):
        return real([sys.executable, "-c", "import os; os.abort()"], **options)

    monkeypatch.setattr(isolation.subprocess, "run", dying)
    with pytest.raises(kl.ExecutionError, match="copy/scalar: its process died with status -6"):
        apart("copy/scalar", np.zeros(3, np.float32))
    monkeypatch.undo()
    assert apart("copy/scalar", np.zeros(3, np.float32)).is_right


def test_a_child_that_hangs_is_ended(monkeypatch):
    real = subprocess.run

    def hanging(command, **options):
        return real([sys.executable, "-c", "import time; time.sleep(60)"], **{**options, "timeout": 0.3})

    monkeypatch.setattr(isolation.subprocess, "run", hanging)
    with pytest.raises(kl.ExecutionError, match="its process took longer than 600 s and was ended"):
        apart("copy/scalar", np.zeros(3, np.float32))


def test_what_cannot_be_sent():
    kernel = catalog.kernel("copy/scalar")
    with pytest.raises(kl.SpecError, match="outputs of an isolated run stay in its process"):
        apart(kernel, np.zeros(3, np.float32), out=np.zeros(3, np.float32))
    with pytest.raises(kl.SpecError, match="an isolated run needs a device by name"):
        apart(kernel, device=kl.EmulatedDevice())
    with pytest.raises(kl.SpecError, match="only constants and source may differ from the catalogue's"):
        apart(replace(kernel, deterministic=False))
