"""The suite streams on fake GPUs: a row a way, bars that can be missed, and what does not fit left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from timing_fakes import FakeGpu, FakeStopwatch

from kernellab.errors import ExecutionError, OutOfMemoryError
from kernellab.experiments import launches, overlap
from kernellab.experiments.launches import GRAPH, PREPARED, USUAL, Launched
from kernellab.experiments.overlap import ALL, Measured
from kernellab.instruments.clock import Timing
from kernellab.kernel import LANGUAGES
from kernellab.report.numbers import language_name
from kernellab.report.results import markdown_table
from kernellab.results import load, save, stale
from kernellab.suites import streams
from kernellab.suites.bench import Bench
from kernellab.timeline import Overlap, Span

SIZES = (2**10, 2**12)


def measured(seconds: float = 5.2) -> dict[str, Measured]:
    alone = {"copy in": 4.0, "compute": 5.0, "copy out": 2.0}
    slow = {each.label for each in (*overlap.BROKEN, overlap.ONE)}
    spans = (Span("compute", 0, 0, 0.0, 1.0),)
    return {
        each.label: Measured(each, (1.0,), Overlap(11.0 if each.label in slow else seconds, alone), spans)
        for each in ALL
    }


def launched(language: str, n: int, plain: float = 3e-4) -> Launched:
    how = (USUAL[language], PREPARED, GRAPH)
    times = dict(zip(how, (2 * plain, plain, 1e-4), strict=True))
    timings = {each: Timing("hot", (seconds,)) for each, seconds in times.items()}
    return Launched(language, n, timings, dict.fromkeys(how, 5e-6))


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    class Stand:
        def __init__(self, device: object, language: str, n: int) -> None:
            self.n = n

        def balance(self) -> None:
            """Nothing to be balanced."""

        def measure(self, variants: object) -> dict[str, Measured]:
            return {each.label: measured()[each.label] for each in variants}

    monkeypatch.setattr(streams, "Stand", Stand)
    monkeypatch.setattr(launches, "measure", lambda device, language, n: launched(language, n))
    stopwatch = FakeStopwatch()
    return Bench(FakeGpu(stopwatch), stopwatch)


def test_every_way_is_a_row_in_both_languages(bench: Bench, tmp_path: Path) -> None:
    found = streams.run(bench, SIZES, (2**10, 2**20))
    table = markdown_table(found).splitlines()
    assert table[0] == "| what | CUDA C | Numba | why not more |"
    for variant in ALL:
        (row,) = [line for line in table if f"| pipeline, {variant.label} |" in line]
        assert ("overlap none" in row) == (
            variant.label in {each.label for each in (*overlap.BROKEN, overlap.ONE)}
        )
    assert any("| 64 launches, CUDA graph | 100 us, 5 us of the host a kernel |" in line for line in table)
    assert any(
        "| plain launches over a graph, 1048576 elements | 3.00 x | 3.00 x |" in line for line in table
    )
    assert any(f"| pipeline, 3 streams, {SIZES[0]} elements |" in line for line in table)
    assert found.pictures[0].title.split(": ")[0] == "Measured, CUDA C, 1 stream"
    assert len(found.pictures) == 4
    assert all(found.bars.values())
    assert len(found.bars) == 4
    again = load(save(found, tmp_path))
    assert stale(again) == ()
    assert {name.split()[0] for name in again.sources} == {overlap.KERNEL, launches.KERNEL}


@pytest.mark.parametrize("language", LANGUAGES)
def test_bars_can_be_missed(language: str) -> None:
    pipelines = {each: {2**10: measured(5.7 if each == language else 5.2)} for each in LANGUAGES}
    times = {each: [launched(each, 2**10)] for each in LANGUAGES}
    (missed,) = [text for text, is_reached in streams.bars(pipelines, times).items() if not is_reached]
    assert (
        missed == f"pipeline in {language_name(language)} at least 0.9 of its longest stage alone (is 0.877)"
    )
    times[language] = [launched(language, 2**10, 1.8e-4)]
    pipelines[language] = {2**10: measured()}
    (missed,) = [text for text, is_reached in streams.bars(pipelines, times).items() if not is_reached]
    assert (
        missed
        == f"64 small kernels in {language_name(language)}: graph at least 1.9 times plain launches (is 1.800)"
    )


def test_what_does_not_fit_and_what_fails_is_said(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(bench: Bench, language: str, largest: int, n: int) -> dict[str, Measured]:
        if n == largest:
            raise OutOfMemoryError("gpu: out of memory")
        return {overlap.ONE.label: measured()[overlap.ONE.label]}

    def broken(device: object, language: str, n: int) -> Launched:
        raise ExecutionError("scale/scalar: CUDA says no")

    monkeypatch.setattr(streams, "_pipelines", short)
    monkeypatch.setattr(launches, "measure", broken)
    found = streams.run(bench, SIZES)
    notes = "; ".join(found.notes)
    assert "left out: 1 of 2 sizes, from 4096 on: gpu: out of memory" in notes
    assert "launches in numba were left out: scale/scalar: CUDA says no" in notes
    assert not any(found.bars.values())
