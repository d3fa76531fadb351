"""`check`: right rungs pass, exhibits must fail where their fault shows."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import timing_fakes
from experiment_runs import mutant_of

from kernellab.catalog import kernel
from kernellab.errors import ExecutionError
from kernellab.experiments.check import check
from kernellab.report.checks import check_tables


def test_an_exhibit_fails_on_its_case_only() -> None:
    found = check([kernel("relu/multiply")], "emulator", ("cuda-c",))
    assert [item.case for item in found if not item.is_right] == ["special values"]
    assert all(item.is_expected for item in found)
    table = check_tables(found)[0]
    assert table.rows == (
        ("relu/multiply", f"{len(found) - 1} of {len(found)} right, 1 wrong on purpose", "right"),
    )


def test_an_exhibit_that_works_is_wrong() -> None:
    cured = dataclasses.replace(
        kernel("relu/branch_free"), fails_on=("special values",), fault="none, really"
    )
    found = check([cured], "emulator", ("cuda-c",))
    (wrong,) = [item for item in found if not item.is_expected]
    assert wrong.message == "it should show its fault here and gives the right answer"


def test_a_missing_barrier_is_found(tmp_path: Path) -> None:
    broken = mutant_of("transpose/tiled", tmp_path, ("__syncthreads();", ""))
    found = check([broken], "emulator", ("cuda-c",))
    assert any("race" in item.message for item in found)
    assert not all(item.is_expected for item in found)
    tables = check_tables(found)
    assert tables[0].rows[0][-1] == "WRONG"
    assert len(tables) == 2


def test_a_source_that_does_not_compile_is_one_failure_a_case(tmp_path: Path) -> None:
    broken = mutant_of("relu/branch", tmp_path, ("y[i] = value;", "y[i] = walue;"))
    found = check([broken], "emulator", ("cuda-c",))
    assert len(found) == len(broken.problem.cases)
    assert not any(item.is_expected for item in found)


def test_a_gpu_times_nothing_and_runs_what_may_fault_in_a_process_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    apart = []

    def measure_apart(rung, arrays, options, out, parameters):
        apart.append((rung.id, options["case"].name, options["device"]))
        raise ExecutionError(f"{rung.id}: CUDA says an illegal memory access was encountered")

    monkeypatch.setattr("kernellab.isolation.measure_apart", measure_apart)
    gpu = timing_fakes.FakeGpu(timing_fakes.FakeStopwatch())
    exhibit = kernel("copy/float4_faulty")
    found = check([exhibit, kernel("copy/scalar")], gpu, ("cuda-c",))
    assert all(item.is_expected for item in found)
    assert apart == [(exhibit.id, name, "gpu") for name in exhibit.fails_on]
    assert "mark" not in gpu.stopwatch().events
