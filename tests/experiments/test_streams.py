"""The experiment streams: what it says without a GPU, what it measures on a lazy one, and that all of it can fail."""

from __future__ import annotations

import importlib
from functools import partialmethod
from pathlib import Path

import pytest
from experiment_runs import mutant_of, result_of, with_mutant
from fakes import FakeArray, make_gpu
from lazy_fakes import LazyWorld

from kernellab.errors import MismatchError
from kernellab.experiments import load, overlap, streams
from kernellab.experiments.clocked import GpuClock
from kernellab.experiments.experiment import Result
from kernellab.experiments.overlap import ALL, BROKEN, GOOD, Measured, Stand
from kernellab.experiments.picture import Timeline
from kernellab.report.document import Document
from kernellab.report.html import page
from kernellab.report.pictures import ASCII, draw
from kernellab.timeline import Overlap, Span

N, CHUNKS = 2**16, 24


def verdicts(result: Result) -> list[str]:
    return [outcome.verdict for outcome in result.expectations]


def test_without_a_gpu_everything_holds_that_can_be_said() -> None:
    result = result_of("streams")
    assert set(verdicts(result)) == {"held"}
    assert {claim.verdict for claim in result.claims} == {"needs a GPU"}
    assert [each.title[:9] for each in result.pictures] == ["Scheduled"] * 3
    (told,) = [note for note in result.notes if "kl.pipeline" in note]
    assert "chunks=32, streams=3" in told.partition("Without one")[0]
    assert "in 4 chunks, the answers of pipelines in 1, 3, 7, 16 are compared, and schedules of 8" in told
    assert Result.from_dict(result.to_dict()).pictures == result.pictures
    assert 'title="chunk 7 on stream 1: ' in page([Document("run", experiments=(result,), environment={})])


def test_a_kernel_that_treats_the_whole_otherwise_breaks_two(tmp_path: Path) -> None:
    mutant = mutant_of("uneven_work/unsorted", tmp_path, ("= trips[i];", "= trips[i] + (n > 2000);"))
    assert verdicts(with_mutant(load("streams"), mutant.id, mutant)) == ["failed", "failed", "held"]


def test_a_pipeline_that_gives_another_answer_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    pipelines = importlib.import_module("kernellab.pipeline")
    real = pipelines._one_after_the_other

    def wrong(work, answers, *rest):
        real(work, answers, *rest)
        answers["y"][5] += len(work.parts) - 1

    monkeypatch.setattr(pipelines, "_one_after_the_other", wrong)
    rows = streams.Rows(result_of("streams").panels[0].records["cuda-c"])
    assert streams.answers_agree(rows) == (False, "3 of 2048 elements differ in 3, 7, 16 chunks")


# -- on a fake GPU
@pytest.fixture
def stand(monkeypatch):
    world, device = make_gpu(monkeypatch, LazyWorld)
    world.kernels["uneven_work_unsorted"] = lambda x, trips, y, n: y.__setitem__(..., x * (2 - 2.0**-trips))
    real = Stand.set_steps

    def set_steps(self, steps):
        real(self, steps)
        world.kernel_seconds = 1e-7 * steps

    monkeypatch.setattr(Stand, "set_steps", set_steps)
    monkeypatch.setattr(Stand, "measure", partialmethod(Stand.measure, rounds=1))
    return Stand(device, "cuda-c", N, CHUNKS)


def test_computing_is_made_as_long_as_is_wanted(stand) -> None:
    stand.balance()
    alone = stand.stages_alone(1)
    longer = max(alone["copy in"], alone["copy out"])
    assert alone["compute"] == pytest.approx(overlap.BALANCE * longer, rel=0.05)


