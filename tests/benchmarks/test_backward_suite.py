"""The suite backward on a fake GPU: what is timed and judged, labels that are classes, bars that can be missed."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))
from timing_fakes import FakeGpu, FakeStopwatch, make_bench

from kernellab import catalog
from kernellab.report.results import markdown_table, shown_rows
from kernellab.suites import backward
from kernellab.suites.arena import Arena
from kernellab.suites.backward import Heat
from kernellab.suites.bench import Bench
from kernellab.suites.peer_works import Peer

CHOSEN = (
    Heat("softmax_cross_entropy", "float16", 40, 400),
    Heat("bias_gelu_backward", "float32", 8192, 5 * 8192),
    Heat("column_sum", "bfloat16", 64, 640),
)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(FakeGpu, "build", lambda self, kernel, language="cuda-c": None)
    return make_bench()


def with_peers(monkeypatch: pytest.MonkeyPatch, stopwatch: FakeStopwatch, factor: float = 1.0) -> None:
    """Peers that answer by the catalogue's references, right or wrong."""

    def peer(problem: str) -> Peer:
        reference = catalog.problem(problem).reference

        def make(setting):
            def call():
                stopwatch.pass_time(1e-6)
                found = next(iter(reference(**setting.inputs, **setting.parameters).values()))
                return (found * factor).astype(setting.out.dtype)

            return call

        return Peer("theirs", make, slack=4.0)

    monkeypatch.setattr(backward, "PEERS", {problem: (peer(problem),) for problem in backward.PEERS})


def test_everything_is_timed_and_right(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    with_peers(monkeypatch, bench.stopwatch)
    found = backward.run(bench, CHOSEN)
    ran = {row["workload"] for row in found.rows if "samples" in row}
    assert {
        "softmax_cross_entropy/online cuda-c",
        "softmax_cross_entropy/registers cuda-c",
        "bias_gelu_backward/fused numba",
        "bias_gelu_backward/unfused cuda-c",
        "column_sum/split cuda-c",
        "theirs",
    } <= ran
    assert not [note for note in found.notes if "WRONG" in note]
    assert [row["columns"] for row in shown_rows(found)] == [40, 8192, 64]
    assert "softmax_cross_entropy | float16" in markdown_table(found)


def test_a_peer_that_computes_something_else_has_no_time(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_peers(monkeypatch, bench.stopwatch, factor=1.1)
    found = backward.run(bench, CHOSEN[:1])
    assert "theirs" not in {row["workload"] for row in found.rows if "samples" in row}
    assert any("WRONG: theirs: dx differs in" in note for note in found.notes)
    assert not all(found.bars.values())


def test_labels_are_classes(bench: Bench) -> None:
    arena = Arena(bench, catalog.problem("softmax_cross_entropy"), CHOSEN[0].sizes, "float16")
    labels = arena.inputs["labels"]
    assert labels.dtype == np.int64
    assert labels.min() >= 0
    assert labels.max() < 40
    assert len(set(labels.tolist())) > 5


def test_a_bar_is_missed_by_the_worst() -> None:
    def rows(of_copy, theirs):
        return [
            {
                "problem": heat.problem,
                "element": heat.element,
                "sizes": {"columns": heat.columns},
                "kernel": kernel,
                "language": "cuda-c",
                "workload": kernel or "theirs",
                "seconds": 1.0 if kernel else theirs,
                "fraction_of_copy": of_copy,
            }
            for heat in backward.heats()
            for kernel in (f"{heat.problem}/a", "")
        ]

    chosen = tuple(backward.heats())
    assert len(chosen) == 24
    assert list(backward.bars(rows(0.91, 1.1), chosen).values()) == [True] * 6
    assert sum(backward.bars(rows(0.89, 1.1), chosen).values()) == 3
    slow = rows(0.91, 1.1)
    slow[3]["seconds"] = 0.9
    assert [text.partition(" (")[0] for text, holds in backward.bars(slow, chosen).items() if not holds] == [
        "softmax_cross_entropy at least as fast as PyTorch, worst softmax_cross_entropy float32, 1024 columns"
    ]
