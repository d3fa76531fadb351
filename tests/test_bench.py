"""The emulator's benchmark: rates from counts and seconds, bars, and no timing of a wrong answer."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import kernellab.bench as bench
from kernellab.bench import Job, Speeds, Timing, time_job
from kernellab.cli.bench_command import speed_table, values_of
from kernellab.errors import SpecError

NAMES = bench.MEAN_OF


def timing(name: str, rate: float, bar: float = 0.0, seconds: float = 0.5, most: float = 0.0) -> Timing:
    return Timing(name, 1024, int(rate * seconds), seconds, 3, bar, most)


def test_the_bars_are_those_of_the_issue() -> None:
    assert {job.name for job in bench.JOBS} >= set(NAMES)
    assert bench.MEAN_BAR == 100e6
    bars = {job.name: job.bar for job in bench.JOBS if job.bar}
    assert bars == {"uneven_work/unsorted": 20e6, "FMA loop, one block of 256": 4e6}
    assert {job.name: job.most_seconds for job in bench.JOBS if job.most_seconds} == {"transpose/padded": 2.0}


@pytest.mark.parametrize(
    "job",
    [Job("FMA loop", "", {"n": 1000}, {}), Job("s", "shared_stride/words", {"tiles": 2}, {"stride": 32})],
)
def test_a_small_job_is_counted_and_timed(job: Job) -> None:
    found = time_job(job)
    assert 1 <= found.runs <= bench.MOST_RUNS
    assert found.seconds > 0
    assert found.instructions > 10 * found.threads
    assert found.rate == pytest.approx(found.instructions / found.seconds)


def test_a_wrong_answer_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "FMA_LOOP", bench.FMA_LOOP.replace("0.999f", "0.998f"))
    with pytest.raises(SpecError, match="FMA loop gives a wrong answer, so it is not timed"):
        time_job(Job("FMA loop", "", {"n": 256}, {}))


def test_mean_and_bars() -> None:
    rates = (50e6, 100e6, 200e6, 400e6)
    timings = tuple(timing(name, rate) for name, rate in zip(NAMES, rates, strict=True))
    speeds = Speeds(timings, 10.0, 0.1, "a twin")
    assert speeds.mean_rate == pytest.approx(math.prod(rates) ** 0.25)
    assert speeds.is_fast
    slow = Speeds((*timings, timing("uneven", 19e6, bar=20e6)), 10.0, 0.1, "a twin")
    assert not slow.is_fast
    late = Speeds((*timings, timing("late", 19e6, seconds=2.5, most=2.0)), 10.0, 0.1, "a twin")
    assert not late.is_fast
    table = speed_table(slow)
    assert [row[-1] for row in table.rows] == ["yes"] * 4 + ["NO", "yes"]
    assert "100 x (a twin)" in table.notes[0]
    assert values_of(slow)["uneven: thread_instructions_per_second"] == pytest.approx(19e6)


def test_a_simulator_that_does_not_run_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "SIMULATED", "raise RuntimeError('no simulator')")
    there, here, note = bench.against_simulator(32)
    assert math.isnan(there)
    assert here > 0
    assert note == "Numba's simulator did not run: RuntimeError: no simulator"


def test_the_ratio_to_numbas_simulator() -> None:
    there, here, note = bench.against_simulator(32)
    assert there > 2 * here, note


def test_the_command_writes_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import json

    from typer.testing import CliRunner

    from kernellab.cli import app

    timings = tuple(timing(name, 200e6) for name in NAMES)
    monkeypatch.setattr(
        bench, "measure_speeds", lambda progress: Speeds(timings, math.nan, 0.1, "no simulator")
    )
    out = tmp_path / "bench.json"
    result = CliRunner().invoke(app, ["bench", "emulator", "--json", str(out)])
    assert result.exit_code == 0, result.output
    document = json.loads(out.read_text())
    assert document["values"]["geometric_mean: thread_instructions_per_second"] == pytest.approx(200e6)
    assert document["values"]["simulator: seconds"] is None
    assert document["environment"]["cores"]
