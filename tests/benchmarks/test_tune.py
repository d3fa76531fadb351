"""Sweeps of a rung's constants, on a fake GPU."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent.parent))
from timing_fakes import FakeGpu, FakeStopwatch

from kernellab import catalog
from kernellab.cli import app
from kernellab.errors import SpecError
from kernellab.instruments.clock import Rule
from kernellab.suites.bench import Bench
from kernellab.suites.tune import tune, variants


def bench() -> Bench:
    stopwatch = FakeStopwatch()
    return Bench(FakeGpu(stopwatch), stopwatch, rule=Rule(minimum=15, maximum=15))


def test_the_fastest_comes_first_and_what_is_not_valid_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = FakeGpu.calls

    def slow_when_large(self: FakeGpu, program: object, plan: object, buffers: dict) -> tuple:
        found = calls(self, program, plan, buffers)
        times = plan.kernel.constants["THREADS"] // 128
        return found * times

    monkeypatch.setattr(FakeGpu, "calls", slow_when_large)
    kernel = catalog.kernel("sum/vectorised")
    table = tune(bench(), kernel, {"n": 4096}, {"THREADS": (512, 128, 33)})
    labels = [row[0] for row in table.rows]
    assert (labels[0], labels[-1]) == ("THREADS=128", "THREADS=512")
    assert "as chosen" in labels
    assert "THREADS=128" in table.rows[0][1]
    (note,) = table.notes
    assert note.startswith("THREADS=33: sum/vectorised: THREADS is 33")


def test_a_tuned_rung_runs_with_what_was_set() -> None:
    kernel = catalog.kernel("softmax/registers")
    base = dict(kernel.tuning.base)
    (label, same), *_ = variants(kernel, {name: (value,) for name, value in base.items()}).items()
    table = tune(bench(), kernel, {"rows": 4, "columns": 64}, {n: (v,) for n, v in base.items()}, "float16")
    ran = {row[0]: row[1] for row in table.rows}
    assert ran[label] == label
    assert ran["as chosen"] != label
    assert same.tuning is None


@pytest.mark.parametrize(
    ("sizes", "sweeps", "message"),
    [
        ({"n": 8}, {"SPEED": (1,)}, "there is no constant 'SPEED' to sweep; it has"),
        ({"rows": 8}, {}, "sizes are rows, it takes n"),
    ],
)
def test_what_cannot_be_swept_is_refused(sizes: dict, sweeps: dict, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        tune(bench(), catalog.kernel("sum/vectorised"), sizes, sweeps)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["-c", "THREADS=a"], 2, "must have the form NAME=NUMBER,NUMBER"),
        (["--size", "n=1,2"], 2, "must have the form NAME=NUMBER;"),
        (["-c", "THREADS=128", "-c", "THREADS=256"], 2, "--constant THREADS=256: THREADS was given before;"),
        (["--size", "n=8", "--size", "n=16"], 2, "--size n=16: n was given before; leave one out"),
        (["-c", "SPEED=1"], 2, "there is no constant 'SPEED'"),
        (["--size", "n=2**20", "-c", "THREADS=128,256"], 3, "'gpu'"),
    ],
)
def test_the_command(monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, said: str) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    done = CliRunner().invoke(app, ["tune", "sum/vectorised", *arguments])
    assert done.exit_code == code
    assert said in " ".join(done.output.split())


def test_combinations_are_timed_in_turn_and_a_wrong_one_has_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, order = FakeGpu.calls, []

    def recorded(self: FakeGpu, program: object, plan: object, buffers: dict) -> tuple:
        threads = plan.kernel.constants["THREADS"]

        def call() -> None:
            order.append(threads)
            for each in calls(self, program, plan, buffers):
                each()
            if threads == 256:
                buffers["y"][...] = 0

        return (call,)

    monkeypatch.setattr(FakeGpu, "calls", recorded)
    table = tune(bench(), catalog.kernel("sum/vectorised"), {"n": 4096}, {"THREADS": (128, 256, 1024)})
    assert {row[0] for row in table.rows} == {"as chosen", "THREADS=128", "THREADS=1024"}
    assert any(note.startswith("WRONG: THREADS=256: y differs") for note in table.notes), table.notes
    turns = [after for before, after in itertools.pairwise(order) if before == 128]
    assert turns.count(1024) > 5  # one after the other's sample, and not all of one first