def test_every_way_is_measured_and_what_breaks_it_is_seen(stand) -> None:
    stand.balance()
    found = stand.measure()
    assert list(found) == [variant.label for variant in ALL]
    best = overlap.best_of(found)
    assert best.overlap.of_ideal > 0.9
    for variant in (overlap.ONE, overlap.PAGEABLE, overlap.SYNCHRONISED):
        assert str(found[variant.label].overlap).startswith("overlap none"), variant.label
        assert variant.reason in str(found[variant.label])
    assert found[overlap.DEFAULT.label].overlap.hidden < 0.5
    assert all(len(each.samples) == 1 and each.spans for each in found.values())


def test_a_wrong_way_has_no_speed(stand) -> None:
    stand.pageable["x"][7] += 1
    with pytest.raises(
        MismatchError, match="pipeline, pageable memory: 1 of 65536 elements differ from those of 3"
    ):
        stand.measure()


def test_a_wrong_kernel_has_no_speed(stand) -> None:
    FakeArray.world.kernels["uneven_work_unsorted"] = lambda x, trips, y, n: y.__setitem__(..., x)
    stand.set_steps(3)
    with pytest.raises(MismatchError, match="uneven_work/unsorted"):
        stand.measure()


def test_on_a_gpu_claims_are_judged_and_time_lines_drawn(stand, monkeypatch) -> None:
    monkeypatch.setattr(overlap, "Stand", lambda device, language: stand)
    seen = streams.observe(GpuClock(stand.device, "cuda-c"))
    assert set(seen.claims) == {claim.text for claim in load("streams").claims}
    assert {text: verdict for text, (verdict, _) in seen.claims.items()} == dict.fromkeys(seen.claims, "held")
    assert "overlap none" in seen.claims[streams.PINNED][1]
    lines = [each for each in seen.pictures if isinstance(each, Timeline)]
    assert lines[0].title.split(": ")[0] == "Measured, CUDA C, 1 stream"
    drawn = [line.plain for line in draw(lines[1], 80, ASCII)]
    assert drawn[2].strip().startswith("compute")
    assert drawn[-1].rstrip().endswith("ms")
    assert max(map(len, drawn[1:])) <= 80


def test_where_a_profiler_watches_the_pipeline_runs_and_nothing_is_judged(stand, monkeypatch) -> None:
    monkeypatch.setattr(overlap, "Stand", lambda device, language, n, chunks: stand)
    seen = streams.observe(GpuClock(stand.device, "cuda-c", is_timing=False))
    assert seen.claims == {}
    assert len(seen.pictures) == 1


def measured(seconds: dict[str, float]) -> dict[str, Measured]:
    alone = {"copy in": 4.0, "compute": 5.0, "copy out": 2.0}
    return {
        each.label: Measured(each, (), Overlap(seconds.get(each.label, 5.2), alone), ()) for each in ALL
    }  # fmt: skip


SLOW = {each.label: 11.0 for each in (*BROKEN, GOOD[0])}


def test_each_claim_can_be_refuted() -> None:
    little = measured({GOOD[0].label: 6.0})
    good = streams.verdicts(measured(SLOW), little)
    assert {verdict for verdict, _ in good.values()} == {"held"}
    for text, label in (
        (streams.PINNED, overlap.PAGEABLE.label),
        (streams.POINTS, overlap.SYNCHRONISED.label),
        (streams.DEFAULTS, overlap.DEFAULT.label),
        (streams.IN_ORDER, overlap.ONE.label),
    ):
        found = streams.verdicts(measured({**SLOW, label: 5.3}), little)
        assert found[text][0] == "refuted"
    assert streams.verdicts(measured(SLOW), measured({GOOD[0].label: 60.0}))[streams.WORK][0] == "refuted"
    slow = {each.label: 8.0 for each in ALL}
    assert streams.verdicts(measured(slow), little)[streams.HIDES][0] == "refuted"


def test_a_time_line_without_spans_is_drawn_too() -> None:
    (title, *rows) = draw(Timeline("nothing", "ms", ()), 80, ASCII)
    assert title.plain.startswith("nothing")
    assert len(rows) == 4
    assert draw(Timeline("one", "ms", (Span("compute", 0, 0, 0.0, 0.0),)), 80, ASCII)
