"""The suite all_reduce on two fake GPUs: a row a way, a bar that can be missed, and one sentence where there is one GPU."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from fakes import Stopwatch
from rank_fakes import KERNELS, make_ranks

from kernellab.errors import UnavailableError
from kernellab.experiments import ranks
from kernellab.experiments.layers import ADD, KERNEL
from kernellab.experiments.ranks import ALL, LITTLE, Measured, Stand
from kernellab.report.results import markdown_table
from kernellab.results import load, save, stale
from kernellab.suites import all_reduce
from kernellab.suites.bench import Bench
from kernellab.timeline import Overlap

LAYERS, SIDE = 6, 64


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    world, device = make_ranks(monkeypatch)

    class Small(Stand):
        def __init__(self, device: object, language: str, tokens: int = SIDE) -> None:
            super().__init__(device, language, min(tokens, SIDE), LAYERS, SIDE)

        def choose(self, rounds: int = 1) -> None:
            super().choose(rounds)

        def measure(self, variants: object = ALL, rounds: int = 1) -> dict[str, Measured]:
            return super().measure(variants, rounds)

    monkeypatch.setattr(ranks, "Stand", Small)
    for name in ("BESIDE", "ALONE"):
        monkeypatch.setattr(ranks, name, getattr(ranks, name)[:2])
    return Bench(device, Stopwatch(world))


def test_every_way_is_a_row_in_both_languages(bench: Bench, tmp_path: Path) -> None:
    found = all_reduce.run(bench)
    table = markdown_table(found).splitlines()
    assert table[0] == "| iteration | CUDA C | all-reduce in Numba | why not more |"
    for variant in ALL:
        (row,) = [line for line in table if f"| {variant.label} |" in line]
        assert row.count(" ms, overlap ") == 2
        assert (variant.reason or "| - |") in row
    for start in ("compute alone", "all-reduce alone, by kernel", "all-reduce alone, by copies"):
        (row,) = [line for line in table if line.startswith(f"| {start} |")]
        assert row.count(" ms |") == 2
    (row,) = [line for line in table if f"the same with {LITTLE} tokens" in line]
    assert "of the all-reduce hidden | - |" in row
    assert all(found.bars.values())
    assert found.is_good
    assert any("GB/s one way" in note for note in found.notes)
    assert any("fastest shapes, beside: " in note for note in found.notes)
    assert len(found.pictures) == 5
    again = load(save(found, tmp_path))
    assert stale(again) == ()
    both = [f"{name} {language}" for name in (KERNEL, ADD) for language in ("cuda-c", "numba")]
    assert set(again.sources) == {*both, *(f"{name} cuda-c" for name in all_reduce.PRODUCTS)}


def test_the_bar_can_be_missed(bench: Bench) -> None:
    def measured(seconds: float) -> dict[str, Measured]:
        overlap = Overlap(seconds, {ranks.COMPUTE: 1.0, ranks.REDUCE: 0.5})
        return {each.label: Measured(each, (seconds,), overlap, ()) for each in ALL}

    assert all(all_reduce.bars({"cuda-c": measured(1.1)}).values())
    ((text, is_reached),) = all_reduce.bars({"cuda-c": measured(1.2)}).items()
    assert (text, is_reached) == (
        "all-reduce at once at least 0.9 of the longer of it and computing alone (is 0.833)",
        False,
    )
    assert not any(all_reduce.bars({}).values())


def test_a_language_that_is_wrong_is_left_out_and_said(bench: Bench) -> None:
    world = bench.device.cupy.cuda.runtime.deviceEnablePeerAccess.__self__
    world.kernels = {**KERNELS, "all_reduce_vectorised": lambda x, y, rank, n: None}
    found = all_reduce.run(bench)
    assert any(note.startswith("CUDA C was left out: all-reduce, all at the end: ") for note in found.notes)
    assert not found.is_good


def test_one_gpu_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    world, device = make_ranks(monkeypatch, devices=1)
    with pytest.raises(
        UnavailableError, match="it takes two GPUs that reach each other's memory, one is here"
    ):
        all_reduce.run(dataclasses.replace(Bench(device, Stopwatch(world))))
