"""The experiment graphs: nothing is lost on the way, and what is measured can be refuted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from experiment_runs import mutant_of, result_of, with_mutant
from fakes import Stopwatch, World, make_gpu

from kernellab.errors import MismatchError
from kernellab.experiments import graphs, launches, load
from kernellab.experiments.clocked import GpuClock
from kernellab.experiments.experiment import Rows
from kernellab.experiments.launches import GRAPH, PREPARED, USUAL, Launched, time_idle
from kernellab.instruments.clock import Timing


def test_without_a_gpu_everything_holds_that_can_be_said() -> None:
    result = result_of("graphs")
    assert {outcome.verdict for outcome in result.expectations} == {"held"}
    assert {claim.verdict for claim in result.claims} == {"needs a GPU"}


def test_a_kernel_that_reads_more_than_it_must_is_seen(tmp_path: Path) -> None:
    mutant = mutant_of("scale/scalar", tmp_path, ("x[i]", "(x[i] + x[(i + n / 2) % n])"))
    result = with_mutant(load("graphs"), mutant.id, mutant)
    assert [outcome.verdict for outcome in result.expectations] == ["failed", "failed", "held"]


def test_a_launch_that_is_lost_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = graphs.apply, []

    def losing(kernel, x, **options):
        calls.append(x)
        return x if len(calls) == 5 else real(kernel, x, **options)

    monkeypatch.setattr(graphs, "apply", losing)
    rows = Rows(result_of("graphs").panels[0].records["cuda-c"])
    assert graphs.each_counts(rows) == (False, "2**63 after 64 launches, 33 of 33 elements wrong")


# -- on a fake GPU
@pytest.fixture
def device(monkeypatch):
    world, device = make_gpu(monkeypatch)
    world.kernels["scale_scalar"] = scale
    return device


def scale(x, y, alpha, n):
    with np.errstate(over="ignore"):  # row after row doubles it
        np.multiply(alpha, x, out=y)


def test_launches_are_timed_from_an_idle_device(device) -> None:
    found = launches.measure(device, "cuda-c", rounds=3)
    assert list(found.timings) == [USUAL["cuda-c"], PREPARED, GRAPH]
    for timing in found.timings.values():
        assert timing.samples == pytest.approx([64 * 1e-4] * 3)
    assert found.host_seconds[PREPARED] == pytest.approx(5e-6)
    assert found.fastest in (USUAL["cuda-c"], PREPARED)
    seen = graphs.observe(GpuClock(device, "cuda-c", is_timing=False))
    assert seen.claims == {}


def test_the_device_is_waited_for_before_and_after_each_sample(device) -> None:
    waits = []

    class Watched(Stopwatch):
        def wait(self):
            waits.append(self.world.device_seconds)

        def mark(self):
            waits.append("mark")
            return super().mark()

    time_idle(Watched(World()), {"a": lambda: None, "b": lambda: None}, 2)
    assert waits == [0.0, "mark", "mark", 0.0] * 4


@pytest.mark.parametrize("lost", [1, 2])
def test_a_graph_that_lost_a_launch_is_refused(device, monkeypatch, lost) -> None:
    real = launches.graph_of
    monkeypatch.setattr(launches, "graph_of", lambda cupy, call, repeats: real(cupy, call, repeats - lost))
    with pytest.raises(MismatchError, match="scale/scalar, CUDA graph: 1024 of 1024 elements are wrong"):
        launches.measure(device, "cuda-c", rounds=1)


def launched(n: int, plain: float, graph: float, host: float = 5e-6) -> Launched:
    timings = {PREPARED: Timing("hot", (plain,)), GRAPH: Timing("hot", (graph,))}
    return Launched("cuda-c", n, timings, {PREPARED: host, GRAPH: 1e-6})


def test_each_claim_holds_and_can_be_refuted() -> None:
    large = launched(2**24, 2e-3, 1.9e-3)
    held = graphs.verdicts([launched(2**10, 3e-4, 1e-4), large])
    assert {verdict for verdict, _ in held.values()} == {"held"}
    assert held[graphs.FASTER][1].startswith("3.00 x, against prepared by kernellab; ")
    for text, found in (
        (graphs.FASTER, [launched(2**10, 1.8e-4, 1e-4), large]),
        (graphs.COSTLY, [launched(2**10, 3e-4, 1e-4, host=1e-6), large]),
        (graphs.LONGER, [launched(2**10, 3e-4, 1e-4), launched(2**24, 8e-3, 2e-3)]),
    ):
        assert graphs.verdicts(found)[text][0] == "refuted"
