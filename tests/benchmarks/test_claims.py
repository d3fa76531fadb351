"""The suite of claims: a row for each, expectations as bars, one that cannot run stops no other."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from timing_fakes import FakeGpu, FakeStopwatch

from kernellab import experiments
from kernellab.errors import UnavailableError
from kernellab.experiments import load, runner
from kernellab.experiments.experiment import Experiment, Outcome, Result
from kernellab.report.results import markdown_table
from kernellab.results import load as load_results
from kernellab.results import save, stale
from kernellab.suites import claims
from kernellab.suites.bench import Bench


def bench() -> Bench:
    stopwatch = FakeStopwatch()
    return Bench(FakeGpu(stopwatch), stopwatch)  # type: ignore[arg-type]


def test_each_claim_is_a_row_and_expectations_are_bars(tmp_path: Path) -> None:
    found = claims.run(bench(), ("divergence",), "emulator")
    assert [row["claim"] for row in found.rows] == [each.text for each in load("divergence").claims]
    assert all(row["verdict"] and row["found"] for row in found.rows)
    assert list(found.bars.values()) == [True]
    for claim in load("divergence").claims:
        assert f"| {claim.text} |" in markdown_table(found)
    save(found, tmp_path)
    assert stale(load_results(tmp_path / "claims.json")) == ()


def result(*verdicts: tuple[str, str], is_right: bool = True) -> Result:
    outcomes = tuple(
        Outcome("fusing pays", "somebody", language, verdict, f"{verdict} by a number")
        for language, verdict in verdicts
    )
    ours = Outcome("it is right", "", "cuda-c", "held" if is_right else "failed", "")
    return Result("fusion", "?", "gpu", ("cuda-c", "numba"), (), (ours,), outcomes, (), (), 0.0)


def test_languages_that_differ_are_told_apart() -> None:
    (same,) = claims.claims_of(result(("cuda-c", "held"), ("numba", "held")))
    assert (same["verdict"], same["found"]) == ("held", "held by a number")
    (other,) = claims.claims_of(result(("cuda-c", "held"), ("numba", "refuted")))
    assert other["verdict"] == "CUDA C: held; Numba: refuted"


def test_an_expectation_that_fails_is_a_bar_missed() -> None:
    assert claims.expectation_bar(result()) == {"fusion: every expectation holds (1 of 1)": True}
    assert list(claims.expectation_bar(result(is_right=False)).values()) == [False]


def test_one_that_cannot_run_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    real = runner.run

    def run(experiment: Experiment, *rest: object) -> Result:
        if experiment.name == "fusion":
            raise UnavailableError("CuPy is not here")
        return real(experiment, *rest)  # type: ignore[arg-type]

    short = dataclasses.replace(load("divergence"), sweeps=(), expectations=(), claims=(), pictures=None)
    monkeypatch.setattr(experiments, "load", lambda name: load(name) if name == "fusion" else short)
    monkeypatch.setattr(runner, "run", run)
    found = claims.run(bench(), ("fusion", "divergence"), "emulator")
    assert "fusion was left out: CuPy is not here" in found.notes
    assert list(found.bars.values()) == [False, True]
